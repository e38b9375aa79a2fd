//! The records between the angel and a zygote, as the protocol page describes them.

use crate::{End, WorkerKey};
use std::io;

/// The version of the records.
const VERSION: u8 = 1;
/// The maximum length of a record in bytes. Longer records from a zygote are cut off, which makes them invalid unless
/// they end with a message.
pub(crate) const MAX_RECORD: usize = 4096;

const SPAWN: u8 = 1;
const READY: u8 = 1;
const SPAWNED: u8 = 2;
const EXITED: u8 = 3;
const FAILED: u8 = 4;

/// What a zygote reports.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The zygote has booted. It gets this signal after each record; 0 for none.
    Ready {
        signal: i32,
    },
    Spawned {
        worker: WorkerKey,
        pid: i32,
    },
    /// A child of the zygote has ended. Children that the zygote has made the angel's own are not reported.
    Exited {
        worker: WorkerKey,
        end: End,
    },
    Failed {
        worker: WorkerKey,
        error: String,
    },
}

/// The record that requests a worker. Its descriptors are the worker's socket, stdout and stderr.
pub(crate) fn spawn(worker: WorkerKey, name: &str, cookie: &str) -> Vec<u8> {
    let mut record = vec![SPAWN];
    record.extend_from_slice(&worker.to_le_bytes());
    record.extend_from_slice(name.as_bytes());
    record.push(0);
    record.extend_from_slice(cookie.as_bytes());
    record
}

/// Parses a record from a zygote. The error says what is wrong with it.
pub(crate) fn parse(record: &[u8]) -> io::Result<Report> {
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let broken = || invalid(format!("a record of {} bytes is invalid", record.len()));
    let (kind, rest) = record.split_first().ok_or_else(broken)?;
    if *kind == READY {
        return match rest {
            [VERSION, signal] if *signal < 65 => Ok(Report::Ready {
                signal: i32::from(*signal),
            }),
            [version, _] if *version != VERSION => Err(invalid(format!(
                "it speaks version {version} of the zygote protocol, and this Stoker speaks version {VERSION}"
            ))),
            _ => Err(broken()),
        };
    }
    let (worker, rest) = rest.split_first_chunk().ok_or_else(broken)?;
    let worker = WorkerKey::from_le_bytes(*worker);
    match (*kind, rest) {
        (SPAWNED, pid) => {
            let pid = pid.try_into().map_err(|_| broken())?;
            match i32::from_le_bytes(pid) {
                pid @ 2.. => Ok(Report::Spawned { worker, pid }),
                _ => Err(broken()),
            }
        }
        (EXITED, [0, code]) => Ok(exited(worker, End::Code(i32::from(*code)))),
        (EXITED, [1, signal]) => Ok(exited(worker, End::Signal(i32::from(*signal)))),
        (FAILED, text) => Ok(Report::Failed {
            worker,
            error: String::from_utf8_lossy(text).into_owned(),
        }),
        _ => Err(broken()),
    }
}

fn exited(worker: WorkerKey, end: End) -> Report {
    Report::Exited { worker, end }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_key(kind: u8, key: WorkerKey, rest: &[u8]) -> Vec<u8> {
        [&[kind], &key.to_le_bytes()[..], rest].concat()
    }

    #[test]
    fn a_request_has_the_key_then_name_and_cookie() {
        let record = spawn(0x0102, "app-3", "7-1");
        assert_eq!(record, with_key(1, 0x0102, b"app-3\x007-1"));
    }

    #[test]
    fn reports_are_parsed() {
        let parse = |record: Vec<u8>| parse(&record).expect("a valid record");
        assert_eq!(parse(vec![1, 1, 29]), Report::Ready { signal: 29 });
        let pid = 70_000_i32.to_le_bytes();
        let spawned = Report::Spawned {
            worker: 1 << 40,
            pid: 70_000,
        };
        assert_eq!(parse(with_key(2, 1 << 40, &pid)), spawned);
        let end = End::Code(255);
        assert_eq!(
            parse(with_key(3, 9, &[0, 255])),
            Report::Exited { worker: 9, end }
        );
        let end = End::Signal(11);
        assert_eq!(
            parse(with_key(3, 9, &[1, 11])),
            Report::Exited { worker: 9, end }
        );
        let error = "no memory".to_owned();
        assert_eq!(
            parse(with_key(4, 9, b"no memory")),
            Report::Failed { worker: 9, error }
        );
    }

    #[test]
    fn invalid_records_are_rejected() {
        let bad: [Vec<u8>; 9] = [
            vec![],
            vec![1],
            vec![1, 1],
            vec![1, 1, 65],
            vec![2, 0, 0],
            with_key(2, 1, &[1, 0, 0]),
            with_key(2, 1, &1_i32.to_le_bytes()),
            with_key(3, 1, &[2, 0]),
            with_key(9, 1, &[]),
        ];
        for record in bad {
            assert!(parse(&record).is_err(), "{record:?} is invalid");
        }
        let error = parse(&[1, 2, 0]).expect_err("another version");
        assert!(error.to_string().contains("version 2"), "{error}");
    }
}
