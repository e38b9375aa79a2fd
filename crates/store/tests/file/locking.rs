//! Issue 9, A2: only one process can use a store, by whatever name it opens the file.

use crate::world::{World, job, new_dir};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use stoker_store::{SqliteOptions, SqliteStore, StoreError, tools};

fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path, SqliteOptions::default())
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

fn holder(error: &StoreError) -> Option<u32> {
    match error {
        StoreError::Locked { by, .. } => by.pid,
        other => panic!("{other}"),
    }
}

#[test]
fn a_store_in_use_is_locked_under_every_name() {
    let mut world = World::sqlite();
    let queue = world.queue("mails");
    let path = world.path().clone();
    let (link, hard, dir) = (
        path.with_file_name("link.db"),
        path.with_file_name("hard.db"),
        path.with_file_name("release"),
    );
    symlink("jobs.db", &link).unwrap();
    symlink(path.parent().unwrap(), &dir).unwrap();
    fs::hard_link(&path, &hard).unwrap();
    for name in [&path, &link, &dir.join("jobs.db"), &hard] {
        let error = open(name).err().unwrap();
        assert_eq!(holder(&error), Some(std::process::id()), "{error}");
    }
    // Removing the lock file does not help either.
    fs::remove_file(beside(&path, "-lock")).unwrap();
    for name in [&path, &link, &hard] {
        let error = open(name).err().unwrap();
        assert_eq!(holder(&error), Some(std::process::id()), "{error}");
    }
    world.load(job(queue));
    world.stop();
    for name in [&path, &link, &dir.join("jobs.db")] {
        drop(open(name).unwrap());
    }
}

#[test]
fn the_lock_error_names_the_owners_socket() {
    let path = new_dir().join("jobs.db");
    let hard = path.with_file_name("hard.db");
    let options = SqliteOptions {
        socket: Some("/run/app/stoker.sock".into()),
        ..SqliteOptions::default()
    };
    let store = SqliteStore::open(&path, options).unwrap();
    fs::hard_link(&path, &hard).unwrap();
    for name in [&path, &hard] {
        let text = open(name).err().unwrap().to_string();
        let says = format!(
            "process {} (socket /run/app/stoker.sock)",
            std::process::id()
        );
        assert!(text.starts_with(&says), "{text}");
    }
    drop(store);
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

#[test]
fn the_journal_of_a_symlinked_store_is_beside_the_file() {
    let dir = new_dir();
    fs::create_dir(dir.join("shared")).unwrap();
    fs::create_dir_all(dir.join("releases/1")).unwrap();
    // The file does not exist yet; the first start creates it.
    symlink("../../shared/jobs.db", dir.join("releases/1/jobs.db")).unwrap();
    symlink("releases/1", dir.join("current")).unwrap();
    let mut world = World::at(dir.join("current/jobs.db"));
    let queue = world.queue("mails");
    let id = world.load(job(queue)).id;
    for suffix in ["", "-wal", "-lock"] {
        let file = beside(&dir.join("shared/jobs.db"), suffix);
        assert!(file.is_file(), "{}", file.display());
    }
    assert_eq!(fs::read_dir(dir.join("releases/1")).unwrap().count(), 1);
    // The journal left by a killed server is also found by the other name.
    world.crash();
    drop(world.view(id).expect("it is there"));
    assert!(
        tools::check(&dir.join("current/jobs.db"))
            .unwrap()
            .problems
            .is_empty()
    );
    world.stop();
    let mut world = World::at(dir.join("shared/jobs.db"));
    assert!(world.view(id).is_some());
}

#[test]
fn a_symlink_in_a_writable_directory_is_rejected() {
    let dir = new_dir();
    let link = dir.join("jobs.db");
    symlink("/nowhere/jobs.db", &link).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o1777)).unwrap();
    let rejected = |who: &str| {
        let error = open(&link).err().unwrap();
        let is_meant = matches!(&error, StoreError::Symlink { who: by, .. } if by == who);
        assert!(is_meant, "{error}");
        assert!(
            error.to_string().contains(link.to_str().unwrap()),
            "{error}"
        );
    };
    rejected("every user");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    assert!(matches!(open(&link), Err(StoreError::Io { .. })));
    // Only root can change the owner of files.
    if fs::metadata(&dir).unwrap().uid() == 0 {
        chown(&dir, Some(65_534), None).unwrap();
        rejected("user 65534");
        chown(&dir, Some(0), Some(65_534)).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o770)).unwrap();
        rejected("group 65534");
    }
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_regular_file_in_a_writable_directory_is_accepted() {
    let dir = new_dir();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o1777)).unwrap();
    drop(open(&dir.join("jobs.db")).unwrap());
    fs::remove_dir_all(dir).unwrap();
}

/// Issue 9, A21: opening a FIFO blocks until another process opens it.
#[test]
fn special_files_are_rejected_at_once() {
    let dir = new_dir();
    let fifo = dir.join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
    symlink("/dev/zero", dir.join("zero")).unwrap();
    for (path, kind) in [
        (&fifo, "a FIFO"),
        (&dir.join("zero"), "a device"),
        (&dir, "a directory"),
    ] {
        let rejected = |result: Result<(), StoreError>| {
            let error = result.unwrap_err();
            let is_meant = matches!(error, StoreError::NotAFile { what, .. } if what == kind);
            assert!(is_meant, "{error}");
        };
        rejected(open(path).map(drop));
        rejected(tools::check(path).map(drop));
        rejected(tools::describe(path).map(drop));
        rejected(tools::compact(path));
        rejected(tools::backup(path, &dir.join("copy.db")));
    }
    fs::remove_dir_all(dir).unwrap();
}
