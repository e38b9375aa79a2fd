//! The server's side of TLS.

use crate::client::Level;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// The files for TLS, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsFiles {
    /// The section of the configuration that names the files, for messages.
    pub section: String,
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The CA that must have signed the certificates of clients.
    pub client_ca: Option<PathBuf>,
    /// The protocols that are offered to clients (ALPN), the preferred one first; none if only one is spoken.
    pub protocols: Vec<String>,
}

/// Inode and change time of each file, from which a change is recognized. `None` for a file that can't be read.
type Version = Vec<Option<(u64, i64, i64)>>;

pub(crate) struct Tls {
    files: TlsFiles,
    config: RefCell<Arc<ServerConfig>>,
    version: RefCell<Version>,
}

impl Tls {
    pub(crate) fn new(files: TlsFiles) -> Result<Self, String> {
        let version = version(&files);
        Ok(Self {
            config: RefCell::new(Arc::new(load(&files)?)),
            version: RefCell::new(version),
            files,
        })
    }

    /// Reads the files again if they have changed, and returns a line for the log in that case. Open connections are not
    /// affected. If the files are invalid, the last valid ones stay in use.
    pub(crate) fn refresh(&self) -> Option<(Level, String)> {
        let version = version(&self.files);
        if version == *self.version.borrow() {
            return None;
        }
        // The version is set even if loading fails, so that an invalid version is reported only once.
        *self.version.borrow_mut() = version;
        match load(&self.files) {
            Ok(config) => {
                *self.config.borrow_mut() = Arc::new(config);
                let text = "reloaded the certificate, which new connections use";
                Some((Level::Info, text.to_owned()))
            }
            Err(error) => {
                let text = format!("{error}; the last valid certificate stays in use");
                Some((Level::Warn, text))
            }
        }
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.borrow().clone())
    }
}

fn version(files: &TlsFiles) -> Version {
    let paths = [
        Some(&files.certificate),
        Some(&files.key),
        files.client_ca.as_ref(),
    ];
    let version = |path: &Path| {
        let file = fs::metadata(path).ok()?;
        Some((file.ino(), file.ctime(), file.ctime_nsec()))
    };
    paths
        .into_iter()
        .flatten()
        .map(|path| version(path))
        .collect()
}

/// Checks that the files can be used.
pub fn check(files: &TlsFiles) -> Result<(), String> {
    load(files).map(drop)
}

fn load(files: &TlsFiles) -> Result<ServerConfig, String> {
    let certificates = read_certificates(&files.certificate)?;
    let (shown, section) = (files.key.display(), &files.section);
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| format!("cannot read the private key {shown} ({section} key): {error}"))?;
    let provider = Arc::new(default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in read_certificates(path)? {
                roots
                    .add(certificate)
                    .map_err(|error| invalid(path, error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = verifier.build().map_err(|error| invalid(path, error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let config = builder.with_single_cert(certificates, key);
    let mut config = config.map_err(|error| {
        let certificate = files.certificate.display();
        format!(
            "cannot use the certificate {certificate} with the key {shown} ({section} certificate, key): {error}"
        )
    })?;
    let protocols = files.protocols.iter().map(|name| name.as_bytes().to_vec());
    config.alpn_protocols = protocols.collect();
    Ok(config)
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_file_iter(path);
    let certificates = certificates.and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match certificates {
        Ok(all) if all.is_empty() => {
            Err(invalid(path, "the file has no certificate in PEM format"))
        }
        Ok(all) => Ok(all),
        Err(error) => Err(invalid(path, error)),
    }
}

fn invalid(path: &Path, why: impl ToString) -> String {
    format!(
        "cannot use the certificates in {}: {}",
        path.display(),
        why.to_string()
    )
}
