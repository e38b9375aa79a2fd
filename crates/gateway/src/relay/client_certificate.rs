//! Client certificates, by which peers can authenticate.

use std::io;
use tokio::net::TcpStream;
use tokio_rustls::rustls::Error;
use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::server::TlsStream;

/// Whether a handshake failed because the client did not present a valid certificate.
pub(super) fn is_authentication_failure(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(
        inner,
        Some(Error::InvalidCertificate(_) | Error::NoCertificatesPresented)
    )
}

/// Whether the client's certificate is valid for a name. Its signature was verified in the handshake.
pub(super) fn has_certificate_for(stream: &TlsStream<TcpStream>, name: &str) -> bool {
    let (_, connection) = stream.get_ref();
    let certificate = connection.peer_certificates().and_then(<[_]>::first);
    let (Some(certificate), Ok(name)) = (certificate, ServerName::try_from(name)) else {
        return false;
    };
    ParsedCertificate::try_from(certificate)
        .is_ok_and(|certificate| verify_server_name(&certificate, &name).is_ok())
}
