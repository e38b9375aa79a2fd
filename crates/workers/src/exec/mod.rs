//! `strategy = "exec"`: a program per task. One adapter with several slots serves a pool and starts the pool's command for
//! each task. The program gets the payload on stdin and writes the result to stdout; its exit status decides the outcome.

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

/// Size of the read buffer, in bytes.
const READ_SIZE: usize = 64 << 10;

#[derive(Debug, Default)]
struct Running {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The running programs, by task id.
    tasks: HashMap<u32, Arc<Handle>>,
    /// The server has sent GOAWAY.
    is_draining: bool,
}

impl State {
    fn is_over(&self) -> bool {
        self.is_draining && self.tasks.is_empty()
    }
}

/// Lets other threads cancel or kill a running program.
#[derive(Debug, Default)]
struct Handle {
    /// The process group of the program; 0 before it is started and after it has ended.
    group: Mutex<i32>,
    is_cancelled: AtomicBool,
    /// The program was killed because it exceeded the memory limit.
    is_too_large: AtomicBool,
}

/// Runs tasks until the server closes the connection, or until it has sent GOAWAY and all started tasks have ended. A program
/// is killed if it and its descendants use more than one and a half times `memory_limit` (in bytes).
pub fn serve(
    socket: UnixStream,
    slots: u16,
    memory_limit: Option<u64>,
    command: Vec<String>,
) -> io::Result<()> {
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    // The server sends SIGUSR1 when a task times out or is cancelled. It is ignored here, because the CANCEL frame that
    // precedes the signal names the task.
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
    // If programs still run here, the connection is closed and their answers could not be delivered.
    running.kill_all();
    ended
}

/// Reads frames until the connection is closed or `take` returns true. A draining adapter continues to read, so that tasks
/// can still be cancelled.
fn read(mut socket: UnixStream, mut take: impl FnMut(Frame<'_>) -> bool) -> io::Result<()> {
    let (mut splitter, mut buffer) = (Splitter::new(MAX_FRAME), vec![0; READ_SIZE]);
    let mut is_over = false;
    while !is_over {
        let count = match socket.read(&mut buffer) {
            // The server has closed the connection, or `Running::remove` has shut it down after the last program.
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

    /// Removes a task whose answer has been sent. If it was the last one of a draining adapter, the connection is closed, which
    /// ends [`read`].
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
        // The lock is kept until the signal is sent, so that the group's number can't be reused meanwhile.
        let group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        kill_group(*group);
    }
}
