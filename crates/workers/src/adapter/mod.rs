//! What all adapters share: a worker with several slots that takes tasks from the server and has them run by a [`Runner`],
//! each on a thread of its own.

mod answer;
mod attributes;
mod connection;
mod credit;
mod handle;
mod memory;
mod output;
mod parts;
mod program;
mod result;
mod running;
mod settings;
mod task;
mod thread_pool;

pub(crate) use answer::Answer;
pub(crate) use attributes::{HEADER_PREFIX, attributes, encoded};
pub(crate) use connection::Connection;
pub(crate) use handle::{Handle, Target, kill_group};
pub(crate) use output::{Captured, ErrorText, Sink};
pub(crate) use parts::{CallerGone, Parts};
pub(crate) use program::{Ended, Input, Program, wait_for_exit};
pub(crate) use result::{EX_TEMPFAIL, MAX_RESULT, result_of};
pub use settings::Settings;
pub(crate) use task::Task;
#[cfg(test)]
pub(crate) use task::tests::task_of;

use running::Running;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use stoker_wire::{Frame, Hello, MAX_FRAME, Splitter, Type, WireError};
use thread_pool::ThreadPool;

/// Size of the read buffer, in bytes.
const READ_SIZE: usize = 64 << 10;

/// How an adapter runs a task. Several threads call it at once, at most one for each slot.
pub(crate) trait Runner: Send + Sync + 'static {
    /// Runs a task to its end. The handle's owner may cancel it meanwhile.
    fn run(&self, task: &Task, handle: &Handle, connection: &Connection) -> Answer;
}

/// Prepares the process: programs do not inherit the socket, and SIGUSR1 does not end the adapter.
pub(crate) fn prepare(socket: &UnixStream) -> io::Result<()> {
    rustix::io::fcntl_setfd(socket, rustix::io::FdFlags::CLOEXEC)?;
    // The server sends SIGUSR1 when a task times out or is cancelled. It is ignored here, because the CANCEL frame that
    // precedes the signal names the task.
    let ignored = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGUSR1, ignored)?;
    Ok(())
}

/// Runs tasks until the server closes the connection, or until it has sent GOAWAY and all started tasks have ended. `hello`
/// says what the adapter offers. With a `memory_limit` (in bytes), a program is killed if it and its descendants use more than
/// one and a half times that.
pub(crate) fn serve(
    socket: UnixStream,
    hello: Hello,
    settings: &Settings,
    memory_limit: Option<u64>,
    runner: Arc<impl Runner>,
) -> io::Result<()> {
    prepare(&socket)?;
    let connection = Arc::new(Connection::new(socket.try_clone()?, settings.slots));
    let running = Arc::new(Running::default());
    if let Some(limit) = memory_limit {
        memory::watch(running.clone(), limit)?;
    }
    connection.send_hello(hello)?;
    let mut threads = ThreadPool::default();
    let ended = read(socket, |frame| {
        take(frame, &mut threads, &connection, &runner, &running);
        running.is_over()
    });
    // If tasks still run here, the connection is closed and their answers could not be delivered.
    running.cancel_all();
    ended
}

/// Reads frames until the connection is closed or `take` returns true. A draining adapter continues to read, so that tasks
/// can still be cancelled.
fn read(mut socket: UnixStream, mut take: impl FnMut(Frame<'_>) -> bool) -> io::Result<()> {
    let (mut splitter, mut buffer) = (Splitter::new(MAX_FRAME), vec![0; READ_SIZE]);
    let mut is_over = false;
    while !is_over {
        let count = match socket.read(&mut buffer) {
            // The server has closed the connection, or `Running::remove` has shut it down after the last task.
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
    runner: &Arc<impl Runner>,
    running: &Arc<Running>,
) {
    match frame.kind {
        Type::Req => {
            let handle = running.add(frame.id);
            let task = Arc::new(Task::of(&frame));
            let run = {
                let (task, connection) = (task.clone(), connection.clone());
                let (runner, running) = (runner.clone(), running.clone());
                move || {
                    run(&task, &*runner, &handle, &connection);
                    running.remove(task.id, &connection);
                }
            };
            if let Err(error) = threads.run(Box::new(run)) {
                Answer::not_started(&error).send(task.id, 1, false, connection);
                running.remove(task.id, connection);
            }
        }
        Type::Cancel => running.cancel(frame.id),
        Type::Credit => running.grant(frame.id, frame.ttl),
        Type::Ping => connection.send_pong(frame.id),
        Type::Goaway => running.drain(),
        Type::Welcome => connection.apply_welcome(frame.body),
        _ => {}
    }
}

fn run(task: &Task, runner: &impl Runner, handle: &Handle, connection: &Connection) {
    connection.send_started(task.id);
    let began = Instant::now();
    let answer = runner.run(task, handle, connection);
    let worked = u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX);
    answer.send(
        task.id,
        worked.max(1),
        handle.has_begun_answer(),
        connection,
    );
}
