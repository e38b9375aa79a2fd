//! The token that clients on TCP must send.

use crate::random::random_hex;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{error, fmt};

/// The minimum length of a token in bytes, so that it can't be guessed.
const MIN_LEN: usize = 32;
const MAX_LEN: usize = 1_024;
/// The bits of a file's mode that permit access for users other than its owner.
const MODE_OF_OTHERS: u32 = 0o077;

/// Why the token can't be used.
#[derive(Debug)]
pub enum TokenError {
    Failed(PathBuf, io::Error),
    /// Users other than the owner may access the file.
    Open(PathBuf, u32),
    Length(PathBuf, usize),
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(path, error) => {
                write!(
                    f,
                    "cannot read or create the token file {}: {error}",
                    path.display()
                )
            }
            Self::Open(path, mode) => {
                let path = path.display();
                write!(
                    f,
                    "the token file {path} has mode {mode:04o}, so others can read it; run chmod 600 {path}"
                )
            }
            Self::Length(path, len) => write!(
                f,
                "the token in {} has {len} bytes; expected {MIN_LEN} to {MAX_LEN}. Remove the file, and Stoker \
                 creates a new one",
                path.display()
            ),
        }
    }
}

impl error::Error for TokenError {}

/// Creates the file with a new token, or only checks it if it exists.
pub fn make_token_file(path: &Path) -> Result<(), TokenError> {
    let failed = |error| TokenError::Failed(path.to_owned(), error);
    let mut options = OpenOptions::new();
    match options.write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => {
            let token = random_hex::<32>().map_err(failed)?;
            let written = writeln!(file, "{token}").and_then(|()| file.sync_all());
            written.map_err(|error| {
                // An empty file would be rejected as a token that is too short at every later start.
                fs::remove_file(path).ok();
                failed(error)
            })
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => read_token(path).map(drop),
        Err(error) => Err(failed(error)),
    }
}

pub(crate) fn read_token(path: &Path) -> Result<String, TokenError> {
    let failed = |error| TokenError::Failed(path.to_owned(), error);
    let file = fs::File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.mode() & 0o777;
    if mode & MODE_OF_OTHERS != 0 {
        return Err(TokenError::Open(path.to_owned(), mode));
    }
    let mut text = String::new();
    let bounded = file.take(2 * MAX_LEN as u64).read_to_string(&mut text);
    bounded.map_err(failed)?;
    let token = text.trim();
    match token.len() {
        MIN_LEN..=MAX_LEN => Ok(token.to_owned()),
        len => Err(TokenError::Length(path.to_owned(), len)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_token_file_is_created_once_for_its_owner_only() {
        let path = std::env::temp_dir().join(format!("stoker-token-{}", std::process::id()));
        make_token_file(&path).unwrap();
        let token = read_token(&path).unwrap();
        assert_eq!(token.len(), 64);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        make_token_file(&path).unwrap();
        assert_eq!(read_token(&path).unwrap(), token);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(
            make_token_file(&path),
            Err(TokenError::Open(_, 0o640))
        ));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "short\n").unwrap();
        assert!(matches!(read_token(&path), Err(TokenError::Length(_, 5))));
        fs::remove_file(&path).unwrap();
    }
}
