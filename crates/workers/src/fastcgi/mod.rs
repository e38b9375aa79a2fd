//! `strategy = "fastcgi"`: HTTP requests are passed on to a FastCGI server, such as php-fpm, which the adapter starts if the pool
//! has a command.

mod records;

use crate::adapter::{self, Answer, Connection, Handle, Runner, Settings, Task};
use crate::message::{Body, CgiAnswer, Invalid, request_of, variables};
use crate::upstream::{Exchange, Finished, Upstream};
use records::{Kind, Records, begin, stream};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Answers requests until Stoker ends the adapter.
pub fn serve(socket: UnixStream, settings: Settings) -> io::Result<()> {
    adapter::prepare(&socket)?;
    let Some(upstream) = Upstream::start(&socket, &settings)? else {
        return Ok(());
    };
    let hello = settings.hello_of_sites("fastcgi");
    let runner = Arc::new(FastCgi(upstream));
    let served = adapter::serve(socket, hello, &settings, None, runner.clone());
    runner.0.stop();
    served
}

struct FastCgi(Upstream);

impl Runner for FastCgi {
    fn run(&self, task: &Task, handle: &Handle, connection: &Connection) -> Answer {
        let request = match request_of(task, "fastcgi") {
            Ok(request) => request,
            Err(answer) => return answer,
        };
        self.0.answer(task, handle, connection, || {
            let body = Body::of(task, &request)?;
            let variables = variables(task, &request, body.len())?;
            let mut head = begin();
            stream(&mut head, Kind::PARAMS, &records::pairs(&variables));
            stream(&mut head, Kind::PARAMS, &[]);
            let has_body = body.len() > 0;
            if !has_body {
                // Sent at once: the server may answer as soon as it has the head, and a connection on which the request
                // is not complete can't be used again.
                stream(&mut head, Kind::STDIN, &[]);
            }
            Ok(Call {
                head,
                body: has_body.then_some(body),
                records: Records::default(),
                answer: CgiAnswer::new(request.is_head(), connection.max_answer()),
                is_clean: false,
                log: |lines: &[u8]| connection.log(task.id, lines),
            })
        })
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
    log: L,
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
        let mut is_over = false;
        let rest = self.records.feed(bytes, |kind, content| {
            match kind {
                Kind::STDOUT => answer.feed(content)?,
                Kind::STDERR if !content.is_empty() => log(content),
                Kind::END_REQUEST => {
                    records::check_end(content)?;
                    is_over = true;
                }
                _ => {}
            }
            Ok(!is_over)
        })?;
        self.is_clean = is_over && rest == 0;
        Ok(is_over)
    }

    fn held(&mut self) -> Option<&mut Vec<u8>> {
        self.answer.held()
    }

    fn finish(self) -> Result<Finished, Invalid> {
        Ok(Finished {
            message: self.answer.finish()?,
            trailers: Vec::new(),
            is_reusable: self.is_clean,
        })
    }
}
