//! Starts processes, each with the descriptors and variables of its kind.

use crate::launch::{Blocked, Launch, unblock};
use crate::recipe::{Recipe, assignment};
use crate::signals::HANDLED;
use crate::{Gateway, env};
use libc::SIG_IGN;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Settings of glibc's allocator for the server and the gateways: a large buffer is returned to the system as soon as
/// it is freed. By default glibc raises that limit to the largest buffer ever freed, and the process would use more
/// memory than the server counts. Other allocators ignore these variables.
const MALLOC_VARIABLES: [(&str, &str); 2] = [
    ("MALLOC_MMAP_THRESHOLD_", "1048576"),
    ("MALLOC_TRIM_THRESHOLD_", "8388608"),
];
/// The same for gateways: more freed blocks of each size are kept for the next request, so that 10,000 open connections,
/// which fragment the memory, do not slow down others (`benches/run.py --only sites`).
const GATEWAY_MALLOC_VARIABLES: [(&str, &str); 1] =
    [("GLIBC_TUNABLES", "glibc.malloc.tcache_count=500")];

/// Those of the variables that the user has not set.
fn unset<const N: usize>(
    variables: [(&'static str, &'static str); N],
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = variables.into_iter();
    all.filter(|(name, _)| std::env::var_os(name).is_none())
}

/// A started worker or zygote: its pid, and the descriptors for the server.
pub(crate) struct Spawned {
    pub(crate) pid: i32,
    /// As in [`Ends::server`].
    pub(crate) fds: Vec<OwnedFd>,
}

/// Resources shared by all starts of workers.
pub(crate) struct Parent {
    /// This process.
    pub(crate) pid: Pid,
    /// The standard input of workers: `/dev/null`.
    pub(crate) dev_null: File,
    /// Signals are blocked except while the angel waits. So several exits are reported by one signal, and starting a
    /// worker need not block them.
    pub(crate) blocked: Blocked,
}

impl Parent {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            pid: getpid(),
            dev_null: File::open("/dev/null")?,
            blocked: Blocked::all(),
        })
    }
}

/// The descriptors of a worker: the server's ends, and its own.
pub(crate) struct Ends {
    /// Stdout, stderr, and the socket if the worker has one. All are non-blocking.
    pub(crate) server: Vec<OwnedFd>,
    /// The socket if the worker has one, stdout, and stderr.
    pub(crate) worker: Vec<OwnedFd>,
}

impl Ends {
    pub(crate) fn open(with_socket: bool) -> io::Result<Self> {
        let (stdout, stdout_end) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, stderr_end) = pipe_with(PipeFlags::CLOEXEC)?;
        let (mut server, mut worker) = (vec![stdout, stderr], Vec::new());
        if with_socket {
            let flags = SocketFlags::CLOEXEC;
            let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            server.push(ours);
            worker.push(theirs);
        }
        worker.extend([stdout_end, stderr_end]);
        for fd in &server {
            fcntl_setfl(fd, OFlags::NONBLOCK)?;
        }
        Ok(Self { server, worker })
    }
}

/// Starts a worker in its own process group, with two pipes and, if it speaks the protocol, a connected socket.
pub(crate) fn worker(
    recipe: &Recipe,
    name: &str,
    socket_path: &str,
    cookie: &str,
    parent: &Parent,
) -> io::Result<Spawned> {
    let ends = Ends::open(recipe.protocol)?;
    let socket = recipe.protocol.then(|| &ends.worker[0]);
    let variable = socket.map(|fd| (env::FD, fd.as_raw_fd().to_string()));
    start(recipe, [name, socket_path, cookie], variable, ends, parent)
}

/// Starts a zygote in its own process group, with two pipes. It connects to the angel at `address`.
pub(crate) fn zygote(
    recipe: &Recipe,
    name: &str,
    socket_path: &str,
    cookie: &str,
    address: &str,
    parent: &Parent,
) -> io::Result<Spawned> {
    let variable = Some((env::ZYGOTE, address.to_owned()));
    let ends = Ends::open(false)?;
    start(recipe, [name, socket_path, cookie], variable, ends, parent)
}

/// Starts the recipe's command. The last two descriptors of its ends become its stdout and stderr; it keeps any others.
fn start(
    recipe: &Recipe,
    [name, socket_path, cookie]: [&str; 3],
    variable: Option<(&str, String)>,
    ends: Ends,
    parent: &Parent,
) -> io::Result<Spawned> {
    let [kept @ .., stdout, stderr] = &ends.worker[..] else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let others = [
        (env::SOCKET, socket_path.to_owned()),
        (env::WORKER, name.to_owned()),
        (env::COOKIE, cookie.to_owned()),
    ];
    let own = variable.into_iter().chain(others);
    let own = own.map(|(name, value)| assignment(name, value));
    let launch = Launch {
        arguments: &recipe.arguments,
        environment: &recipe.environment,
        own_environment: own.collect::<io::Result<_>>()?,
        dir: recipe.dir.as_deref(),
        identity: recipe.identity,
        nice: recipe.nice,
        streams: [parent.dev_null.as_fd(), stdout.as_fd(), stderr.as_fd()],
        inherited_fds: kept.iter().map(AsFd::as_fd).collect(),
        parent: parent.pid,
    };
    let started = launch.start(&parent.blocked);
    let pid = started.map_err(|error| explain(recipe, &error))?;
    let fds = ends.server;
    Ok(Spawned { pid, fds })
}

/// Starts the server: this same program, with the listening socket and its end of the channel.
pub(crate) fn server(listener: BorrowedFd<'_>) -> io::Result<(i32, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    for socket in [&ours, &theirs] {
        rustix::net::sockopt::set_socket_send_buffer_size(socket, 4 * crate::MAX_MESSAGE)?;
    }
    let mut command = new_command("/proc/self/exe");
    command
        .arg0(crate::SERVER_NAME)
        .process_group(0)
        .stdin(Stdio::null());
    command.env(env::LISTENER, listener.as_raw_fd().to_string());
    command.env(env::CONTROL, theirs.as_raw_fd().to_string());
    command.envs(unset(MALLOC_VARIABLES));
    // The server has no parent-death signal: if the angel is killed, the server first kills the workers.
    inherit(
        &mut command,
        vec![listener.as_raw_fd(), theirs.as_raw_fd()],
        Role::Server,
    );
    Ok((command.spawn()?.id() as i32, ours))
}

/// Starts a gateway: this same program, with its listening sockets. The gateway finds the server by the socket's path.
pub(crate) fn gateway(
    gateway: &Gateway,
    socket_path: &str,
    token: &str,
    restarts: u32,
    heartbeat: &OwnedFd,
) -> io::Result<i32> {
    let mut command = new_command("/proc/self/exe");
    let listeners: Vec<RawFd> = gateway.listeners.iter().map(AsRawFd::as_raw_fd).collect();
    let numbers: Vec<String> = listeners.iter().map(RawFd::to_string).collect();
    command
        .arg0(gateway.process_name())
        .process_group(0)
        .stdin(Stdio::null())
        .env(env::LISTENERS, numbers.join(","))
        .env(env::GATEWAY, &gateway.config)
        .env(env::GATEWAY_TOKEN, token)
        .env(env::RESTARTS, restarts.to_string())
        .env(env::HEARTBEAT, heartbeat.as_raw_fd().to_string())
        .env(env::SOCKET, socket_path)
        .envs(unset(MALLOC_VARIABLES))
        .envs(unset(GATEWAY_MALLOC_VARIABLES));
    let mut kept = listeners;
    kept.push(heartbeat.as_raw_fd());
    inherit(&mut command, kept, Role::Gateway);
    Ok(command.spawn()?.id() as i32)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that starts processes"
)]
fn new_command(program: &str) -> Command {
    Command::new(program)
}

#[derive(Clone, Copy, PartialEq)]
enum Role {
    Server,
    /// A gateway is killed when the angel dies.
    Gateway,
}

/// Lets the child keep these descriptors, and prepares it for its role.
///
/// Server and gateways ignore the angel's signals from their first instruction on. If the angel died before the
/// parent-death signal was set, the child already has another parent, and starting it fails.
#[expect(
    unsafe_code,
    reason = "what runs between fork and exec can't be expressed otherwise"
)]
fn inherit(command: &mut Command, fds: Vec<RawFd>, role: Role) {
    let angel = getpid();
    let prepare = move || {
        if role != Role::Server {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            if getppid() != Some(angel) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        for signal in HANDLED {
            // SAFETY: ignoring a signal installs no code, and the signal stays ignored after the exec.
            unsafe { libc::signal(signal, SIG_IGN) };
        }
        // The angel starts its children while its own signals are blocked.
        unblock();
        for fd in &fds {
            // SAFETY: the caller of `inherit` keeps these descriptors open until after the spawn.
            let fd = unsafe { BorrowedFd::borrow_raw(*fd) };
            fcntl_setfd(fd, FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: the angel has one thread, so the child's copy of memory is consistent. The closure only makes system
    // calls and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

/// Marks the descriptors that this process itself inherited as close-on-exec, for example the lock of a `flock` command
/// that started it, so that its children do not inherit them. On kernels before 5.11 the call fails and children
/// inherit them.
#[expect(unsafe_code, reason = "there is no safe wrapper of this call")]
pub(crate) fn close_inherited_on_exec() {
    const FIRST_FD: libc::c_uint = 3;
    // SAFETY: the call only sets the close-on-exec flag; it closes no descriptor of this process.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            FIRST_FD,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
}

fn explain(recipe: &Recipe, error: &io::Error) -> io::Error {
    let text = format!("cannot start {}: {error}", recipe.shown);
    io::Error::new(error.kind(), text)
}
