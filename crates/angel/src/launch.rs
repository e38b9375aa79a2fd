//! Starts a program without copying this process: the child shares its memory until the exec. Copying the angel's memory, only
//! to discard the copy, was the largest part of what the angel did for a worker.

#![expect(
    unsafe_code,
    reason = "no safe wrapper starts a program with a parent-death signal without a fork"
)]

use crate::signals::HARMLESS;
use libc::{SIG_DFL, SIGCHLD, SIGPIPE, c_char, c_int, c_void};
use rustix::fd::BorrowedFd;
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{
    Gid, Pid, Signal, Uid, chdir, geteuid, getpid, getppid, set_parent_process_death_signal,
    setpgid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};
use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::{io, ptr};

/// For looking the program up in `PATH`, and to hand a script without an interpreter's name to the shell.
const STACK: usize = 256 << 10;

/// A program to start, in a process group of its own, which dies with this process.
pub(crate) struct Launch<'a> {
    pub(crate) arguments: &'a [CString],
    pub(crate) environment: &'a [CString],
    /// What this process alone has.
    pub(crate) own_environment: Vec<CString>,
    pub(crate) dir: Option<&'a CStr>,
    /// User and group.
    pub(crate) identity: Option<(u32, u32)>,
    /// Standard input, output and error.
    pub(crate) streams: [BorrowedFd<'a>; 3],
    /// Descriptors that the program keeps.
    pub(crate) kept: Vec<BorrowedFd<'a>>,
}

/// What the child sees of its parent's memory.
struct Shared<'a> {
    launch: &'a Launch<'a>,
    arguments: Vec<*const c_char>,
    parent: Pid,
    failure: Cell<Option<Errno>>,
}

impl Launch<'_> {
    /// Returns the number of the process, once it is another program.
    pub(crate) fn start(&self) -> io::Result<i32> {
        let shared = Shared {
            launch: self,
            arguments: pointers(self.arguments),
            parent: getpid(),
            failure: Cell::new(None),
        };
        let pid = {
            let all = self.environment.iter().chain(&self.own_environment);
            let _environment = Environment::set(pointers(all));
            let _signals = Blocked::all();
            shared.fork()?
        };
        match shared.failure.get() {
            None => Ok(pid),
            Some(error) => {
                reap(pid);
                Err(error.into())
            }
        }
    }
}

impl Shared<'_> {
    fn fork(&self) -> io::Result<c_int> {
        let mut stack = Vec::<u8>::with_capacity(STACK);
        let top = stack.spare_capacity_mut().as_mut_ptr_range().end;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | SIGCHLD;
        let this = ptr::from_ref(self).cast_mut().cast::<c_void>();
        // SAFETY: this thread, the only one, stands still until the child has become another program or has ended, so what the
        // child sees outlives it; the child has a stack of its own.
        let pid = unsafe { libc::clone(child, top.cast(), flags, this) };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(pid)
    }

    /// Returns only if it fails. It makes system calls and allocates nothing.
    fn exec_worker(&self) -> Result<(), Errno> {
        let launch = self.launch;
        let [stdin, stdout, stderr] = launch.streams;
        dup2_stdin(stdin)?;
        dup2_stdout(stdout)?;
        dup2_stderr(stderr)?;
        if let Some((uid, gid)) = launch.identity {
            set_thread_gid(Gid::from_raw(gid))?;
            if geteuid().is_root() {
                set_thread_groups(&[])?;
            }
            set_thread_uid(Uid::from_raw(uid))?;
        }
        if let Some(dir) = launch.dir {
            chdir(dir)?;
        }
        setpgid(None, None)?;
        // A change of user clears it, so it comes after that.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(self.parent) {
            return Err(Errno::PIPE);
        }
        for fd in &launch.kept {
            fcntl_setfd(fd, FdFlags::empty())?;
        }
        unblock_signals();
        // SAFETY: both end with a null pointer, and point to strings that live as long as `self`.
        unsafe { libc::execvp(self.arguments[0], self.arguments.as_ptr()) };
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL))
    }
}

extern "C" fn child(shared: *mut c_void) -> c_int {
    // SAFETY: `fork` passes a reference to itself, and its thread stands still.
    let shared = unsafe { &*shared.cast::<Shared<'_>>() };
    shared.failure.set(shared.exec_worker().err());
    // SAFETY: it ends this process at once; nothing of the parent's is cleaned up.
    unsafe { libc::_exit(127) }
}

/// Restores the default action of every signal: a handler must not run in the memory of the parent.
fn unblock_signals() {
    for signal in HARMLESS.into_iter().chain([SIGCHLD, SIGPIPE]) {
        // SAFETY: the table of handlers is the child's own; the default installs no code.
        unsafe { libc::signal(signal, SIG_DFL) };
    }
    let none = signals(libc::sigemptyset);
    // SAFETY: it is a valid set, and the former one is not asked for.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut()) };
}

fn signals(fill: unsafe extern "C" fn(*mut libc::sigset_t) -> c_int) -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: it writes all of the set, and can't fail.
    unsafe {
        fill(set.as_mut_ptr());
        set.assume_init()
    }
}

/// Signals of this process wait meanwhile.
struct Blocked(libc::sigset_t);

impl Blocked {
    fn all() -> Self {
        let (all, mut former) = (signals(libc::sigfillset), signals(libc::sigemptyset));
        // SAFETY: both are valid sets.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &all, &mut former) };
        Self(former)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: it is the set that was in force before.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.0, ptr::null_mut()) };
    }
}

unsafe extern "C" {
    static mut environ: *const *const c_char;
}

/// The environment of the program is this process's meanwhile: by its `PATH` the program is looked up.
struct Environment {
    former: *const *const c_char,
    _new: Vec<*const c_char>,
}

impl Environment {
    fn set(new: Vec<*const c_char>) -> Self {
        // SAFETY: the angel has one thread, so nobody reads it at the same time.
        let former = unsafe { environ };
        // SAFETY: the same; what it points to is kept until the former one is back.
        unsafe { environ = new.as_ptr() };
        Self { former, _new: new }
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        // SAFETY: as in `set`.
        unsafe { environ = self.former };
    }
}

/// With a null pointer at the end.
fn pointers<'a>(strings: impl IntoIterator<Item = &'a CString>) -> Vec<*const c_char> {
    let all = strings.into_iter().map(|string| string.as_ptr());
    all.chain([ptr::null()]).collect()
}

/// The exit of a child that never became the program is nobody else's to see.
fn reap(pid: c_int) {
    if let Some(pid) = Pid::from_raw(pid) {
        rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).ok();
    }
}
