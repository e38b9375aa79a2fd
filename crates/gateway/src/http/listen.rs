//! Accepts connections and serves HTTP on them.

use super::access::Peer;
use super::first_head::{Rewound, read_first_head};
use super::linger::Lingering;
use super::outgoing::Outgoing;
use super::site::{self, SitePeer};
use super::stats::add;
use super::watch::{Activity, Tracked};
use super::{Gateway, connection, route};
use crate::run::is_client_error;
use crate::tls::Tls;
use hyper::StatusCode;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto::Builder;
use rustix::fd::OwnedFd;
use rustix::net::AddressFamily;
use std::convert::Infallible;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::{sleep, timeout};

/// The pause after a failure to accept, which means that there are no descriptors or no memory.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// The time between two attempts to make room for a connection.
const ROOM_INTERVAL: Duration = Duration::from_millis(100);
/// The maximum number of concurrent requests on one HTTP/2 connection.
const MAX_STREAMS: u32 = 250;

/// A listening socket.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        match rustix::net::getsockname(&fd)?.address_family() {
            AddressFamily::UNIX => UnixListener::from_std(fd.into()).map(Self::Unix),
            _ => TcpListener::from_std(fd.into()).map(Self::Tcp),
        }
    }

    pub(crate) fn is_tcp(&self) -> bool {
        matches!(self, Self::Tcp(_))
    }

    /// The address of the socket, for the log.
    pub(crate) fn description(&self) -> String {
        match self {
            Self::Tcp(listener) => {
                let address = listener.local_addr();
                address.map_or(String::new(), |address| format!("http://{address}"))
            }
            Self::Unix(listener) => {
                let address = listener.local_addr().ok();
                let path = address.as_ref().and_then(|address| address.as_pathname());
                path.map_or(String::new(), |path| path.display().to_string())
            }
        }
    }

    async fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => {
                let (socket, address) = listener.accept().await?;
                socket.set_nodelay(true)?;
                Ok(Socket::Tcp(socket, address))
            }
            Self::Unix(listener) => {
                let (socket, _) = listener.accept().await?;
                let uid = socket.peer_cred()?.uid();
                Ok(Socket::Unix(socket, uid))
            }
        }
    }
}

enum Socket {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream, u32),
}

/// Accepts connections forever. `endpoint` is the listener's position among all of them.
pub(crate) async fn accept(gateway: Rc<Gateway>, listener: Listener, endpoint: usize) {
    loop {
        // Programs that use the gateway's own port keep their idle connections. Those of visitors to sites are closed, because there are many.
        if gateway.sites.is_none() {
            wait_for_place(&gateway).await;
        }
        match listener.accept().await {
            Ok(socket) => {
                // No connection is closed to make room before a new one has arrived.
                wait_for_place(&gateway).await;
                start(&gateway, socket, endpoint);
            }
            Err(error) if is_client_error(&error) => {}
            Err(_) => sleep(ACCEPT_RETRY_DELAY).await,
        }
    }
}

/// Waits until there are fewer connections than the limit. Those that are idle make room for visitors of sites.
async fn wait_for_place(gateway: &Gateway) {
    while gateway.connections.is_full() {
        let ended = gateway.ended.notified();
        if gateway.sites.is_some() {
            gateway.connections.make_room();
        }
        // Connections may become idle although none has ended.
        timeout(ROOM_INTERVAL, ended).await.ok();
    }
}

fn start(gateway: &Rc<Gateway>, socket: Socket, endpoint: usize) {
    add(&gateway.stats.accepted, 1);
    let number = gateway.connections.new_number();
    let watch = gateway.connections.watch();
    let (shared, activity) = (gateway.clone(), watch.clone());
    let guard = ConnectionGuard {
        gateway: gateway.clone(),
        number,
    };
    let task = tokio::task::spawn_local(async move {
        let _guard = guard;
        match socket {
            Socket::Tcp(socket, address) => {
                if socket.readable().await.is_err() {
                    return;
                }
                match &shared.sites {
                    None => {
                        serve_connection(shared, socket, Peer::Tcp, activity, Protocol::Any).await;
                    }
                    Some(_) => serve_site(shared, socket, (address, endpoint), activity).await,
                }
            }
            Socket::Unix(socket, uid) => {
                if socket.readable().await.is_ok() {
                    let peer = Peer::Unix(uid);
                    serve_connection(shared, socket, peer, activity, Protocol::Any).await;
                }
            }
        }
    });
    gateway.connections.add(number, watch, task.abort_handle());
    connection::start_checking(gateway);
}

/// Serves a connection to a site, after the TLS handshake if the listener requires one.
async fn serve_site(
    gateway: Rc<Gateway>,
    socket: TcpStream,
    (address, endpoint): (SocketAddr, usize),
    watch: Rc<Activity>,
) {
    let tls = gateway.sites.as_ref().and_then(|sites| sites.tls(endpoint));
    let acceptor = tls.map(Tls::acceptor);
    let mut peer = SitePeer {
        address,
        endpoint,
        is_secure: false,
    };
    let acceptor = match acceptor {
        Some(acceptor) if begins_with_tls(&socket).await => acceptor,
        // A plain request on a listener with TLS is answered with an explanation.
        _ => {
            let peer = Peer::Site(peer);
            return serve_connection(gateway, socket, peer, watch, Protocol::Any).await;
        }
    };
    peer.is_secure = true;
    let handshake = timeout(gateway.settings.header_timeout, acceptor.accept(socket));
    if let Ok(Ok(socket)) = Box::pin(handshake).await {
        let protocol = Protocol::agreed(socket.get_ref().1.alpn_protocol());
        let (socket, peer) = (Box::new(socket), Peer::Site(peer));
        serve_connection(gateway, socket, peer, watch, protocol).await;
    }
}

/// Whether the first byte of a connection begins a TLS handshake.
async fn begins_with_tls(socket: &TcpStream) -> bool {
    const HANDSHAKE: u8 = 0x16;
    let mut first = [0];
    matches!(socket.peek(&mut first).await, Ok(1)) && first[0] == HANDSHAKE
}

/// Serves HTTP until the connection ends. Called only after the first byte has arrived, and hyper's state is allocated
/// only after the first head, so that clients that send nothing or little cost little.
async fn serve_connection<S>(
    gateway: Rc<Gateway>,
    socket: S,
    peer: Peer,
    watch: Rc<Activity>,
    protocol: Protocol,
) where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let mut watched = Tracked {
        socket,
        watch: watch.clone(),
        gateway: gateway.clone(),
    };
    if let Ok(head) = read_first_head(&mut watched).await {
        let socket = Lingering::new(Rewound::new(head, watched));
        Box::pin(serve_requests(gateway, socket, peer, watch, protocol)).await;
    }
}

async fn serve_requests<S>(
    gateway: Rc<Gateway>,
    socket: S,
    peer: Peer,
    watch: Rc<Activity>,
    protocol: Protocol,
) where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let mut builder = protocol.builder();
    let max_header = gateway.settings.max_header;
    let mut http1 = builder.http1();
    http1.max_buf_size(max_header).header_read_timeout(None);
    let mut http2 = builder.http2();
    http2
        .max_header_list_size(u32::try_from(max_header).unwrap_or(u32::MAX))
        .max_concurrent_streams(MAX_STREAMS);
    let shared = gateway.clone();
    let service = service_fn(|request| {
        let (gateway, watch) = (shared.clone(), watch.clone());
        async move {
            let response = match peer {
                Peer::Site(peer) => site::serve(gateway, peer, watch, request).await,
                _ => Outgoing::whole(route::serve(gateway, peer, watch, request).await),
            };
            Ok::<_, Infallible>(response)
        }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(socket), service));
    let mut draining = pin!(gateway.draining.notified());
    let mut is_draining = false;
    let served = poll_fn(|cx| {
        // Over HTTP/2 this sends GOAWAY: requests that it does not cover can be sent again elsewhere.
        if !is_draining && draining.as_mut().poll(cx).is_ready() {
            is_draining = true;
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(cx)
    });
    // An error means that the client violated the protocol or disconnected.
    if let (Err(error), Peer::Site(peer)) = (served.await, peer)
        && let Some(status) = rejected_with(&*error)
    {
        site::reject(&shared, peer, status);
    }
}

/// The status with which hyper has rejected a request whose head could not be read.
fn rejected_with(error: &(dyn Error + Send + Sync + 'static)) -> Option<StatusCode> {
    let error = error.downcast_ref::<hyper::Error>()?;
    match (error.is_parse_too_large(), error.is_parse()) {
        (true, _) => Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
        (false, true) => Some(StatusCode::BAD_REQUEST),
        (false, false) => None,
    }
}

/// Removes a connection from the list when its task ends, also when it is aborted.
struct ConnectionGuard {
    gateway: Rc<Gateway>,
    number: u64,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.gateway.connections.remove(self.number);
        self.gateway.ended.notify_waiters();
    }
}

/// The version of HTTP that a client may speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Any,
    Http1,
    Http2,
}

impl Protocol {
    /// The version that was agreed upon in the TLS handshake, if any was.
    fn agreed(alpn: Option<&[u8]>) -> Self {
        match alpn {
            Some(b"h2") => Self::Http2,
            Some(_) => Self::Http1,
            None => Self::Any,
        }
    }

    fn builder(self) -> Builder<Local> {
        let builder = Builder::new(Local);
        match self {
            Self::Any => builder,
            Self::Http1 => builder.http1_only(),
            Self::Http2 => builder.http2_only(),
        }
    }
}

/// Runs the tasks of hyper in the current thread.
#[derive(Clone, Copy)]
struct Local;

impl<F> Executor<F> for Local
where
    F: Future + 'static,
    F::Output: 'static,
{
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}
