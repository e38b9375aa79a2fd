//! The library that makes calls fail, and what it is told. What it does stands in `shim.c`.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use stoker_testkit::{Spawn, run};

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    errno: i32,
    /// Calls that fail from there on; 0 for all until the child ends it.
    count: u32,
    /// It does half of its work, and the next one fails.
    is_short: bool,
}

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

const fn fault(name: &'static str, errno: i32, count: u32) -> Fault {
    Fault {
        name,
        errno,
        count,
        is_short: false,
    }
}

pub(crate) const IO_ONCE: Fault = fault("EIO", EIO, 1);
pub(crate) const IO_THRICE: Fault = fault("EIO three times", EIO, 3);
pub(crate) const IO: Fault = fault("EIO until the end", EIO, 0);
pub(crate) const FULL_ONCE: Fault = fault("ENOSPC", ENOSPC, 1);
pub(crate) const FULL: Fault = fault("ENOSPC until the end", ENOSPC, 0);
pub(crate) const SHORT: Fault = Fault {
    is_short: true,
    ..fault("half, and ENOSPC until the end", ENOSPC, 0)
};

/// The call that is to fail: its sort, the file and its number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Call {
    pub(crate) sort: String,
    pub(crate) file: String,
    pub(crate) number: u32,
}

impl Call {
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("call ")?.split(' ');
        Some(Self {
            sort: words.next()?.to_owned(),
            file: words.next()?.to_owned(),
            number: words.next()?.parse().ok()?,
        })
    }

    pub(crate) fn reads(&self) -> bool {
        matches!(&*self.sort, "read" | "open")
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.sort, self.file, self.number)
    }
}

/// Files of one run, in its directory.
pub(crate) struct Place<'a>(pub(crate) &'a Path);

impl Place<'_> {
    /// The folder whose files' calls count.
    pub(crate) fn folder(&self) -> PathBuf {
        self.0.join("store")
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.folder().join("jobs.db")
    }

    pub(crate) fn report(&self) -> PathBuf {
        self.0.join("report")
    }

    pub(crate) fn heal(&self) -> PathBuf {
        self.0.join("heal")
    }

    pub(crate) fn arm(&self) -> PathBuf {
        self.0.join("arm")
    }
}

/// Has a process run with the library.
pub(crate) fn preload(spawn: Spawn, place: &Place<'_>, failing: Option<(&Call, Fault)>) -> Spawn {
    let spawn = spawn
        .env("LD_PRELOAD", library())
        .env("FAILING_DIR", place.folder())
        .env("FAILING_REPORT", place.report())
        .env("FAILING_HEAL", place.heal())
        .env("FAILING_ARM", place.arm());
    let Some((call, fault)) = failing else {
        return spawn;
    };
    let spawn = spawn
        .env("FAILING_AT", call.to_string())
        .env("FAILING_ERRNO", fault.errno.to_string())
        .env("FAILING_COUNT", fault.count.to_string());
    match fault.is_short {
        true => spawn.env("FAILING_SHORT", "1"),
        false => spawn,
    }
}

/// The library, compiled once. Rust links with `cc`, so it is there.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/failing/shim.c");
        // Another test run may be loading it just now, so it takes its name when it is complete.
        let (part, whole) = (
            folder.join(format!("failing-{}.so", std::process::id())),
            folder.join("failing.so"),
        );
        let [source, to] = [&source, &part].map(|path| path.to_str().unwrap());
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
        std::fs::rename(&part, &whole).unwrap();
        whole
    })
}
