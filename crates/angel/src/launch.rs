//! Starts a program without copying this process: the child shares its memory until the exec. Copying the angel's
//! memory only to discard the copy was most of the cost of starting a worker.

#![expect(
    unsafe_code,
    reason = "no safe wrapper starts a program with a parent-death signal without a fork"
)]

use crate::signals::HANDLED;
use libc::{SIG_DFL, SIGCHLD, SIGPIPE, c_char, c_int, c_void};
use rustix::fd::BorrowedFd;
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{
    Gid, Pid, Signal, Uid, chdir, geteuid, getppid, nice, set_parent_process_death_signal, setpgid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};
use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::{io, ptr};

/// The child's stack in bytes. `execvp` needs it to search `PATH`, and to pass a script without an interpreter line to
/// the shell.
const STACK_SIZE: usize = 256 << 10;

/// A program to start in its own process group. It is killed when this process dies.
pub(crate) struct Launch<'a> {
    pub(crate) arguments: &'a [CString],
    pub(crate) environment: &'a [CString],
    /// Variables that only the new process has.
    pub(crate) own_environment: Vec<CString>,
    pub(crate) dir: Option<&'a CStr>,
    /// The uid and gid to run as.
    pub(crate) identity: Option<(u32, u32)>,
    /// Added to the niceness of this process.
    pub(crate) nice: u8,
    /// Standard input, output and error.
    pub(crate) streams: [BorrowedFd<'a>; 3],
    /// Descriptors that the program keeps.
    pub(crate) inherited_fds: Vec<BorrowedFd<'a>>,
    /// This process.
    pub(crate) parent: Pid,
}

/// The part of the parent's memory that the child uses.
struct Shared<'a> {
    launch: &'a Launch<'a>,
    arguments: Vec<*const c_char>,
    failure: Cell<Option<Errno>>,
}

impl Launch<'_> {
    /// Starts the program. Returns its pid after the exec has succeeded. All signals are blocked until then: no handler
    /// may run in the child, because it shares this process's memory.
    pub(crate) fn start(&self, _blocked: &Blocked) -> io::Result<i32> {
        let shared = Shared {
            launch: self,
            arguments: pointers(self.arguments),
            failure: Cell::new(None),
        };
        let pid = {
            let all = self.environment.iter().chain(&self.own_environment);
            let _environment = Environment::set(pointers(all));
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
        let mut stack = Vec::<u8>::with_capacity(STACK_SIZE);
        let top = stack.spare_capacity_mut().as_mut_ptr_range().end;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | SIGCHLD;
        let this = ptr::from_ref(self).cast_mut().cast::<c_void>();
        // SAFETY: this thread is the only one, and it is suspended until the child has executed another program or has
        // ended, so everything that the child uses outlives it. The child has its own stack.
        let pid = unsafe { libc::clone(child, top.cast(), flags, this) };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(pid)
    }

    /// Returns only on failure. It only makes system calls and allocates nothing.
    fn exec_worker(&self) -> Result<(), Errno> {
        let launch = self.launch;
        let [stdin, stdout, stderr] = launch.streams;
        dup2_stdin(stdin)?;
        dup2_stdout(stdout)?;
        dup2_stderr(stderr)?;
        if launch.nice > 0 {
            nice(i32::from(launch.nice))?;
        }
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
        // A change of user clears the parent-death signal, so it is set after that.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(launch.parent) {
            return Err(Errno::PIPE);
        }
        for fd in &launch.inherited_fds {
            fcntl_setfd(fd, FdFlags::empty())?;
        }
        unblock_signals();
        // SAFETY: the arrays of arguments and of variables end with a null pointer, and their strings live as long as
        // `self`.
        unsafe { libc::execvp(self.arguments[0], self.arguments.as_ptr()) };
        Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL))
    }
}

extern "C" fn child(shared: *mut c_void) -> c_int {
    // SAFETY: `fork` passes a reference to itself, and its thread is suspended.
    let shared = unsafe { &*shared.cast::<Shared<'_>>() };
    shared.failure.set(shared.exec_worker().err());
    // SAFETY: `_exit` ends the child at once and cleans up nothing that belongs to the parent.
    unsafe { libc::_exit(127) }
}

/// Restores the default action of every signal and then unblocks all: a handler must not run in the memory of the
/// parent.
fn unblock_signals() {
    for signal in HANDLED.into_iter().chain([SIGCHLD, SIGPIPE]) {
        // SAFETY: the child has its own table of handlers, and the default action installs no code.
        unsafe { libc::signal(signal, SIG_DFL) };
    }
    unblock();
}

/// Unblocks all signals of this process.
pub(crate) fn unblock() {
    let none = signals(libc::sigemptyset);
    // SAFETY: the set is valid, and a null pointer means that the previous set is not returned.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut()) };
}

fn signals(fill: unsafe extern "C" fn(*mut libc::sigset_t) -> c_int) -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: `fill` initializes the whole set and cannot fail.
    unsafe {
        fill(set.as_mut_ptr());
        set.assume_init()
    }
}

/// Blocks all signals of this process until it is dropped.
pub(crate) struct Blocked(libc::sigset_t);

impl Blocked {
    pub(crate) fn all() -> Self {
        let (all, mut former) = (signals(libc::sigfillset), signals(libc::sigemptyset));
        // SAFETY: both are valid sets.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &all, &mut former) };
        Self(former)
    }

    /// Runs `act` with signals unblocked. The signals that came before are handled first.
    pub(crate) fn unblocked<T>(&self, act: impl FnOnce() -> T) -> T {
        self.restore();
        let result = act();
        let all = signals(libc::sigfillset);
        // SAFETY: this is a valid set, and a null pointer means that the previous set is not returned.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &all, ptr::null_mut()) };
        result
    }

    fn restore(&self) {
        // SAFETY: this is the valid set that was in force before.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.0, ptr::null_mut()) };
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        self.restore();
    }
}

unsafe extern "C" {
    static mut environ: *const *const c_char;
}

/// Makes the program's environment that of this process until it is dropped, because `execvp` searches the `PATH` in
/// it.
struct Environment {
    former: *const *const c_char,
    _new: Vec<*const c_char>,
}

impl Environment {
    fn set(new: Vec<*const c_char>) -> Self {
        // SAFETY: the angel has one thread, so no other thread reads `environ` at the same time.
        let former = unsafe { environ };
        // SAFETY: as above. The array is kept until the previous one is restored.
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

/// Pointers to the strings, with a null pointer at the end.
fn pointers<'a>(strings: impl IntoIterator<Item = &'a CString>) -> Vec<*const c_char> {
    let all = strings.into_iter().map(|string| string.as_ptr());
    all.chain([ptr::null()]).collect()
}

/// Reaps a child that failed before the exec, so that the main loop does not see its exit.
fn reap(pid: c_int) {
    if let Some(pid) = Pid::from_raw(pid) {
        rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).ok();
    }
}
