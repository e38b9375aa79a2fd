//! The library that makes system calls on a store's files fail, and its settings. The library itself is in `failing.c`.

use crate::{Spawn, run};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub name: &'static str,
    errno: i32,
    /// The number of calls that fail from there on; 0 for all until the fault is removed.
    count: u32,
    /// The call does half of its work, and the next one fails.
    is_short: bool,
    /// Calls on other files do not fail.
    is_for_one_file: bool,
    /// After the first failure, only calls of this sort fail.
    next: Option<&'static str>,
}

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

const fn fault(name: &'static str, errno: i32, count: u32) -> Fault {
    Fault {
        name,
        errno,
        count,
        is_short: false,
        is_for_one_file: false,
        next: None,
    }
}

pub const IO_ONCE: Fault = fault("EIO", EIO, 1);
pub const IO_THREE_TIMES: Fault = fault("EIO three times", EIO, 3);
pub const IO_UNTIL_HEALED: Fault = fault("EIO until the end", EIO, 0);
pub const FULL_ONCE: Fault = fault("ENOSPC", ENOSPC, 1);
pub const FULL_UNTIL_HEALED: Fault = fault("ENOSPC until the end", ENOSPC, 0);
/// There is no room for the content of one file, as with a quota or a remote file system.
pub const FULL_FOR_ONE_FILE: Fault = Fault {
    is_for_one_file: true,
    ..fault("ENOSPC of its file until the end", ENOSPC, 0)
};
/// The call fails, and then the next check of its file.
pub const IO_THEN_STAT: Fault = Fault {
    is_for_one_file: true,
    next: Some("stat"),
    ..fault("EIO, and once more of a look at its file", EIO, 2)
};
pub const SHORT_WRITE: Fault = Fault {
    is_short: true,
    ..fault("half, and ENOSPC until the end", ENOSPC, 0)
};

/// The call that fails: its sort, the file and its number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    pub sort: String,
    pub file: String,
    pub number: u32,
}

impl Call {
    pub fn of_line(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("call ")?.split(' ');
        Some(Self {
            sort: words.next()?.to_owned(),
            file: words.next()?.to_owned(),
            number: words.next()?.parse().ok()?,
        })
    }

    pub fn reads(&self) -> bool {
        matches!(&*self.sort, "read" | "open" | "stat")
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.sort, self.file, self.number)
    }
}

/// The files of one run, in its directory.
pub struct Place<'a>(pub &'a Path);

impl Place<'_> {
    /// The folder in which calls on files are counted.
    pub fn folder(&self) -> PathBuf {
        self.0.join("store")
    }

    pub fn store(&self) -> PathBuf {
        self.folder().join("jobs.db")
    }

    pub fn report(&self) -> PathBuf {
        self.0.join("report")
    }

    pub fn heal(&self) -> PathBuf {
        self.0.join("heal")
    }

    pub fn arm(&self) -> PathBuf {
        self.0.join("arm")
    }
}

/// The environment of a process that runs with the library.
#[must_use]
pub fn preload(
    place: &Place<'_>,
    failing: Option<(&Call, Fault)>,
) -> Vec<(&'static str, OsString)> {
    let mut env = vec![
        ("LD_PRELOAD", library().into()),
        ("FAILING_DIR", place.folder().into()),
        ("FAILING_REPORT", place.report().into()),
        ("FAILING_HEAL", place.heal().into()),
        ("FAILING_ARM", place.arm().into()),
    ];
    if let Some((call, fault)) = failing {
        env.extend([
            ("FAILING_AT", call.to_string().into()),
            ("FAILING_ERRNO", fault.errno.to_string().into()),
            ("FAILING_COUNT", fault.count.to_string().into()),
        ]);
        env.extend(fault.is_for_one_file.then(|| ("FAILING_ALONE", "1".into())));
        env.extend(fault.next.map(|sort| ("FAILING_NEXT", sort.into())));
        env.extend(fault.is_short.then(|| ("FAILING_SHORT", "1".into())));
    }
    env
}

/// The library, compiled once. Rust links with `cc`, so a compiler is installed.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let test = std::env::current_exe().expect("a test knows its own path");
        let folder = test.parent().expect("an executable is in a directory");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/failing.c");
        // Another test run may be loading the library now, so it gets its name only when it is complete.
        let (part, whole) = (
            folder.join(format!("failing-{}.so", std::process::id())),
            folder.join("failing.so"),
        );
        let [source, to] = [&source, &part].map(|path| path.to_str().expect("a path is text"));
        let flags = [
            "-std=gnu11",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-shared",
            "-fPIC",
        ];
        let rest = ["-o", to, source, "-ldl", "-pthread"];
        let output = run(Spawn::new("cc").args(&flags).args(&rest));
        assert_eq!(output.code, 0, "{}", output.stderr);
        std::fs::rename(&part, &whole).expect("the compiler created the library");
        whole
    })
}
