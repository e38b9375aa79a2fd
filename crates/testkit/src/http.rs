//! A blocking HTTP/1.1 client for tests.

use crate::limit;
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A blocking HTTP/1.1 connection that also gives access to the raw bytes.
pub struct Http {
    input: BufReader<Box<dyn Read + Send>>,
    output: Box<dyn Write + Send>,
    host: String,
    token: Option<String>,
}

/// A response.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl HttpResponse {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        let parsed = serde_json::from_slice(&self.body);
        parsed.unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

impl Http {
    /// Connects to a unix socket. Fails if the connection fails.
    pub fn unix(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(limit(10.0)))?;
        Ok(Self {
            input: BufReader::new(Box::new(stream.try_clone()?)),
            output: Box::new(stream),
            host: "localhost".to_owned(),
            token: None,
        })
    }

    pub fn tcp(address: SocketAddr, token: Option<&str>) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(limit(10.0)))?;
        Ok(Self {
            input: BufReader::new(Box::new(stream.try_clone()?)),
            output: Box::new(stream),
            host: address.to_string(),
            token: token.map(str::to_owned),
        })
    }

    /// Sends a request and returns the response. Fails if the connection fails.
    pub fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> io::Result<HttpResponse> {
        // The response may come, and the connection may end, before everything was sent.
        self.send(method, path, headers, body).ok();
        self.answer()
    }

    pub fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> io::Result<()> {
        let body = body.as_ref();
        let is_given = |name: &str| headers.iter().any(|(known, _)| *known == name);
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        if !is_given("host") {
            text += &format!("host: {}\r\n", self.host);
        }
        if let Some(token) = self.token.as_ref().filter(|_| !is_given("authorization")) {
            text += &format!("authorization: Bearer {token}\r\n");
        }
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("content-length: {}\r\n\r\n", body.len());
        self.raw(&[text.as_bytes(), body].concat())
    }

    pub fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.output.write_all(bytes)
    }

    /// Returns the next response; the end of the connection is an error.
    pub fn answer(&mut self) -> io::Result<HttpResponse> {
        let first = self.line()?;
        let status = first.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no status: {first}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut answer = HttpResponse {
            status,
            headers,
            body: Vec::new(),
        };
        let len = answer.header("content-length");
        let len = len.and_then(|len| len.parse().ok()).unwrap_or(0);
        answer.body = vec![0; len];
        self.input.read_exact(&mut answer.body)?;
        Ok(answer)
    }

    /// Waits for the end of the connection, and returns what came before it.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.input.read_to_end(&mut rest)?;
        Ok(rest)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.input.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}
