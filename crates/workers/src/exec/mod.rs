//! `strategy = "exec"`: a program per task. One adapter serves a pool with so many slots, and starts the pool's command for
//! each task: the payload on stdin, the result from stdout, the verdict from how it ends.

mod connection;
mod memory;
mod output;
mod program;
mod run;
mod task;
mod thread_pool;
mod verdict;

use connection::Connection;
use program::Program;
use run::kill_group;
use std::collections::HashMap;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use stoker_wire::{Frame, MAX_FRAME, Splitter, Type, WireError};
use task::Task;
use thread_pool::ThreadPool;
use verdict::Verdict;

/// Bytes that are read at once.
const READ_SIZE: usize = 64 << 10;

#[derive(Debug, Default)]
struct Running {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The programs that run, by the id of their task.
    tasks: HashMap<u32, Arc<Handle>>,
    /// The server said to go.
    is_draining: bool,
}

impl State {
    fn is_over(&self) -> bool {
        self.is_draining && self.tasks.is_empty()
    }
}

/// What others may do to a program that runs.
#[derive(Debug, Default)]
struct Handle {
    /// Its process group, once it runs; 0 before that and after.
    group: Mutex<i32>,
    is_cancelled: AtomicBool,
    /// It was ended for the memory that it took.
    is_too_large: AtomicBool,
}

/// Serves until the server says to go, and all that had begun has ended, or until the server has gone. A program that takes more
/// than one and a half times `memory_limit` (bytes), with all that it started, is killed.
pub fn serve(
    socket: UnixStream,
    slots: u16,
    memory_limit: Option<u64>,
    command: Vec<String>,
) -> io::Result<()> {
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    // The soft signal of a timeout: the CANCEL before it says whom it means.
    let ignored = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGUSR1, ignored)?;
    let connection = Arc::new(Connection::new(socket.try_clone()?, slots));
    let program = Arc::new(Program::new(command));
    let running = Arc::new(Running::default());
    if let Some(limit) = memory_limit {
        memory::watch(running.clone(), limit)?;
    }
    connection.send_hello()?;
    let mut threads = ThreadPool::default();
    let ended = read(socket, |frame| {
        take(frame, &mut threads, &connection, &program, &running);
        running.is_over()
    });
    // If any are left the server has gone, and nobody will take their answers.
    running.kill_all();
    ended
}

/// Until the server has gone, or all is over. One that is told to go still hears whom to cancel.
fn read(mut socket: UnixStream, mut take: impl FnMut(Frame<'_>) -> bool) -> io::Result<()> {
    let (mut splitter, mut buffer) = (Splitter::new(MAX_FRAME), vec![0; READ_SIZE]);
    let mut is_over = false;
    while !is_over {
        let count = match socket.read(&mut buffer) {
            // The last program has ended, and closed it.
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let fed = splitter.feed(&buffer[..count], |frame| {
            is_over = take(frame);
            Ok::<(), WireError>(())
        });
        fed.map_err(|error| io::Error::other(error.to_string()))?;
    }
    Ok(())
}

fn take(
    frame: Frame<'_>,
    threads: &mut ThreadPool,
    connection: &Arc<Connection>,
    program: &Arc<Program>,
    running: &Arc<Running>,
) {
    match frame.kind {
        Type::Req => {
            let handle = running.add(frame.id);
            let task = Arc::new(Task::of(&frame));
            let run = {
                let (task, connection) = (task.clone(), connection.clone());
                let (program, running) = (program.clone(), running.clone());
                move || {
                    task.run(&program, &handle, &connection);
                    running.remove(task.id, &connection);
                }
            };
            if let Err(error) = threads.run(Box::new(run)) {
                Verdict::not_started(&error).answer(&task, 1, connection);
                running.remove(task.id, connection);
            }
        }
        Type::Cancel => running.cancel(frame.id),
        Type::Ping => connection.pong(frame.id),
        Type::Goaway => running.lock().is_draining = true,
        _ => {}
    }
}

impl Running {
    fn add(&self, id: u32) -> Arc<Handle> {
        let handle = Arc::new(Handle::default());
        self.lock().tasks.insert(id, handle.clone());
        handle
    }

    /// Its answer is written. After the last one there is nothing more to read.
    fn remove(&self, id: u32, connection: &Connection) {
        let mut state = self.lock();
        state.tasks.remove(&id);
        if state.is_over() {
            connection.close();
        }
    }

    fn is_over(&self) -> bool {
        self.lock().is_over()
    }

    fn cancel(&self, id: u32) {
        let handle = self.lock().tasks.get(&id).cloned();
        if let Some(handle) = handle {
            handle.is_cancelled.store(true, Ordering::SeqCst);
            handle.kill();
        }
    }

    fn kill_all(&self) {
        self.lock().tasks.values().for_each(|handle| handle.kill());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handle {
    fn kill(&self) {
        // Held until the signal is sent: the group's number can't become another's meanwhile.
        let group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        kill_group(*group);
    }
}
