//! Identifies a peer, before anything that it sends reaches the server.

use super::control::Control;
use super::peer::Peer;
use super::permit;
use super::refusal::Refusal;
use super::stats::add;
use super::tokens::{Active, Proof};
use super::{Relay, tls};
use crate::client::Level;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};
use stoker_wire::{HEADER, Hello, MAX_HELLO, Status, Type, parse};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The first byte of a connection that speaks TLS.
const TLS_HANDSHAKE: u8 = 0x16;
/// The first byte of a connection that speaks the wire protocol.
const FRAME: u8 = 0;
/// What a TLS client receives on a port without TLS: the fatal alert *handshake failure*.
const TLS_ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 40];
/// How long a peer that is rejected may take to read why.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);

/// A peer that has identified itself.
pub(super) struct Greeted {
    pub(super) peer: Peer,
    pub(super) hello: Hello,
    /// What the peer has sent after HELLO.
    pub(super) rest: Vec<u8>,
    pub(super) control: Rc<Control>,
    pub(super) address: SocketAddr,
}

/// Why a peer is not served.
enum Rejection {
    /// It disconnected, or said nothing in time.
    Gone,
    /// It speaks another protocol: the text is for the log.
    Foreign(Peer, Vec<u8>, String),
    Refused(Peer, Refusal),
}

/// Identifies the peer of a new connection. `None` if it was rejected, or has disconnected.
pub(super) async fn greet(
    relay: &Rc<Relay>,
    socket: TcpStream,
    address: SocketAddr,
) -> Option<Greeted> {
    let limit = relay.settings.hello_timeout;
    let greeted = timeout(limit, identify(relay, socket, address)).await;
    match greeted.unwrap_or(Err(Rejection::Gone)) {
        Ok(greeted) => Some(greeted),
        Err(rejection) => {
            reject(relay, rejection, address.ip()).await;
            None
        }
    }
}

async fn reject(relay: &Rc<Relay>, rejection: Rejection, address: IpAddr) {
    let (mut peer, answer, reason, is_failure) = match rejection {
        Rejection::Gone => return,
        Rejection::Foreign(peer, answer, reason) => (peer, answer, reason, true),
        Rejection::Refused(peer, refusal) => {
            let mut answer = Vec::new();
            refusal.answer(0, &mut answer);
            // Neither a limit nor a missing role is the sign of an attack.
            let is_failure = refusal.status == Status::UNAUTHENTICATED;
            (peer, answer, refusal.text.into_owned(), is_failure)
        }
    };
    add(&relay.stats.rejected, 1);
    if is_failure && relay.failures.record(address, Instant::now()) {
        let text = format!("rejected a connection from {address}: {reason}");
        relay.client.log(Level::Warn, text);
    }
    let answered = async {
        // The peer may be gone already.
        peer.write_all(&answer).await.ok();
        peer.shutdown().await.ok();
        // Closing a socket with unread input would discard the answer.
        let mut unread = [0; 1024];
        while peer.read(&mut unread).await.is_ok_and(|count| count > 0) {}
    };
    timeout(REFUSAL_TIMEOUT, answered).await.ok();
}

async fn identify(
    relay: &Rc<Relay>,
    socket: TcpStream,
    address: SocketAddr,
) -> Result<Greeted, Rejection> {
    let mut first = [0];
    let peeked = socket.peek(&mut first).await;
    if !peeked.is_ok_and(|count| count == 1) {
        return Err(Rejection::Gone);
    }
    let mut peer = secure(relay, socket, first[0], address.ip()).await?;
    let (hello, rest) = match read_hello(&mut peer).await {
        Ok(read) => read,
        Err(Some(refusal)) => return Err(Rejection::Refused(peer, refusal)),
        Err(None) => return Err(Rejection::Gone),
    };
    match authenticate(relay, &peer, &hello, address.ip()) {
        Ok((active, proof)) => {
            let control = Rc::new(Control::new(active, proof));
            relay.add(&control);
            Ok(Greeted {
                peer,
                hello,
                rest,
                control,
                address,
            })
        }
        Err(refusal) => Err(Rejection::Refused(peer, refusal)),
    }
}

/// Makes the TLS handshake, if this gateway uses TLS.
async fn secure(
    relay: &Rc<Relay>,
    socket: TcpStream,
    first: u8,
    address: IpAddr,
) -> Result<Peer, Rejection> {
    let peer = match (&relay.tls, first) {
        (None, TLS_HANDSHAKE) => {
            let text = "it uses TLS, but there is no certificate in [listen]; connect with tcp://";
            let answer = TLS_ALERT.to_vec();
            return Err(Rejection::Foreign(
                Peer::Plain(socket),
                answer,
                text.to_owned(),
            ));
        }
        (None, FRAME) => return Ok(Peer::Plain(socket)),
        (Some(_), FRAME) => {
            let text = "this port requires TLS: connect with tls:// instead of tcp://";
            let refusal = Refusal::new(Status::FAILED_PRECONDITION, text);
            return Err(Rejection::Refused(Peer::Plain(socket), refusal));
        }
        (Some(tls), TLS_HANDSHAKE) => tls.acceptor().accept(socket).await,
        _ => {
            let text = "it speaks neither Stoker's protocol nor TLS";
            let answer =
                b"This port is for Stoker's protocol, not for HTTP or other ones.\n".to_vec();
            return Err(Rejection::Foreign(
                Peer::Plain(socket),
                answer,
                text.to_owned(),
            ));
        }
    };
    peer.map(|stream| Peer::Tls(Box::new(stream)))
        .map_err(|error| {
            add(&relay.stats.rejected, 1);
            let now = Instant::now();
            let is_logged = match tls::is_authentication_failure(&error) {
                true => relay.failures.record(address, now),
                // Usually the client does not accept the certificate of this server.
                false => relay.failures.note_mishap(address, now),
            };
            if is_logged {
                let text = format!("the TLS handshake with {address} failed: {error}");
                relay.client.log(Level::Warn, text);
            }
            Rejection::Gone
        })
}

/// Reads HELLO, and returns it with the bytes that follow.
async fn read_hello(peer: &mut Peer) -> Result<(Hello, Vec<u8>), Option<Refusal>> {
    let mut bytes = Vec::with_capacity(512);
    loop {
        match parse(&bytes, HEADER + MAX_HELLO).map_err(|error| Some(error.into()))? {
            None => match peer.read_buf(&mut bytes).await {
                Ok(count) if count > 0 => {}
                _ => return Err(None),
            },
            Some((frame, len)) => {
                if frame.kind != Type::Hello {
                    let text = "the first frame of a connection must be HELLO";
                    return Err(Some(Refusal::new(Status::FAILED_PRECONDITION, text)));
                }
                let hello = Hello::parse(frame.body).map_err(|error| Some(error.into()))?;
                return Ok((hello, bytes.split_off(len)));
            }
        }
    }
}

/// Finds the peer's token, and checks whether it may connect with it.
fn authenticate(
    relay: &Relay,
    peer: &Peer,
    hello: &Hello,
    address: IpAddr,
) -> Result<(Active, Proof), Refusal> {
    // A token that was just created is valid at once.
    relay.refresh_tokens();
    let has_certificate_for = |name: &str| match peer {
        Peer::Tls(stream) => tls::has_certificate_for(stream, name),
        Peer::Plain(_) => false,
    };
    let token = hello.token.as_deref();
    // A valid token is accepted even from an address with many failures, which many peers may share.
    let found = relay.tokens.authenticate(token, has_certificate_for);
    let (active, proof) =
        found.map_err(
            |refusal| match relay.failures.must_wait(address, Instant::now()) {
                Some(wait) => {
                    let text = "too many failed attempts from this address";
                    Refusal::limit(text, wait.as_millis() as u32)
                }
                None => refusal,
            },
        )?;
    permit::hello(&active.token, hello)?;
    active.usage.connect(&active.token)?;
    Ok((active, proof))
}
