//! A client of HTTP/1.1 that measures and nothing else: one connection, one request at a time.

use crate::interrupt::{Interrupt, PAUSE};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The longest time until an answer is complete.
const TIMEOUT: Duration = Duration::from_secs(30);
const MAX_HEAD: usize = 64 << 10;
const MAX_BODY: usize = 64 << 20;
const MAX_HEADERS: usize = 100;

/// Where requests go, and how they look.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    /// The path of the page; for calls, of the method.
    pub(crate) path: String,
    /// The token of an API of Stoker, whose calls are POST requests; `None` for pages, which are fetched with GET.
    pub(crate) token: Option<String>,
}

impl Target {
    /// The bytes of a request. `query` is names and values that need no encoding.
    pub(crate) fn request(&self, query: &[(&str, &str)]) -> Vec<u8> {
        let (path, address) = (&self.path, self.address);
        let Some(token) = &self.token else {
            let query: Vec<String> = query
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            let separator = match (query.is_empty(), path.contains('?')) {
                (true, _) => "",
                (false, true) => "&",
                (false, false) => "?",
            };
            return format!(
                "GET {path}{separator}{} HTTP/1.1\r\nhost: {address}\r\n\r\n",
                query.join("&")
            )
            .into();
        };
        let query: serde_json::Map<_, _> = query
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).into()))
            .collect();
        let body = serde_json::Value::from(query).to_string();
        let length = body.len();
        format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        )
        .into()
    }

    pub(crate) fn connect(&self, interrupt: &Interrupt) -> io::Result<Connection> {
        let stream = TcpStream::connect_timeout(&self.address, TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PAUSE))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Connection {
            stream,
            interrupt: interrupt.clone(),
            buffer: Vec::with_capacity(4096),
            is_open: true,
        })
    }
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// A connection that is kept open for the next request.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    interrupt: Interrupt,
    /// What has been received and belongs to no answer yet.
    buffer: Vec<u8>,
    is_open: bool,
}

impl Connection {
    /// Sends a request and receives its answer.
    pub(crate) fn exchange(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.stream.write_all(request)?;
        let until = Instant::now() + TIMEOUT;
        let head = loop {
            if let Some(head) = Head::parse(&self.buffer)? {
                break head;
            }
            if self.buffer.len() > MAX_HEAD || self.fill(until)? == 0 {
                return Err(invalid(
                    "the connection was closed, or the answer's head is too long",
                ));
            }
        };
        self.buffer.drain(..head.length);
        self.is_open = !head.closes;
        let body = match (head.chunked, head.body) {
            (true, _) => self.chunks(until)?,
            (false, Some(length)) => self.take(length, until)?,
            (false, None) => {
                self.is_open = false;
                while self.fill(until)? > 0 {}
                std::mem::take(&mut self.buffer)
            }
        };
        Ok(Answer {
            status: head.status,
            body,
        })
    }

    /// Whether another request can be sent.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    fn chunks(&mut self, until: Instant) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let size = httparse::parse_chunk_size(&self.buffer)
                .map_err(|_| invalid("a chunk is malformed"))?;
            let httparse::Status::Complete((start, size)) = size else {
                if self.fill(until)? == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                continue;
            };
            self.buffer.drain(..start);
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            if body.len().saturating_add(size) > MAX_BODY {
                return Err(invalid("the answer's body is too long"));
            }
            let mut chunk = self.take(size + 2, until)?; // with the end of the line
            chunk.truncate(size);
            if size == 0 {
                return Ok(body);
            }
            body.append(&mut chunk);
        }
    }

    fn take(&mut self, length: usize, until: Instant) -> io::Result<Vec<u8>> {
        if length > MAX_BODY + 2 {
            return Err(invalid("the answer's body is too long"));
        }
        while self.buffer.len() < length {
            if self.fill(until)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        let rest = self.buffer.split_off(length);
        Ok(std::mem::replace(&mut self.buffer, rest))
    }

    /// Receives more. Returns the number of bytes, 0 at the end.
    fn fill(&mut self, until: Instant) -> io::Result<usize> {
        if self.buffer.len() > MAX_BODY {
            return Err(invalid("the answer's body is too long"));
        }
        let mut piece = [0; 16 << 10];
        loop {
            match self.stream.read(&mut piece) {
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    if self.interrupt.is_set() {
                        return Err(ErrorKind::Interrupted.into());
                    }
                    if Instant::now() > until {
                        return Err(io::Error::new(
                            ErrorKind::TimedOut,
                            "there was no answer for 30 s",
                        ));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(count) => {
                    self.buffer.extend_from_slice(&piece[..count]);
                    return Ok(count);
                }
            }
        }
    }
}

/// What an answer's head says about its body.
#[derive(Debug, PartialEq)]
struct Head {
    status: u16,
    length: usize,
    /// The length of the body, if the head states it.
    body: Option<usize>,
    chunked: bool,
    closes: bool,
}

impl Head {
    /// `None` if the head is not complete yet.
    fn parse(bytes: &[u8]) -> io::Result<Option<Self>> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut answer = httparse::Response::new(&mut headers);
        let parsed = answer
            .parse(bytes)
            .map_err(|error| invalid(&format!("the answer is malformed: {error}")))?;
        let httparse::Status::Complete(length) = parsed else {
            return Ok(None);
        };
        let mut head = Self {
            status: answer.code.unwrap_or(0),
            length,
            body: None,
            chunked: false,
            closes: answer.version == Some(0),
        };
        for header in answer.headers.iter() {
            let value = String::from_utf8_lossy(header.value).to_ascii_lowercase();
            match header.name.to_ascii_lowercase().as_str() {
                "content-length" => {
                    let length = value.trim().parse();
                    head.body = Some(length.map_err(|_| invalid("invalid content-length"))?);
                }
                "transfer-encoding" => head.chunked = value.contains("chunked"),
                "connection" => head.closes = value.contains("close"),
                _ => {}
            }
        }
        if matches!(head.status, 204 | 304) {
            head.body = Some(0);
        }
        Ok(Some(head))
    }
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// What the client gets from a server that answers with these bytes and closes the connection.
    fn answered(bytes: &'static [u8]) -> io::Result<Vec<(u16, Vec<u8>)>> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target {
            address: listener.local_addr().unwrap(),
            path: "/".to_owned(),
            token: None,
        };
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(bytes).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            stream.read_to_end(&mut Vec::new()).unwrap();
        });
        let mut connection = target.connect(&Interrupt::default())?;
        let mut answers = Vec::new();
        let result = loop {
            match connection.exchange(&target.request(&[])) {
                Ok(answer) => answers.push((answer.status, answer.body)),
                Err(error) => break Err(error),
            }
            if !connection.is_open() {
                break Ok(answers);
            }
        };
        drop(connection);
        server.join().unwrap();
        result
    }

    #[test]
    fn bodies_end_by_length_chunk_or_close() {
        let got = answered(
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhiHTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n\
              HTTP/1.1 204 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\nto the end",
        );
        let expected: [(u16, &[u8]); 4] = [
            (200, b"hi"),
            (500, b"abcd"),
            (204, b""),
            (200, b"to the end"),
        ];
        let expected = expected.map(|(status, body)| (status, body.to_vec()));
        assert_eq!(got.unwrap(), expected);
    }

    #[test]
    fn incomplete_and_malformed_answers_are_errors() {
        for bytes in [
            &b""[..],
            b"HTTP/1.1 200",
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfour",
            b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            b"SSH-2.0\r\n\r\n",
        ] {
            assert!(
                answered(bytes).is_err(),
                "{}",
                String::from_utf8_lossy(bytes)
            );
        }
    }

    #[test]
    fn a_query_is_part_of_the_path_or_the_payload_of_a_call() {
        let page = Target {
            address: "127.0.0.1:80".parse().unwrap(),
            path: "/a?b=c".to_owned(),
            token: None,
        };
        let text = String::from_utf8(page.request(&[("d", "e"), ("f", "1")])).unwrap();
        assert_eq!(
            text,
            "GET /a?b=c&d=e&f=1 HTTP/1.1\r\nhost: 127.0.0.1:80\r\n\r\n"
        );
        let call = Target {
            path: "/call/app.run".to_owned(),
            token: Some("secret".to_owned()),
            ..page
        };
        let text = String::from_utf8(call.request(&[("d", "e")])).unwrap();
        assert!(
            text.starts_with("POST /call/app.run HTTP/1.1\r\n")
                && text.ends_with("\r\n\r\n{\"d\":\"e\"}"),
            "{text}"
        );
    }
}
