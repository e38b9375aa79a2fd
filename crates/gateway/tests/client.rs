//! Tests the client of the wire protocol against servers that die.

use bytes::Bytes;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use stoker_gateway::client::{Client, Failure, Reply, Request, Settings};
use stoker_wire::{Codec, Encode, MAX_FRAME, Splitter, Type, Welcome, WireError, encode};
use tokio::task::LocalSet;

/// Starts a server that closes each connection at its first request. Only the request with the number `answers` is
/// answered before. The server ends after a connection without a request, and returns the number of requests.
fn dying(name: &str, answers: usize) -> (PathBuf, thread::JoinHandle<usize>) {
    let path = std::env::temp_dir().join(format!("stoker-{name}-{}", std::process::id()));
    let listener = UnixListener::bind(&path).expect("it works");
    let server = thread::spawn(move || {
        let mut requests = 0;
        loop {
            let (mut stream, _) = listener.accept().expect("it works");
            let mut splitter = Splitter::new(MAX_FRAME);
            let mut buffer = [0; 4096];
            let mut is_over = false;
            let mut is_last = true;
            while !is_over {
                let count = stream.read(&mut buffer).unwrap_or(0);
                if count == 0 {
                    break;
                }
                let mut out = Vec::new();
                let fed = splitter.feed(&buffer[..count], |frame| {
                    match frame.kind {
                        Type::Hello => {
                            let welcome = Welcome {
                                v: 1,
                                max_frame: MAX_FRAME,
                                max_inflight: 10,
                                ..Welcome::default()
                            };
                            let body = serde_json::to_vec(&welcome).unwrap_or_default();
                            let kind = Encode::new(Type::Welcome, 0);
                            encode(
                                &mut out,
                                Encode {
                                    body: &body,
                                    ..kind
                                },
                            );
                        }
                        Type::Req => {
                            requests += 1;
                            is_last = false;
                            is_over = true;
                            if requests == answers {
                                encode(&mut out, Encode::new(Type::Res, frame.id));
                            }
                        }
                        _ => {}
                    }
                    Ok::<(), WireError>(())
                });
                fed.expect("it works");
                stream.write_all(&out).expect("it works");
            }
            if is_last {
                return requests;
            }
        }
    });
    (path, server)
}

fn request(path: &Path, is_repeatable: bool) -> Result<Reply, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("it works");
    let client = Client::new(Settings {
        socket: path.to_owned(),
        name: "test".to_owned(),
        token: None,
        own_uid: 0,
    });
    let mut request = Request::new("a.b", Codec::RAW, Bytes::new());
    request.is_repeatable = is_repeatable;
    request.timeout = Some(Duration::from_secs(20));
    LocalSet::new().block_on(&runtime, async { client.request(0, &request).await })
}

/// Ends the server with a connection without a request, and returns the number of requests that it received.
fn requests_of(path: &Path, server: thread::JoinHandle<usize>) -> usize {
    drop(std::os::unix::net::UnixStream::connect(path).expect("it works"));
    let requests = server.join().expect("it works");
    std::fs::remove_file(path).expect("it works");
    requests
}

#[test]
fn repeatable_requests_are_sent_again() {
    let (path, server) = dying("again", 3);
    assert!(request(&path, true).is_ok());
    assert_eq!(requests_of(&path, server), 3);
}

#[test]
fn a_request_that_crashes_the_server_is_not_sent_again_for_ever() {
    let (path, server) = dying("forever", usize::MAX);
    assert_eq!(request(&path, true).map(|_| ()), Err(Failure::Lost));
    assert_eq!(requests_of(&path, server), 4);
}

#[test]
fn other_requests_are_sent_only_once() {
    let (path, server) = dying("once", usize::MAX);
    assert_eq!(request(&path, false).map(|_| ()), Err(Failure::Lost));
    assert_eq!(requests_of(&path, server), 1);
}
