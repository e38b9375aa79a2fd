//! Tests the gateway for other machines against a server that shuts down or ends a connection.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{self, AddressFamily, SocketType, sockopt};
use serde_json::json;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use stoker_gateway::token::{Role, Token, edit, new_secret};
use stoker_gateway::{client, relay};
use stoker_wire::{Encode, Flags, MAX_FRAME, Splitter, Status, Type, Welcome, WireError, encode};

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

/// HELLO of a client.
fn hello(secret: &str) -> Vec<u8> {
    let hello = json!({"v": [1], "role": "client", "name": "test", "token": secret});
    hello.to_string().into_bytes()
}

/// The server's end of the next connection, whose HELLO has been answered.
fn welcomed(server: &UnixListener) -> Link<UnixStream> {
    let mut link = Link::new(server.accept().expect("it works").0);
    link.expect(Type::Hello);
    let welcome = Welcome {
        v: 1,
        max_frame: MAX_FRAME,
        max_inflight: 10,
        ..Welcome::default()
    };
    let body = serde_json::to_vec(&welcome).expect("it works");
    link.send(Type::Welcome, &body);
    link
}

/// Connects with a small receive buffer, so that most of what the gateway sends waits at its end.
fn connect_with_small_buffer(address: SocketAddr) -> TcpStream {
    let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("it works");
    sockopt::set_socket_recv_buffer_size(&socket, 16 << 10).expect("it works");
    net::connect(&socket, &address).expect("it works");
    socket.into()
}

/// Sends requests until no byte of them has been read for a while.
fn fill(stream: &mut TcpStream) {
    let (mut request, body) = (Vec::new(), vec![b'x'; 64 << 10]);
    let frame = Encode {
        flags: Flags::ONEWAY,
        name: "a.b",
        body: &body,
        ..Encode::new(Type::Req, 1)
    };
    encode(&mut request, frame);
    let limit = Some(Duration::from_millis(200));
    stream.set_write_timeout(limit).expect("it works");
    while stream.write_all(&request).is_ok() {}
}

/// The server ends the connection of a peer whose requests nobody has read, for example because it has sent too much. If
/// the gateway closed the socket with this unread input, the peer would lose what it has not received yet.
#[test]
fn the_last_answers_reach_a_peer_whose_input_is_unread() {
    let folder = Folder::new("relay-unread");
    let secret = token(&folder.0.join("tokens"));
    let server = UnixListener::bind(folder.0.join("socket")).expect("it works");
    let port = TcpListener::bind("127.0.0.1:0").expect("it works");
    let address = port.local_addr().expect("it works");
    let gateway = start(&folder.0, port);
    let mut own = welcomed(&server);
    let mut peer = Link::new(connect_with_small_buffer(address));
    peer.send(Type::Hello, &hello(&secret));
    let mut served = welcomed(&server);
    peer.expect(Type::Welcome);

    fill(&mut peer.stream);
    for _ in 0..8 {
        served.send(Type::Res, &[b'y'; 16 << 10]);
    }
    drop(served);
    // The gateway must not close the socket in this time. It may do so a second later.
    let mut closed = [PollFd::new(&peer.stream, PollFlags::empty())];
    let limit = Timespec::try_from(Duration::from_millis(300)).expect("it is short");
    let count = poll(&mut closed, Some(&limit)).expect("it works");
    assert_eq!(count, 0, "the connection was reset");
    for number in 0..8 {
        let next = peer.next();
        assert_eq!(next, Some((Type::Res, Status::OK)), "answer {number}");
    }
    assert_eq!(peer.next(), None);
    own.send(Type::Goaway, b"");
    drop((own, server, peer));
    assert!(gateway.join().expect("it does not panic").is_ok());
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

    let mut own = welcomed(&server);
    let mut peer = Link::new(TcpStream::connect(address).expect("it works"));
    peer.send(Type::Hello, &hello(&secret));
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
