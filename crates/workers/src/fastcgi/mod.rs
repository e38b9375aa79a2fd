//! `strategy = "fastcgi"`: HTTP requests, calls and jobs are passed on to a FastCGI server, such as php-fpm, which the adapter
//! starts if the pool has a command.

mod records;

use crate::adapter::{self, Answer, Connection, ErrorText, Handle, Runner, Settings, Task};
use crate::message::{
    Body, CgiAnswer, Invalid, KEPT, Limit, Places, TaskScript, Variables, request_of, variables,
};
use crate::upstream::{Exchange, Finished, Upstream};
use records::{Kind, Records, begin, stream};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Answers requests, and runs calls and jobs, until Stoker ends the adapter.
pub fn serve(socket: UnixStream, settings: Settings) -> io::Result<()> {
    adapter::prepare(&socket)?;
    let Some(upstream) = Upstream::start(&socket, &settings)? else {
        return Ok(());
    };
    let script = TaskScript::of(&settings, upstream.is_own())?;
    let hello = settings.hello_of_sites("fastcgi", script.is_some());
    let runner = Arc::new(FastCgi { upstream, script });
    let served = adapter::serve(socket, hello, &settings, None, runner.clone());
    runner.upstream.stop();
    served
}

struct FastCgi {
    upstream: Upstream,
    script: Option<TaskScript>,
}

impl Runner for FastCgi {
    fn run(&self, task: &Task, handle: &Handle, connection: &Connection) -> Answer {
        let answer = match task.is_request() {
            true => self.answer(task, handle, connection),
            false => TaskScript::answer(self.script.as_ref(), task, |script| {
                self.run_task(script, task, handle, connection)
            }),
        };
        answer.unwrap_or_else(|answer| answer)
    }
}

impl FastCgi {
    /// Passes the request of a site on.
    fn answer(
        &self,
        task: &Task,
        handle: &Handle,
        connection: &Connection,
    ) -> Result<Answer, Answer> {
        let request = request_of(task)?;
        let answer = self.upstream.answer(task, handle, connection, || {
            let body = Body::of(task, &request)?;
            let variables = variables(Places::of(task)?, &request, body.len());
            let limit = Limit::Held(connection.max_answer());
            let answer = CgiAnswer::new(request.is_head(), limit);
            Ok(Call::new(variables, body, answer, |lines: &[u8]| {
                connection.log(task.id, lines);
            }))
        });
        Ok(answer)
    }

    fn run_task(
        &self,
        script: &TaskScript,
        task: &Task,
        handle: &Handle,
        connection: &Connection,
    ) -> Result<Answer, Answer> {
        let answer = self.upstream.run(task, handle, connection, || {
            let answer = CgiAnswer::new(false, KEPT);
            let body = Body::Bytes(&task.body);
            Ok(Call::new(
                script.variables(task),
                body,
                answer,
                |lines: &[u8]| {
                    connection.log(task.id, lines);
                },
            ))
        });
        Ok(answer)
    }
}

/// A request on a connection.
struct Call<'a, L> {
    /// The bytes that are sent before the body; empty once they have been sent.
    head: Vec<u8>,
    /// The body, until it has been sent.
    body: Option<Body<'a>>,
    records: Records,
    answer: CgiAnswer,
    /// The answer ended as it should, and nothing follows it.
    is_clean: bool,
    exit_code: i32,
    error_text: ErrorText,
    log: L,
}

impl<'a, L: FnMut(&[u8])> Call<'a, L> {
    fn new(variables: Variables, body: Body<'a>, answer: CgiAnswer, log: L) -> Self {
        let mut head = begin();
        stream(&mut head, Kind::PARAMS, &records::pairs(&variables));
        stream(&mut head, Kind::PARAMS, &[]);
        let has_body = body.len() > 0;
        if !has_body {
            // The empty body is sent at once: the server may answer as soon as it has the head, and a connection on which
            // the request is not complete can't be used again.
            stream(&mut head, Kind::STDIN, &[]);
        }
        Self {
            head,
            body: has_body.then_some(body),
            records: Records::default(),
            answer,
            is_clean: false,
            exit_code: 0,
            error_text: ErrorText::default(),
            log,
        }
    }
}

impl<L: FnMut(&[u8])> Exchange for Call<'_, L> {
    fn write(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        if !self.head.is_empty() {
            out.append(&mut self.head);
            return Ok(());
        }
        let Some(body) = &mut self.body else {
            return Ok(());
        };
        let piece = body.next()?;
        // The empty record says that the body is complete.
        stream(out, Kind::STDIN, &piece);
        if piece.is_empty() {
            self.body = None;
        }
        Ok(())
    }

    fn read(&mut self, bytes: &[u8]) -> Result<bool, Invalid> {
        let (answer, log) = (&mut self.answer, &mut self.log);
        let (exit_code, error_text) = (&mut self.exit_code, &mut self.error_text);
        let mut is_over = false;
        let rest = self.records.feed(bytes, |kind, content| {
            match kind {
                Kind::STDOUT => answer.feed(content)?,
                Kind::STDERR if !content.is_empty() => {
                    error_text.note(content);
                    log(content);
                }
                Kind::END_REQUEST => {
                    *exit_code = records::check_end(content)?;
                    is_over = true;
                }
                _ => {}
            }
            Ok(!is_over)
        })?;
        self.is_clean = is_over && rest == 0;
        Ok(is_over)
    }

    fn unsent_mut(&mut self) -> Option<&mut Vec<u8>> {
        self.answer.unsent_mut()
    }

    fn finish(self) -> Result<Finished, Invalid> {
        Ok(Finished {
            dropped: self.answer.dropped(),
            message: self.answer.finish()?,
            trailers: Vec::new(),
            is_reusable: self.is_clean,
            exit_code: self.exit_code,
            error_text: self.error_text,
        })
    }
}
