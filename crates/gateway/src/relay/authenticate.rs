//! Authenticates a peer, before anything that it sends reaches the server.

use super::connection_handle::ConnectionHandle;
use super::peer_socket::PeerSocket;
use super::permit;
use super::stats::add;
use super::tokens::{ActiveToken, Proof};
use super::{Relay, client_certificate};
use crate::client::Level;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};
use stoker_session::Rejection;
use stoker_wire::{HEADER, Hello, MAX_HELLO, Role, Status, Type, parse};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The first byte of a TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;
/// The first byte of a connection that uses the wire protocol.
const FRAME: u8 = 0;
/// Sent to a TLS client that connects to a port without TLS: the fatal alert *handshake failure*.
const TLS_ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 40];
/// How long a rejected peer may take to read the reason.
const REJECTION_TIMEOUT: Duration = Duration::from_secs(2);

/// A peer that has sent HELLO with a valid token or certificate.
pub(super) struct AuthenticatedPeer {
    pub(super) socket: PeerSocket,
    pub(super) hello: Hello,
    /// Bytes that the peer has sent after HELLO.
    pub(super) rest: Vec<u8>,
    pub(super) handle: Rc<ConnectionHandle>,
    pub(super) address: SocketAddr,
}

/// Why a peer was not authenticated.
enum HandshakeError {
    /// It disconnected, timed out, or failed the TLS handshake.
    Disconnected,
    /// It uses another protocol. Carries the bytes to send to it and the reason to log.
    OtherProtocol(PeerSocket, Vec<u8>, String),
    Rejected(PeerSocket, Rejection),
}

/// Authenticates the peer of a new connection. `None` if it was rejected or has disconnected.
pub(super) async fn authenticate(
    relay: &Rc<Relay>,
    socket: TcpStream,
    address: SocketAddr,
) -> Option<AuthenticatedPeer> {
    let limit = relay.settings.hello_timeout;
    let result = timeout(limit, handshake(relay, socket, address)).await;
    match result.unwrap_or(Err(HandshakeError::Disconnected)) {
        Ok(peer) => Some(peer),
        Err(error) => {
            reject(relay, error, address.ip()).await;
            None
        }
    }
}

async fn reject(relay: &Rc<Relay>, error: HandshakeError, address: IpAddr) {
    let (mut socket, answer, reason, is_auth_failure) = match error {
        HandshakeError::Disconnected => return,
        HandshakeError::OtherProtocol(socket, answer, reason) => (socket, answer, reason, true),
        HandshakeError::Rejected(socket, rejection) => {
            let mut answer = Vec::new();
            rejection.answer(0, &mut answer);
            // A reached limit or a missing role is not a sign of an attack.
            let is_auth_failure = rejection.status == Status::UNAUTHENTICATED;
            (socket, answer, rejection.text.into_owned(), is_auth_failure)
        }
    };
    add(&relay.stats.rejected, 1);
    if is_auth_failure && relay.auth_failures.record(address, Instant::now()) {
        let text = format!("rejected a connection from {address}: {reason}");
        relay.client.log(Level::Warn, text);
    }
    let answered = async {
        // Errors are ignored: the peer may have disconnected already.
        socket.write_all(&answer).await.ok();
        socket.shutdown().await.ok();
        // Closing a socket with unread input would discard the answer.
        let mut unread = [0; 1024];
        while socket.read(&mut unread).await.is_ok_and(|count| count > 0) {}
    };
    timeout(REJECTION_TIMEOUT, answered).await.ok();
}

async fn handshake(
    relay: &Rc<Relay>,
    socket: TcpStream,
    address: SocketAddr,
) -> Result<AuthenticatedPeer, HandshakeError> {
    let mut first = [0];
    let peeked = socket.peek(&mut first).await;
    if !peeked.is_ok_and(|count| count == 1) {
        return Err(HandshakeError::Disconnected);
    }
    let mut socket = secure(relay, socket, first[0], address.ip()).await?;
    let (hello, rest) = match read_hello(&mut socket).await {
        Ok(read) => read,
        Err(Some(rejection)) => return Err(HandshakeError::Rejected(socket, rejection)),
        Err(None) => return Err(HandshakeError::Disconnected),
    };
    match check_hello(relay, &socket, &hello, address.ip()) {
        Ok((active, proof)) => {
            let handle = Rc::new(ConnectionHandle::new(active, proof));
            relay.add(&handle);
            Ok(AuthenticatedPeer {
                socket,
                hello,
                rest,
                handle,
                address,
            })
        }
        Err(rejection) => Err(HandshakeError::Rejected(socket, rejection)),
    }
}

/// Performs the TLS handshake if this gateway uses TLS.
async fn secure(
    relay: &Rc<Relay>,
    socket: TcpStream,
    first: u8,
    address: IpAddr,
) -> Result<PeerSocket, HandshakeError> {
    let secured = match (&relay.tls, first) {
        (None, TLS_HANDSHAKE) => {
            let text = "it uses TLS, but [listen] has no certificate; connect with tcp://";
            return Err(HandshakeError::OtherProtocol(
                PeerSocket::Plain(socket),
                TLS_ALERT.to_vec(),
                text.to_owned(),
            ));
        }
        (None, FRAME) => return Ok(PeerSocket::Plain(socket)),
        (Some(_), FRAME) => {
            let text = "this port requires TLS: connect with tls:// instead of tcp://";
            let rejection = Rejection::new(Status::FAILED_PRECONDITION, text);
            return Err(HandshakeError::Rejected(
                PeerSocket::Plain(socket),
                rejection,
            ));
        }
        (Some(tls), TLS_HANDSHAKE) => tls.acceptor().accept(socket).await,
        _ => {
            let text = "it uses neither Stoker's protocol nor TLS";
            let answer =
                b"This port accepts only Stoker's protocol, not HTTP or any other.\n".to_vec();
            return Err(HandshakeError::OtherProtocol(
                PeerSocket::Plain(socket),
                answer,
                text.to_owned(),
            ));
        }
    };
    secured
        .map(|stream| PeerSocket::Tls(Box::new(stream)))
        .map_err(|error| {
            add(&relay.stats.rejected, 1);
            let now = Instant::now();
            let is_logged = match client_certificate::is_authentication_failure(&error) {
                true => relay.auth_failures.record(address, now),
                // Usually the client does not accept the certificate of this server.
                false => relay.auth_failures.record_other_error(address, now),
            };
            if is_logged {
                let text = format!("the TLS handshake with {address} failed: {error}");
                relay.client.log(Level::Warn, text);
            }
            HandshakeError::Disconnected
        })
}

/// Reads HELLO, and returns it with the bytes that follow. The error is `None` if the peer has disconnected.
async fn read_hello(socket: &mut PeerSocket) -> Result<(Hello, Vec<u8>), Option<Rejection>> {
    let mut bytes = Vec::with_capacity(512);
    loop {
        match parse(&bytes, HEADER + MAX_HELLO).map_err(|error| Some(error.into()))? {
            None => match socket.read_buf(&mut bytes).await {
                Ok(count) if count > 0 => {}
                _ => return Err(None),
            },
            Some((frame, len)) => {
                if frame.kind != Type::Hello {
                    let text = "the first frame of a connection must be HELLO";
                    return Err(Some(Rejection::new(Status::FAILED_PRECONDITION, text)));
                }
                let hello = Hello::parse(frame.body).map_err(|error| Some(error.into()))?;
                return Ok((hello, bytes.split_off(len)));
            }
        }
    }
}

/// Finds the peer's token, and checks that the token permits this connection.
fn check_hello(
    relay: &Relay,
    socket: &PeerSocket,
    hello: &Hello,
    address: IpAddr,
) -> Result<(ActiveToken, Proof), Rejection> {
    // The file is checked here as well as periodically, so that a new token is valid as soon as it has been created.
    relay.refresh_tokens();
    let has_certificate_for = |name: &str| match socket {
        PeerSocket::Tls(stream) => client_certificate::has_certificate_for(stream, name),
        PeerSocket::Plain(_) => false,
    };
    let token = hello.token.as_deref();
    // The token is checked before the address's failures: a valid token must be accepted from an address that others
    // share and fail from.
    let found = relay.tokens.authenticate(token, has_certificate_for);
    let (active, proof) = found.map_err(|rejection| {
        match relay.auth_failures.retry_after(address, Instant::now()) {
            Some(wait) => {
                let text = "too many failed attempts from this address";
                Rejection::limit(text, wait.as_millis() as u32)
            }
            None => rejection,
        }
    })?;
    permit::check_hello(&active.token, hello)?;
    if let (Role::Worker, Some(session)) = (hello.role, &hello.session) {
        // Otherwise the worker's lost connection would keep it out if the token has no place left.
        relay.sessions.replace_connection(session, &active.token);
    }
    active.usage.connect(&active.token)?;
    Ok((active, proof))
}
