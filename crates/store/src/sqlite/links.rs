//! Resolves the path of a store's file. Symlinks are followed here, before any file is opened, so that the
//! lock file and the journal are beside the file itself whatever name it is opened by.

use super::StoreError;
use rustix::process::geteuid;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{FileType, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

/// The maximum number of symlinks on one path, the same as in the kernel.
const MAX_LINKS: usize = 40;

/// The path of a store's file without symlinks. The file itself need not exist. A path that names something
/// other than a regular file is rejected: opening a FIFO, for example, would block until another process
/// opens it.
pub(super) fn resolve(path: &Path) -> Result<PathBuf, StoreError> {
    let real = follow(path)?;
    match std::fs::metadata(&real) {
        Ok(file) if !file.is_file() => Err(StoreError::NotAFile {
            path: path.to_owned(),
            what: kind(file.file_type()),
        }),
        _ => Ok(real),
    }
}

fn follow(path: &Path) -> Result<PathBuf, StoreError> {
    let io = |error: io::Error| StoreError::io(path, &error);
    // The working directory may have been deleted, for example with an old release.
    let mut real = match path.is_absolute() {
        true => PathBuf::from("/"),
        false => std::env::current_dir().map_err(io)?,
    };
    let mut remaining: VecDeque<OsString> = parts(path);
    let mut links = 0;
    while let Some(part) = remaining.pop_front() {
        // An absolute symlink target starts again at the root.
        real = match Path::new(&part).components().next() {
            Some(Component::RootDir) => PathBuf::from("/"),
            Some(Component::ParentDir) => real.parent().map_or(real.clone(), Path::to_owned),
            _ => real.join(&part),
        };
        let is_link = match real.symlink_metadata() {
            Ok(found) => found.file_type().is_symlink(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(io(error)),
        };
        if !is_link {
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(io(rustix::io::Errno::LOOP.into()));
        }
        let target = std::fs::read_link(&real).map_err(io)?;
        check_trusted(&real, remaining.is_empty())?;
        real.pop();
        for part in parts(&target).into_iter().rev() {
            remaining.push_front(part);
        }
    }
    // Returns the path as the user wrote it if it has no symlinks. A path with `..` is returned resolved,
    // because it would stop working if the working directory were deleted, although the file still exists.
    let leads_out = path.components().any(|part| part == Component::ParentDir);
    Ok(match links == 0 && !leads_out {
        true => path.to_owned(),
        false => real,
    })
}

fn parts(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter(|part| !matches!(part, Component::CurDir))
        .map(|part| part.as_os_str().to_owned())
        .collect()
}

/// Rejects a symlink in a directory that untrusted users can write to: they could choose which file is
/// opened.
fn check_trusted(link: &Path, is_last: bool) -> Result<(), StoreError> {
    let dir = link.parent().unwrap_or(Path::new("/"));
    let found = std::fs::metadata(dir).map_err(|error| StoreError::io(dir, &error))?;
    match untrusted_writer(&found, is_last) {
        None => Ok(()),
        Some(who) => Err(StoreError::Symlink {
            link: link.to_owned(),
            who,
        }),
    }
}

/// The users other than trusted ones who can write to a directory. The directory's owner is trusted, as they
/// could also change the configuration and the code there. The exception: root does not follow a symlink to
/// the file itself if another user owns the directory of that symlink.
fn untrusted_writer(dir: &Metadata, is_last: bool) -> Option<String> {
    let (uid, gid, own) = (dir.uid(), dir.gid(), geteuid().as_raw());
    if dir.mode() & 0o002 != 0 {
        return Some("every user".to_owned());
    }
    if dir.mode() & 0o020 != 0 && !is_private(gid, &[0, own, uid]) {
        return Some(format!("group {gid}"));
    }
    (is_last && own == 0 && uid != 0).then(|| format!("user {uid}"))
}

/// Whether a group has no members but these users. If the account files can't be read, it may have others.
fn is_private(group: u32, users: &[u32]) -> bool {
    let read = |path| std::fs::read_to_string(path).ok();
    let (Some(groups), Some(accounts)) = (read("/etc/group"), read("/etc/passwd")) else {
        return false;
    };
    let field = |line: &str, at| line.split(':').nth(at).unwrap_or_default().to_owned();
    let number = |line: &str, at| field(line, at).parse::<u32>().ok();
    let members = groups
        .lines()
        .filter(|line| number(line, 2) == Some(group))
        .map(|line| field(line, 3))
        .collect::<Vec<_>>()
        .join(",");
    let is_member = |name: &str| members.split(',').any(|member| member == name);
    let belongs = |line: &&str| number(line, 3) == Some(group) || is_member(&field(line, 0));
    let is_known = |line: &str| number(line, 2).is_some_and(|uid| users.contains(&uid));
    accounts.lines().filter(belongs).all(is_known)
}

fn kind(file_type: FileType) -> &'static str {
    match file_type {
        _ if file_type.is_dir() => "a directory",
        _ if file_type.is_fifo() => "a FIFO",
        _ if file_type.is_socket() => "a socket",
        _ => "a device",
    }
}
