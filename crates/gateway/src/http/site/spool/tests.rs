//! Bodies of all sizes, and what is left of them.

use super::*;
use crate::http::site::test_dir::TestDir;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::pin::Pin;
use std::task::{Context, Poll};

const LIMITS: Limits = Limits {
    request: 1 << 20,
    total: 3 << 20,
};

/// A body that arrives in parts. `None` is a connection that ends too early.
struct Parts {
    parts: VecDeque<Option<Bytes>>,
    announced: u64,
    /// The body never ends.
    stalls: bool,
}

impl Body for Parts {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let part = self.parts.pop_front();
        if part.is_none() && self.stalls {
            return Poll::Pending;
        }
        Poll::Ready(part.map(|part| match part {
            Some(bytes) => Ok(Frame::data(bytes)),
            None => Err(io::ErrorKind::ConnectionReset.into()),
        }))
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        hint.set_lower(self.announced);
        hint
    }
}

fn body(sizes: &[usize]) -> Parts {
    let mut at = 0;
    let parts = sizes.iter().map(|size| {
        let part = content(at, *size);
        at += size;
        Some(part.into())
    });
    Parts {
        parts: parts.collect(),
        announced: 0,
        stalls: false,
    }
}

fn content(at: usize, len: usize) -> Vec<u8> {
    (at..at + len).map(|at| (at / 11) as u8).collect()
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(test)
}

fn open(dir: &TestDir, limits: Limits) -> Spool {
    Spool::open(&dir.path().join("spool"), limits).unwrap()
}

fn names(dir: &TestDir) -> Vec<String> {
    let all = fs::read_dir(dir.path().join("spool")).unwrap();
    let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = all.map(name).collect();
    names.sort();
    names
}

#[test]
fn small_bodies_stay_in_memory() {
    let dir = TestDir::new();
    let spool = open(&dir, LIMITS);
    for sizes in [
        &[][..],
        &[0],
        &[1],
        &[MAX_IN_MEMORY],
        &[1, 0, 2],
        &[MAX_IN_MEMORY - 1, 1],
    ] {
        let Spooled::Bytes(bytes) = run(spool.receive(body(sizes))).unwrap() else {
            panic!("{sizes:?}");
        };
        assert!(bytes == content(0, sizes.iter().sum()), "{sizes:?}");
    }
    assert_eq!(names(&dir), [""; 0]);
}

#[test]
fn large_bodies_are_files_that_vanish() {
    let dir = TestDir::new();
    let spool = open(&dir, LIMITS);
    for sizes in [
        &[MAX_IN_MEMORY + 1][..],
        &[MAX_IN_MEMORY, 1],
        &[1; MAX_IN_MEMORY + 1],
        &[100_000, 3, 200_000, 0, 1],
        &[1 << 20],
    ] {
        let size = sizes.iter().sum();
        let Spooled::File(file) = run(spool.receive(body(sizes))).unwrap() else {
            panic!("{size}");
        };
        assert_eq!((file.len(), spool.used()), (size, size));
        let path = file.path();
        assert!(path.is_absolute() && fs::read(&path).unwrap() == content(0, size));
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.mode() & 0o7777, 0o600);
        drop(file);
        assert!(!path.exists());
        assert_eq!(spool.used(), 0);
    }
    let mode = fs::metadata(dir.path().join("spool")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o700);
}

#[test]
fn a_moved_file_stays() {
    let dir = TestDir::new();
    let spool = open(&dir, LIMITS);
    let Spooled::File(file) = run(spool.receive(body(&[100_000]))).unwrap() else {
        panic!("in memory");
    };
    let moved = dir.path().join("moved");
    fs::rename(file.path(), &moved).unwrap();
    drop(file);
    assert!(fs::read(moved).unwrap() == content(0, 100_000));
    assert_eq!(spool.used(), 0);
}

#[test]
fn limits_are_kept_and_nothing_is_left() {
    let dir = TestDir::new();
    let spool = open(&dir, LIMITS);
    let mut announced = body(&[1]);
    announced.announced = LIMITS.request as u64 + 1;
    let too_large = run(spool.receive(announced)).unwrap_err();
    assert!(matches!(too_large, SpoolError::TooLarge(limit) if limit == LIMITS.request));
    let too_large = run(spool.receive(body(&[MAX_IN_MEMORY; 17]))).unwrap_err();
    assert!(matches!(too_large, SpoolError::TooLarge(_)));
    assert!((names(&dir).is_empty()) && spool.used() == 0);

    let held: Vec<Spooled> = (0..2)
        .map(|_| run(spool.receive(body(&[1 << 20]))).unwrap())
        .collect();
    let last = run(spool.receive(body(&[1 << 20]))).unwrap();
    assert_eq!(spool.used(), LIMITS.total);
    let full = run(spool.receive(body(&[MAX_IN_MEMORY + 1]))).unwrap_err();
    assert!(matches!(full, SpoolError::Full(limit) if limit == LIMITS.total));
    assert_eq!(names(&dir).len(), 3);
    // A small body needs no file.
    assert!(run(spool.receive(body(&[MAX_IN_MEMORY]))).is_ok());
    drop(last);
    assert!(run(spool.receive(body(&[MAX_IN_MEMORY + 1]))).is_ok());
    drop(held);
    assert!(names(&dir).is_empty() && spool.used() == 0);
}

#[test]
fn what_is_announced_is_not_reserved() {
    let dir = TestDir::new();
    let spool = open(&dir, LIMITS);
    let announced = || {
        let mut slow = body(&[MAX_IN_MEMORY + 1]);
        slow.announced = 1 << 20;
        slow
    };
    let slow: Vec<Spooled> = (0..6)
        .map(|_| run(spool.receive(announced())).unwrap())
        .collect();
    assert_eq!(spool.used(), slow.len() * (MAX_IN_MEMORY + 1));
    let rest = run(spool.receive(body(&[1 << 20]))).unwrap();
    // What can't fit any more is rejected before it arrives.
    let held: Vec<Spooled> = (0..2)
        .filter_map(|_| run(spool.receive(body(&[600_000]))).ok())
        .collect();
    let full = run(spool.receive(announced())).unwrap_err();
    assert!(matches!(full, SpoolError::Full(_)), "{full}");
    drop((slow, rest, held));
    assert_eq!(spool.used(), 0);
}

#[test]
fn the_total_is_also_a_limit_while_a_body_arrives() {
    let dir = TestDir::new();
    let total = 200_000;
    let spool = open(&dir, Limits { total, ..LIMITS });
    let full = run(spool.receive(body(&[100_000, 50_000, 50_001]))).unwrap_err();
    assert!(
        matches!(full, SpoolError::Full(limit) if limit == total),
        "{full}"
    );
    assert!(names(&dir).is_empty() && spool.used() == 0);
}

#[test]
fn a_connection_that_ends_leaves_nothing() {
    let dir = TestDir::new();
    let spool = open(&dir, LIMITS);
    for sizes in [&[][..], &[10], &[100_000]] {
        let mut parts = body(sizes);
        parts.parts.push_back(None);
        let error = run(spool.receive(parts)).unwrap_err();
        assert!(matches!(error, SpoolError::Client(_)), "{error}");
        assert!(names(&dir).is_empty() && spool.used() == 0);
    }
}

#[test]
fn a_receiver_that_is_dropped_leaves_nothing() {
    let dir = TestDir::new();
    let spool = open(&dir, LIMITS);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let mut parts = body(&[100_000, 100_000]);
    parts.stalls = true;
    let mut receive = Box::pin(spool.receive(parts));
    // The first poll creates the file and begins to write to it.
    runtime.block_on(std::future::poll_fn(|context| {
        assert!(receive.as_mut().poll(context).is_pending());
        Poll::Ready(())
    }));
    assert_eq!(names(&dir).len(), 1);
    drop(receive);
    drop(runtime);
    assert!(names(&dir).is_empty() && spool.used() == 0);
}

#[test]
fn leftovers_are_removed_at_the_start() {
    let dir = TestDir::new();
    let spool = open(&dir, LIMITS);
    let living = run(spool.receive(body(&[100_000]))).unwrap();
    let living_name = names(&dir)[0].clone();
    dir.write("spool/body-1-0", "left");
    dir.write("spool/other", "not ours");
    dir.write("outside", "outside");
    symlink("../outside", dir.path().join("spool/body-link")).unwrap();
    fs::create_dir(dir.path().join("spool/body-dir")).unwrap();
    // The next name of this process is taken.
    let taken = format!("body-{}-1", std::process::id());
    dir.write(&format!("spool/{taken}"), "left");
    let second = open(&dir, LIMITS);
    let mut expected = vec![
        "body-dir".to_owned(),
        "body-link".to_owned(),
        "other".to_owned(),
    ];
    expected.push(living_name);
    expected.sort();
    assert_eq!(names(&dir), expected);
    assert_eq!(fs::read(dir.path().join("outside")).unwrap(), b"outside");
    // Both use the same names, and neither overwrites a file of the other.
    let other = run(second.receive(body(&[100_001]))).unwrap();
    let again = run(spool.receive(body(&[100_002]))).unwrap();
    let sizes = [&living, &other, &again].map(|spooled| match spooled {
        Spooled::File(file) => fs::metadata(file.path()).unwrap().len(),
        Spooled::Bytes(_) => 0,
    });
    assert_eq!(sizes, [100_000, 100_001, 100_002]);
}

#[test]
fn an_existing_directory_is_closed_to_others() {
    let dir = TestDir::new();
    let path = dir.path().join("spool");
    fs::create_dir(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    open(&dir, LIMITS);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o700);
    let link = dir.path().join("link");
    symlink(&path, &link).unwrap();
    for wrong in [link, dir.write("file", ""), dir.path().join("file/below")] {
        let error = Spool::open(&wrong, LIMITS).unwrap_err();
        let path = wrong.display().to_string();
        assert!(error.to_string().contains(&path), "{error}");
        assert!(matches!(error, SpoolError::Disk { .. }));
    }
}

#[test]
fn disk_errors_are_reported() {
    let dir = TestDir::new();
    let spool = open(&dir, LIMITS);
    fs::remove_dir(dir.path().join("spool")).unwrap();
    let error = run(spool.receive(body(&[100_000]))).unwrap_err();
    assert!(error.to_string().starts_with("cannot create "), "{error}");
    assert_eq!(spool.used(), 0);
    let dir = TestDir::new();
    let spool = open(&dir, LIMITS);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let error = run(async {
        let mut file = spool.create(10, 0).unwrap();
        file.file = Some(Arc::new(full));
        file.write(Bytes::from_static(b"0123456789"))
            .await
            .unwrap_err()
    });
    assert!(
        error.is_disk_full() && error.to_string().starts_with("cannot write "),
        "{error}"
    );
    assert!(names(&dir).is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn a_body_is_received_as_it_was_sent(sizes in proptest::collection::vec(0usize..90_000, 0..8)) {
        let dir = TestDir::new();
        let spool = open(&dir, LIMITS);
        let size = sizes.iter().sum();
        let received = match run(spool.receive(body(&sizes))).unwrap() {
            Spooled::Bytes(bytes) => {
                prop_assert!(size <= MAX_IN_MEMORY);
                bytes.to_vec()
            }
            Spooled::File(file) => {
                prop_assert!(size > MAX_IN_MEMORY);
                fs::read(file.path()).unwrap()
            }
        };
        prop_assert!(received == content(0, size));
    }
}

#[test]
fn an_answer_in_a_file_is_taken_over() {
    let dir = TestDir::new();
    let spool = open(&dir, LIMITS);
    for len in [0, 1, 300_000, 5 << 20] {
        let path = spool.path().join("answer-1");
        fs::write(&path, content(0, len)).unwrap();
        let body = spool.take_answer(&path).unwrap().unwrap();
        assert!(!path.exists());
        assert_eq!(spool.used(), len);
        let sent = run(async { body.collect().await.unwrap().to_bytes() });
        assert!(sent == content(0, len), "{len}");
        assert_eq!(spool.used(), 0);
    }
}

#[test]
fn only_files_of_answers_are_taken_over() {
    let dir = TestDir::new();
    let spool = open(&dir, LIMITS);
    let other = dir.write("other", "x");
    for name in [
        "body-1",
        "../other",
        "answer-1/../body-1",
        "sub/answer-1",
        "",
    ] {
        assert!(
            spool.take_answer(&spool.path().join(name)).is_none(),
            "{name}"
        );
    }
    std::os::unix::fs::symlink(&other, spool.path().join("answer-link")).unwrap();
    fs::create_dir(spool.path().join("answer-dir")).unwrap();
    for name in ["answer-link", "answer-dir", "answer-none"] {
        let taken = spool.take_answer(&spool.path().join(name)).unwrap();
        assert!(taken.is_err(), "{name}");
    }
    assert!(other.exists());
}

#[test]
fn answers_that_did_not_arrive_are_removed() {
    let dir = TestDir::new();
    let spool = open(&dir, LIMITS);
    let (old, new) = (
        spool.path().join("answer-old"),
        spool.path().join("answer-new"),
    );
    for path in [&old, &new] {
        fs::write(path, "x").unwrap();
    }
    let file = fs::File::options().write(true).open(&old).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    spool.remove_stale_answers();
    assert!(!old.exists() && new.exists());
}
