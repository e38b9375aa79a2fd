//! The disk's VFS answers like SQLite's unix VFS: the test makes the same random calls on files of both.

use super::super::{Disk, Rng};
use crate::Dir;
use raw::{Raw, Vfs};
use rusqlite::ffi;
use std::ffi::c_int;

mod raw;

const FILES: usize = 3;

/// One database, opened several times.
struct Side {
    vfs: Vfs,
    path: String,
    files: [Option<Raw>; FILES],
    /// Whether the file was deleted while it was open.
    is_deleted: bool,
}

impl Side {
    fn new(vfs: &str, path: &str) -> Self {
        Self {
            vfs: Vfs::find(vfs),
            path: path.to_owned(),
            files: [const { None }; FILES],
            is_deleted: false,
        }
    }

    /// Runs a step, and returns its result as text.
    fn run(&mut self, step: Step) -> String {
        let Step { file: at, action } = step;
        if self.is_out_of_bounds(action) {
            return String::new();
        }
        let file = &mut self.files[at];
        match (action, &mut *file) {
            (Action::Open(flags), None) => {
                match self.vfs.open(&self.path, flags | ffi::SQLITE_OPEN_MAIN_DB) {
                    Ok((raw, flags)) => {
                        *file = Some(raw);
                        format!("opened {flags:x}")
                    }
                    Err(code) => format!("{code}"),
                }
            }
            (Action::Delete, _) => format!("{}", self.vfs.delete(&self.path)),
            (Action::Access(flags), _) => format!("{:?}", self.vfs.access(&self.path, flags)),
            (Action::Close, Some(_)) => {
                *file = None;
                "closed".to_owned()
            }
            (action, Some(raw)) => raw.run(action),
            (_, None) => String::new(),
        }
    }
}

impl Side {
    /// Whether a step is not allowed. The unix VFS finds the shared memory by the database's name. If a deleted file is
    /// still open and another file of its name is created, the VFS truncates the memory that the old connection has
    /// mapped, and reading it causes a SIGBUS.
    fn is_out_of_bounds(&mut self, action: Action) -> bool {
        let mut open = self.files.iter().flatten();
        self.is_deleted &= open.next().is_some();
        match action {
            Action::Delete if self.files.iter().flatten().any(Raw::is_attached) => true,
            Action::Delete => {
                self.is_deleted = true;
                false
            }
            Action::Map { .. } => self.is_deleted,
            _ => false,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Step {
    file: usize,
    action: Action,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Open(c_int),
    Close,
    Delete,
    Access(c_int),
    Read {
        at: i64,
        len: usize,
    },
    Write {
        at: i64,
        len: usize,
        byte: u8,
    },
    Truncate(i64),
    Sync,
    Size,
    Lock,
    Unlock(c_int),
    IsReserved,
    HasMoved,
    Map {
        at: c_int,
        extend: bool,
    },
    Poke {
        at: usize,
        byte: u8,
    },
    Peek {
        at: usize,
    },
    ShmLock {
        first: c_int,
        count: c_int,
        exclusive: bool,
    },
    ShmUnlock,
    Unmap,
}

impl Action {
    fn draw(rng: &mut Rng) -> Self {
        let at = rng.below(40_000) as i64;
        let len = 1 + rng.below(9_000) as usize;
        let byte = rng.below(256) as u8;
        let create = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE;
        match rng.below(30) {
            0 => Self::Open(ffi::SQLITE_OPEN_READONLY),
            1 => Self::Open(ffi::SQLITE_OPEN_READWRITE),
            2..5 => Self::Open(create),
            5 if rng.below(2) == 0 => Self::Close,
            6 if rng.below(8) == 0 => Self::Delete,
            6 => Self::HasMoved,
            7 => Self::Access(match rng.below(2) {
                0 => ffi::SQLITE_ACCESS_EXISTS,
                _ => ffi::SQLITE_ACCESS_READWRITE,
            }),
            8 | 9 => Self::Read { at, len },
            10 | 11 => Self::Write { at, len, byte },
            12 => Self::Truncate(match rng.below(4) {
                0 => 1,
                factor => (factor - 1) as i64 * at / 2,
            }),
            13 => Self::Sync,
            14 => Self::Size,
            15..18 => Self::Lock,
            18 => Self::Unlock(rng.below(2) as c_int),
            19 => Self::IsReserved,
            20 | 26 => Self::Map {
                at: rng.below(2) as c_int,
                extend: rng.below(2) == 0,
            },
            21 => Self::Poke {
                at: at as usize,
                byte,
            },
            22 => Self::Peek { at: at as usize },
            23 | 27..29 => {
                let exclusive = rng.below(2) == 0;
                let first = rng.below(8);
                let count = match exclusive {
                    true => 1 + rng.below(8 - first) / 2,
                    false => 1,
                };
                Self::ShmLock {
                    first: first as c_int,
                    count: count as c_int,
                    exclusive,
                }
            }
            24 if rng.below(3) == 0 => Self::Unmap,
            _ => Self::ShmUnlock,
        }
    }
}

#[test]
fn the_same_calls_have_the_same_results_as_with_the_unix_vfs() {
    let (mut exclusive, mut shared_memory) = (0, [0; 2]);
    for seed in 0..120 {
        let (disk, dir) = (Disk::new(seed), Dir::new());
        let real = dir.path().join("file");
        let mut sides = [
            Side::new("unix", real.to_str().expect("a path is text")),
            Side::new(disk.vfs(), "/folder/file"),
        ];
        let rng = &mut Rng::new(seed);
        let mut done = Vec::new();
        for _ in 0..500 {
            let step = Step {
                file: rng.below(FILES as u64) as usize,
                action: Action::draw(rng),
            };
            let [unix, ours] = sides.each_mut().map(|side| side.run(step));
            exclusive += usize::from(unix == "exclusive");
            if let Action::ShmLock { .. } = step.action {
                shared_memory[0] += usize::from(unix == "0");
                shared_memory[1] += usize::from(unix == "5");
            }
            done.push(format!("{step:?}: {unix}"));
            assert_eq!(unix, ours, "seed {seed}, after {done:#?}");
        }
    }
    assert!(
        exclusive > 100,
        "only {exclusive} exclusive locks were granted"
    );
    let [granted, refused] = shared_memory;
    assert!(
        granted > 100 && refused > 100,
        "of the requests for shared locks, {granted} were granted and {refused} refused; more than 100 each were expected"
    );
}

#[test]
fn journals_are_opened_as_with_the_unix_vfs() {
    let (disk, dir) = (Disk::new(1), Dir::new());
    let folders = [dir.path().to_str().expect("a path is text"), "/folder"];
    let sides = [Vfs::find("unix"), Vfs::find(disk.vfs())];
    let open = |name: &str, flags: c_int| {
        let [unix, ours] = [0, 1].map(|at| {
            let path = format!("{}/{name}", folders[at]);
            let opened = sides[at].open(&path, flags);
            opened.map(|(raw, flags)| {
                drop(raw);
                flags
            })
        });
        assert_eq!(unix, ours, "{name} {flags:x}");
        unix
    };
    let create = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE;
    let exclusive = create | ffi::SQLITE_OPEN_EXCLUSIVE;
    let journals = [
        ffi::SQLITE_OPEN_WAL,
        ffi::SQLITE_OPEN_MAIN_JOURNAL,
        ffi::SQLITE_OPEN_SUPER_JOURNAL,
    ];
    for is_there in [false, true] {
        for flags in [
            ffi::SQLITE_OPEN_READONLY,
            ffi::SQLITE_OPEN_READWRITE,
            create,
            exclusive,
            exclusive,
        ] {
            for (journal, suffix) in journals.into_iter().zip(["-wal", "-journal", "-mj123"]) {
                let opened = open(&format!("file{suffix}"), flags | journal);
                assert!(opened.is_err() || is_there || journal == ffi::SQLITE_OPEN_SUPER_JOURNAL);
            }
        }
        open("file", create | ffi::SQLITE_OPEN_MAIN_DB).expect("it is created");
    }
}
