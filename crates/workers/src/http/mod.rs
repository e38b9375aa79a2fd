//! `strategy = "http"`: HTTP requests, calls and jobs are passed on to a server that speaks HTTP/1.1, which the adapter starts if
//! the pool has a command.

mod answer;
mod chunked;
mod request;

use crate::adapter::{self, Answer, Connection, Handle, Runner, Settings, Task};
use crate::message::{Body, Invalid, KEPT, Limit, Post, request_of};
use crate::upstream::{Exchange, Finished, Upstream};
use answer::HttpResponse;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Answers requests, and runs calls and jobs, until Stoker ends the adapter.
pub fn serve(socket: UnixStream, settings: Settings) -> io::Result<()> {
    adapter::prepare(&socket)?;
    let Some(upstream) = Upstream::start(&socket, &settings)? else {
        return Ok(());
    };
    let hello = settings.hello_of_sites("http", true);
    let path = settings.task_path.clone();
    let runner = Arc::new(Http { upstream, path });
    let served = adapter::serve(socket, hello, &settings, None, runner.clone());
    runner.upstream.stop();
    served
}

struct Http {
    upstream: Upstream,
    /// The path of the requests that calls and jobs become.
    path: String,
}

impl Runner for Http {
    fn run(&self, task: &Task, handle: &Handle, connection: &Connection) -> Answer {
        match task.is_request() {
            true => self.answer(task, handle, connection),
            false => self.run_task(task, handle, connection),
        }
    }
}

impl Http {
    /// Passes the request of a site on.
    fn answer(&self, task: &Task, handle: &Handle, connection: &Connection) -> Answer {
        let request = match request_of(task) {
            Ok(request) => request,
            Err(answer) => return answer,
        };
        let limit = Limit::Held(connection.max_answer());
        self.upstream.answer(task, handle, connection, || {
            let body = Body::of(task, &request)?;
            Ok(Call {
                head: request::head(task, &request, body.len()),
                body,
                answer: HttpResponse::new(request.is_head(), limit),
            })
        })
    }

    fn run_task(&self, task: &Task, handle: &Handle, connection: &Connection) -> Answer {
        let post = Post::new(task, &self.path, &self.upstream.host()).with_attributes(task);
        let request = post.request(task);
        self.upstream.run(task, handle, connection, || {
            Ok(Call {
                head: request::head_of_task(&request, task.is_idempotent),
                body: Body::Bytes(&task.body),
                answer: HttpResponse::new(false, KEPT),
            })
        })
    }
}

/// A request on a connection.
struct Call<'a> {
    /// The bytes that are sent before the body; empty once they have been sent.
    head: Vec<u8>,
    body: Body<'a>,
    answer: HttpResponse,
}

impl Exchange for Call<'_> {
    fn write(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        match self.head.is_empty() {
            false => out.append(&mut self.head),
            true => out.extend(self.body.next()?),
        }
        Ok(())
    }

    fn read(&mut self, bytes: &[u8]) -> Result<bool, Invalid> {
        self.answer.feed(bytes)
    }

    fn is_complete_on_close(&self) -> bool {
        self.answer.is_complete_on_close()
    }

    fn unsent_mut(&mut self) -> Option<&mut Vec<u8>> {
        self.answer.unsent_mut()
    }

    fn finish(self) -> Result<Finished, Invalid> {
        self.answer.finish()
    }
}
