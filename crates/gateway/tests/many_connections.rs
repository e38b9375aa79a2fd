//! Tests how often the client sends a request whose server dies while many connections to it are open.

use bytes::Bytes;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use stoker_gateway::client::{Client, Failure, Request, Settings};
use stoker_wire::{Codec, Encode, MAX_FRAME, Splitter, Type, Welcome, WireError, encode};
use tokio::task::LocalSet;

/// The connections that are open when the server dies.
const OLD: usize = 8;
/// The request that is not answered before.
const HELD: &str = "held.x";

#[derive(Default)]
struct State {
    connections: usize,
    /// How often the held request has arrived.
    arrived: usize,
    /// The connection on which it arrived first.
    held: Option<UnixStream>,
    /// The number of deaths after the first one.
    deaths_left: usize,
}

/// A server that answers everything but the held request. That one ends each of the first connections on which it arrives,
/// which is the same death of the server, and then as many others as there are further deaths.
struct Server {
    path: PathBuf,
    state: Arc<Mutex<State>>,
}

impl Server {
    fn start(name: &str, further_deaths: usize) -> Self {
        let path = std::env::temp_dir().join(format!("stoker-{name}-{}", std::process::id()));
        let listener = UnixListener::bind(&path).expect("it works");
        let state = Arc::new(Mutex::new(State {
            deaths_left: further_deaths,
            ..State::default()
        }));
        let shared = state.clone();
        // It ends with the process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let state = shared.clone();
                let number = state.lock().expect("not poisoned").connections;
                state.lock().expect("not poisoned").connections += 1;
                thread::spawn(move || serve(stream.expect("it works"), number, &state));
            }
        });
        Self { path, state }
    }

    fn die(&self) {
        let held = self.state.lock().expect("not poisoned").held.take();
        let held = held.expect("the request has arrived");
        held.shutdown(Shutdown::Both).expect("it works");
    }

    fn arrived(&self) -> usize {
        self.state.lock().expect("not poisoned").arrived
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        std::fs::remove_file(&self.path).ok();
    }
}

fn serve(mut stream: UnixStream, number: usize, state: &Mutex<State>) {
    let (mut splitter, mut buffer) = (Splitter::new(MAX_FRAME), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        let (mut out, mut dies) = (Vec::new(), false);
        let fed = splitter.feed(&buffer[..count], |frame| {
            match (frame.kind, frame.name) {
                (Type::Hello, _) => {
                    let welcome = Welcome {
                        v: 1,
                        max_frame: MAX_FRAME,
                        max_inflight: 1,
                        ..Welcome::default()
                    };
                    let body = serde_json::to_vec(&welcome).unwrap_or_default();
                    let welcome = Encode::new(Type::Welcome, 0);
                    encode(
                        &mut out,
                        Encode {
                            body: &body,
                            ..welcome
                        },
                    );
                }
                (Type::Req, HELD) => {
                    let mut state = state.lock().expect("not poisoned");
                    state.arrived += 1;
                    if state.arrived == 1 {
                        state.held = stream.try_clone().ok();
                        return Ok(());
                    }
                    dies = number < OLD || state.deaths_left > 0;
                    if number >= OLD {
                        state.deaths_left = state.deaths_left.saturating_sub(1);
                    }
                    if !dies {
                        encode(&mut out, Encode::new(Type::Res, frame.id));
                    }
                }
                (Type::Req, _) => encode(&mut out, Encode::new(Type::Res, frame.id)),
                _ => {}
            }
            Ok::<(), WireError>(())
        });
        fed.expect("valid frames");
        if dies || stream.write_all(&out).is_err() {
            return;
        }
    }
}

fn request(name: &str) -> Request {
    let mut request = Request::new(name, Codec::RAW, Bytes::new());
    request.is_repeatable = true;
    request.timeout = Some(Duration::from_secs(20));
    request
}

/// Sends the held request and enough others that all connections are open, lets the server die, and returns how the held
/// request ended, and how often the client reports it as lost.
fn outlive(server: &Server) -> (Result<(), Failure>, u64) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("it works");
    LocalSet::new().block_on(&runtime, async {
        let client = Client::new(Settings {
            socket: server.path.clone(),
            name: "test".to_owned(),
            token: None,
            own_uid: 0,
        });
        let send = |name: &'static str| {
            let client = client.clone();
            tokio::task::spawn_local(async move { client.request(0, &request(name)).await })
        };
        let held = send(HELD);
        // Each connection has one request at a time, so these need as many connections as there are requests at once.
        while client.connections() < OLD {
            let others = [(); OLD - 1].map(|()| send("others.x"));
            for other in others {
                assert!(other.await.expect("no panic").is_ok());
            }
        }
        server.die();
        let ended = held.await.expect("no panic").map(drop);
        (ended, client.counters().lost.get())
    })
}

/// All connections of one death count once, so the request is sent again after it and after two more.
#[test]
fn one_death_counts_once_however_many_connections_are_open() {
    let server = Server::start("many-again", 2);
    let (ended, lost) = outlive(&server);
    assert_eq!(ended, Ok(()));
    assert_eq!(server.arrived(), OLD + 2 + 1);
    assert_eq!(lost, (OLD + 2) as u64, "each loss is counted once");
}

/// The request itself may be what kills the server.
#[test]
fn the_fourth_death_is_the_last() {
    let server = Server::start("many-last", usize::MAX);
    let (ended, lost) = outlive(&server);
    assert_eq!(ended, Err(Failure::Lost));
    assert_eq!(server.arrived(), OLD + 3);
    assert_eq!(lost, (OLD + 3) as u64);
}
