//! Measures the cost of HTTP itself, and loads the gateway with clients. Used by `benches/harness/http.py`.
//!
//!     http-bench bare                                   hyper alone, which answers at once; prints its address
//!     http-bench load ADDRESS TOKEN CONNECTIONS SECONDS METHOD
//!                                                       calls in closed loops; prints the results as JSON
//!     http-bench slow ADDRESS COUNT                     clients that send nothing or never complete a header, until
//!                                                       stdin is closed

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto::Builder;
use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};

/// The number of slow clients that connect before the other side gets time to accept them.
const AT_ONCE: usize = 500;

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    let local = LocalSet::new();
    match *words {
        ["bare"] => local.block_on(&runtime, bare()),
        ["load", address, token, connections, seconds, method] => {
            let (connections, seconds) = (number(connections)?, number(seconds)?);
            local.block_on(&runtime, load(address, token, connections, seconds, method))
        }
        ["slow", address, count] => local.block_on(&runtime, slow(address, number(count)?)),
        _ => Err(io::Error::other(
            "bare, load ADDRESS TOKEN CONNECTIONS SECONDS METHOD, or slow ADDRESS COUNT",
        )),
    }
}

fn number(text: &str) -> io::Result<usize> {
    text.parse().map_err(io::Error::other)
}

#[derive(Clone, Copy)]
struct Local;

impl<F: Future + 'static> Executor<F> for Local
where
    F::Output: 'static,
{
    fn execute(&self, future: F) {
        spawn_local(future);
    }
}

async fn bare() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        spawn_local(async move {
            let service = service_fn(|request: Request<Incoming>| async {
                let body = request.into_body().collect().await;
                let body = body.map_or_else(|_| Bytes::new(), |body| body.to_bytes());
                Ok::<_, Infallible>(Response::new(Full::new(body)))
            });
            let mut builder = Builder::new(Local);
            builder.http1().header_read_timeout(None);
            // A client that disconnects is not an error here.
            builder
                .serve_connection(TokioIo::new(socket), service)
                .await
                .ok();
        });
    }
}

async fn load(
    address: &str,
    token: &str,
    connections: usize,
    seconds: usize,
    method: &str,
) -> io::Result<()> {
    let body = r#"{"name":"Ada"}"#;
    let request = format!(
        "POST /call/{method} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let end = Instant::now() + Duration::from_secs(seconds as u64);
    let began = Instant::now();
    let mut clients = Vec::new();
    for _ in 0..connections {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        clients.push(spawn_local(client(socket, request.clone(), end)));
    }
    let mut took = Vec::new();
    for client in clients {
        took.extend(client.await.map_err(io::Error::other)??);
    }
    let elapsed = began.elapsed().as_secs_f64();
    took.sort_unstable();
    let at = |share: f64| {
        took.get((took.len() as f64 * share) as usize)
            .copied()
            .unwrap_or(0) as f64
            / 1e3
    };
    let (count, p50, p99) = (took.len(), at(0.5), at(0.99));
    println!(r#"{{"requests":{count},"seconds":{elapsed},"p50_us":{p50},"p99_us":{p99}}}"#);
    Ok(())
}

/// Makes calls until `end`, and returns the duration of each in nanoseconds.
async fn client(mut socket: TcpStream, request: String, end: Instant) -> io::Result<Vec<u64>> {
    let mut took = Vec::new();
    let mut buffer = vec![0; 4 << 10];
    while Instant::now() < end {
        let began = Instant::now();
        socket.write_all(request.as_bytes()).await?;
        let mut len = 0;
        while !is_whole(&buffer[..len]) {
            let count = socket.read(&mut buffer[len..]).await?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            len += count;
        }
        if !buffer.starts_with(b"HTTP/1.1 200") {
            let text = String::from_utf8_lossy(&buffer[..len]).into_owned();
            return Err(io::Error::other(text));
        }
        took.push(began.elapsed().as_nanos() as u64);
    }
    Ok(took)
}

/// Whether a response is complete.
fn is_whole(bytes: &[u8]) -> bool {
    let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return false;
    };
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let len = text.split("content-length: ").nth(1);
    let len = len.and_then(|rest| rest.split("\r\n").next()?.parse::<usize>().ok());
    bytes.len() >= head + 4 + len.unwrap_or(0)
}

async fn slow(address: &str, count: usize) -> io::Result<()> {
    let mut all = Vec::new();
    for number in 0..count {
        let mut socket = TcpStream::connect(address).await?;
        if number % 2 == 1 {
            socket
                .write_all(b"POST /call/hello.greet HTTP/1.1\r\nhost: localhost\r\nx: ")
                .await?;
        }
        all.push(socket);
        if number % AT_ONCE == 0 {
            // The other side must accept the connections meanwhile.
            tokio::task::yield_now().await;
        }
    }
    println!("ready");
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
