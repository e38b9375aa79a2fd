//! Processes as the angel sees them: identified by cookies, and killed with all their descendants. A process that
//! loses its parent becomes the angel's own child, because the angel is a subreaper.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs;
#[cfg(not(feature = "sim"))]
use std::os::unix::fs::FileExt;
use stoker_os::descendants;
#[cfg(not(feature = "sim"))]
pub(crate) use stoker_os::{Birth, birth};
#[cfg(not(feature = "sim"))]
pub(crate) use stoker_os::{is_dead, was_just_forked};

/// The `/proc` file that lists the children of this process's only thread. It stays open, because opening it each time
/// would take most of the time.
#[cfg(not(feature = "sim"))]
pub(crate) struct Children(Option<fs::File>);

#[cfg(not(feature = "sim"))]
impl Children {
    pub(crate) fn open() -> Self {
        let thread = rustix::thread::gettid().as_raw_nonzero();
        Self(fs::File::open(format!("/proc/self/task/{thread}/children")).ok())
    }

    pub(crate) fn list(&self) -> Vec<i32> {
        let Some(file) = &self.0 else {
            return Vec::new();
        };
        let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = file.read_at(&mut buffer, text.len() as u64) {
            text.extend_from_slice(&buffer[..count]);
        }
        let text = String::from_utf8_lossy(&text);
        let pids = text.split_ascii_whitespace();
        pids.filter_map(|pid| pid.parse().ok()).collect()
    }
}

/// Kills a process, its process group, and all its descendants in any group.
pub fn kill_tree(pid: i32) {
    let below = descendants(pid);
    if let Some(group) = Pid::from_raw(pid) {
        // An error means that the group no longer exists.
        kill_process_group(group, Signal::KILL).ok();
    }
    for pid in std::iter::once(pid).chain(below) {
        if let Some(pid) = Pid::from_raw(pid) {
            kill_process(pid, Signal::KILL).ok();
        }
    }
}

/// The value of a variable in the environment that a process was started with.
pub(crate) fn variable(pid: i32, name: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let prefix = format!("{name}=");
    let entry = environment
        .split(|byte| *byte == 0)
        .find(|entry| entry.starts_with(prefix.as_bytes()))?;
    Some(String::from_utf8_lossy(&entry[prefix.len()..]).into_owned())
}

/// All processes whose cookie starts with `prefix`, whatever their parent is now. This is the last resort after the
/// angel itself was killed: parentage is lost then, but the environment is not.
pub fn with_cookie(prefix: &str) -> Vec<i32> {
    let Ok(all) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = all
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        variable(*pid, crate::env::COOKIE).is_some_and(|cookie| cookie.starts_with(prefix))
    })
    .collect()
}

/// The command line of a process, as shown to people.
#[cfg(not(feature = "sim"))]
pub(crate) fn command(pid: i32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = bytes
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty());
    let words: Vec<_> = words.map(String::from_utf8_lossy).collect();
    words.join(" ").chars().take(200).collect()
}

/// The process group of a process.
#[cfg(not(feature = "sim"))]
pub(crate) fn group(pid: i32) -> Option<i32> {
    let group = rustix::process::getpgid(Pid::from_raw(pid)).ok()?;
    Some(group.as_raw_nonzero().get())
}
