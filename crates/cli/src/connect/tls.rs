//! The client's side of TLS, with error messages that say what to do.

use super::address::TlsOptions;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, Error, RootCertStore,
    StreamOwned,
};

pub(crate) type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// Performs the TLS handshake within a time limit. Returns the error as a message for the user.
pub(super) fn handshake(
    socket: TcpStream,
    host: &str,
    options: &TlsOptions,
    limit: Duration,
) -> Result<TlsStream, String> {
    let name = options.name.as_deref().unwrap_or(host);
    let server = ServerName::try_from(name.to_owned());
    let server = server.map_err(|_| format!("\"{name}\" is not a valid host name"))?;
    let config = Arc::new(config(options)?);
    let connection = ClientConnection::new(config, server);
    let mut connection = connection.map_err(|error| error.to_string())?;
    let mut socket = Limited {
        socket,
        until: Instant::now() + limit,
    };
    while connection.is_handshaking() {
        let done = connection.complete_io(&mut socket);
        done.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("the TLS handshake was not completed within {limit:.1?}")
            }
            _ => explain(&error),
        })?;
    }
    Ok(StreamOwned::new(connection, socket.socket))
}

/// A socket of which all reads and writes together must end before an instant.
struct Limited {
    socket: TcpStream,
    until: Instant,
}

impl Limited {
    fn remaining(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(Some(left)),
        }
    }
}

impl Read for Limited {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.remaining()?)?;
        self.socket.read(buffer)
    }
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.remaining()?)?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

fn config(options: &TlsOptions) -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    let builder = builder.with_root_certificates(roots(options.ca.as_deref())?);
    let Some(certificate) = &options.certificate else {
        return Ok(builder.with_no_client_auth());
    };
    let key = options.key.as_ref().unwrap_or(certificate);
    let chain = read_certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| format!("cannot read the private key {}: {error}", key.display()))?;
    let config = builder.with_client_auth_cert(chain, key);
    config.map_err(|error| format!("cannot use {}: {error}", certificate.display()))
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            for certificate in read_certificates(path)? {
                let added = roots.add(certificate);
                added.map_err(|error| format!("cannot use {}: {error}", path.display()))?;
            }
        }
        None => {
            // Certificates that can't be read are skipped: they may not be needed.
            let trusted = rustls_native_certs::load_native_certs().certs;
            roots.add_parsable_certificates(trusted);
            if roots.is_empty() {
                let text = "this system has no trusted CA certificates: add ?ca=FILE with the server's CA certificate";
                return Err(text.to_owned());
            }
        }
    }
    Ok(roots)
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_file_iter(path);
    let certificates = certificates.and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match certificates {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(format!(
            "{} has no certificate in PEM format",
            path.display()
        )),
        Err(error) => Err(format!(
            "cannot read the certificates in {}: {error}",
            path.display()
        )),
    }
}

/// Explains a TLS error, and says what to do about it.
pub(super) fn explain(error: &io::Error) -> String {
    let tls = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>());
    let Some(tls) = tls else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                "the server closed the connection during the TLS handshake: look for the reason in its log"
                    .to_owned()
            }
            _ => error.to_string(),
        };
    };
    match tls {
        Error::InvalidCertificate(why) => certificate(why),
        Error::InvalidMessage(_) | Error::AlertReceived(AlertDescription::HandshakeFailure) => {
            "the server does not use TLS on this port, or no version that this program supports: try tcp:// instead of \
             tls://"
                .to_owned()
        }
        Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::DecryptError,
        ) => format!(
            "the server rejected the client certificate ({tls}): add ?cert=FILE&key=FILE with one that is signed by \
             the server's client_ca and has not expired"
        ),
        other => other.to_string(),
    }
}

fn certificate(why: &CertificateError) -> String {
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => format!(
            "the server's certificate has expired: renew it, or set the clock of this machine ({})",
            now()
        ),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => format!(
            "the server's certificate is not valid yet: set the clock of this machine ({}) or of the server",
            now()
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => format!(
            "{why}: use a host name that the certificate contains, or add ?name=NAME to the address"
        ),
        CertificateError::UnknownIssuer => {
            "the server's certificate is signed by a CA that this system does not trust: add ?ca=FILE with the \
             certificate of that CA"
                .to_owned()
        }
        other if other.to_string().contains("CaUsedAsEndEntity") => {
            "the server presents a CA certificate instead of a server certificate: issue a server certificate with \
             this CA, or create a self-signed one with -addext basicConstraints=critical,CA:FALSE"
                .to_owned()
        }
        other => format!("the server's certificate is invalid: {other}"),
    }
}

fn now() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    stoker_server::rfc3339(now.map_or(0, |now| now.as_millis() as u64))
}
