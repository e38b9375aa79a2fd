//! Tests the gateway for other machines against a server that shuts down.

use serde_json::json;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use stoker_gateway::token::{Role, Token, edit, new_secret};
use stoker_gateway::{client, relay};
use stoker_wire::{Encode, MAX_FRAME, Splitter, Status, Type, Welcome, WireError, encode};

/// One end of a connection that speaks the wire protocol.
struct Link<S> {
    stream: S,
    splitter: Splitter,
    waiting: VecDeque<(Type, Status)>,
}

impl<S: Read + Write> Link<S> {
    fn new(stream: S) -> Self {
        Self {
            stream,
            splitter: Splitter::new(MAX_FRAME),
            waiting: VecDeque::new(),
        }
    }

    fn send(&mut self, kind: Type, body: &[u8]) {
        let mut out = Vec::new();
        let frame = Encode::new(kind, 0);
        encode(&mut out, Encode { body, ..frame });
        self.stream.write_all(&out).expect("it works");
    }

    /// The type and status of the next frame; `None` at the end of the connection.
    fn next(&mut self) -> Option<(Type, Status)> {
        let mut buffer = [0; 4096];
        while self.waiting.is_empty() {
            let count = self.stream.read(&mut buffer).unwrap_or(0);
            if count == 0 {
                return None;
            }
            let waiting = &mut self.waiting;
            let fed = self.splitter.feed(&buffer[..count], |frame| {
                waiting.push_back((frame.kind, frame.status()));
                Ok::<(), WireError>(())
            });
            fed.expect("it works");
        }
        self.waiting.pop_front()
    }

    fn expect(&mut self, kind: Type) {
        assert_eq!(self.next().map(|(kind, _)| kind), Some(kind));
    }
}

/// A folder, which is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("stoker-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).expect("it works");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// Creates a token for everything, and returns its secret.
fn token(file: &Path) -> String {
    let (secret, stored) = new_secret("all").expect("it works");
    let token = Token {
        name: "all".to_owned(),
        roles: vec![Role::Admin],
        secrets: vec![stored],
        ..Token::default()
    };
    edit(file, |tokens| {
        tokens.push(token);
        Ok(())
    })
    .expect("it works");
    secret
}

/// Runs the gateway for a server with this socket.
fn start(folder: &Path, listener: TcpListener) -> thread::JoinHandle<std::io::Result<()>> {
    let settings = relay::Settings {
        tokens: folder.join("tokens"),
        tls: None,
        max_connections: 100,
        hello_timeout: Duration::from_secs(60),
        keepalive: Duration::from_secs(60),
        resume_timeout: Duration::from_secs(60),
    };
    let server = client::Settings {
        socket: folder.join("socket"),
        name: "relay".to_owned(),
        token: None,
        own_uid: 0,
    };
    thread::spawn(move || relay::run(settings, server, vec![listener.into()], || {}))
}

/// A server that has just shut down no longer accepts connections, but its listener still does, because the angel has it
/// too. Peers that connect at this moment get UNAVAILABLE, and the gateway does not wait for them.
#[test]
fn peers_that_the_server_never_answered_are_told_that_it_has_shut_down() {
    let folder = Folder::new("relay-end");
    let secret = token(&folder.0.join("tokens"));
    let server = UnixListener::bind(folder.0.join("socket")).expect("it works");
    let port = TcpListener::bind("127.0.0.1:0").expect("it works");
    let address = port.local_addr().expect("it works");
    let gateway = start(&folder.0, port);

    let mut own = Link::new(server.accept().expect("it works").0);
    own.expect(Type::Hello);
    let welcome = Welcome {
        v: 1,
        max_frame: MAX_FRAME,
        max_inflight: 10,
        ..Welcome::default()
    };
    let body = serde_json::to_vec(&welcome).expect("it works");
    own.send(Type::Welcome, &body);

    let hello = json!({"v": [1], "role": "client", "name": "test", "token": secret});
    let mut peer = Link::new(TcpStream::connect(address).expect("it works"));
    peer.send(Type::Hello, hello.to_string().as_bytes());
    let mut unanswered = Link::new(server.accept().expect("it works").0);
    unanswered.expect(Type::Hello);
    // A silent one, which is not authenticated, is not waited for either.
    let silent = TcpStream::connect(address).expect("it works");

    own.send(Type::Goaway, b"");
    drop((own, server));
    assert_eq!(peer.next(), Some((Type::Res, Status::UNAVAILABLE)));
    assert_eq!(peer.next(), None);
    assert!(gateway.join().expect("it does not panic").is_ok());
    drop((silent, unanswered));
}
