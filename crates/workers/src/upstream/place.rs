//! The address of a server, which the adapter chooses if the configuration leaves that open.

use crate::adapter::Settings;
use crate::{Address, WORKER_IN_ADDRESS};
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use stoker_os::MAX_SOCKET_PATH;

/// The address at which the server of this adapter accepts connections.
pub(super) fn address(settings: &Settings) -> io::Result<Address> {
    let text = settings.address.as_deref().unwrap_or_default();
    let address = Address::parse(text).ok_or_else(|| {
        let text = format!("invalid address {text:?}: expected a path or host:port");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })?;
    let is_chosen = address.is_chosen();
    Ok(match address {
        Address::Unix(path) if !is_chosen => Address::Unix(absolute(path)),
        address if !is_chosen => address,
        Address::Unix(path) => {
            let path = path
                .to_string_lossy()
                .replace(WORKER_IN_ADDRESS, &settings.worker);
            remove_old(Path::new(&path))?;
            Address::Unix(absolute(path.into()))
        }
        Address::Tcp(host, _) => {
            // The port is free again until the server binds it. If another program takes it meanwhile, which is unlikely, the
            // server can't start, and neither can this worker. The next one chooses another port.
            let free = TcpListener::bind((host.as_str(), 0))?.local_addr()?;
            Address::Tcp(host, free.port())
        }
    })
}

/// The absolute path of a socket: the server may work in another directory, as php-fpm does. A path that would be too long for
/// a socket's address stays relative.
fn absolute(path: PathBuf) -> PathBuf {
    match std::path::absolute(&path) {
        Ok(absolute) if absolute.as_os_str().len() <= MAX_SOCKET_PATH => absolute,
        _ => path,
    }
}

/// Removes the socket that a server of an earlier worker of this name has left. Many servers refuse to replace it themselves.
fn remove_old(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = path
        .symlink_metadata()
        .is_ok_and(|file| file.file_type().is_socket());
    match is_socket {
        true => std::fs::remove_file(path),
        false => Ok(()),
    }
}
