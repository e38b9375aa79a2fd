//! The file with all tokens.

use super::Token;
use crate::random::random_hex;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{error, fmt};

/// The maximum size of the file in bytes, and the maximum number of tokens in it.
const MAX_SIZE: u64 = 4 << 20;
const MAX_TOKENS: usize = 1_000;
/// The bits of a file's mode that permit access for users other than its owner.
const MODE_OF_OTHERS: u32 = 0o077;

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    tokens: Vec<Token>,
}

/// Why the file can't be read or changed.
#[derive(Debug)]
pub enum FileError {
    Failed(PathBuf, io::Error),
    /// The file's mode permits access for users other than its owner.
    Exposed(PathBuf, u32),
    Invalid(PathBuf, String),
    /// The change was rejected.
    Rejected(String),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(path, error) => {
                write!(
                    f,
                    "cannot read or change the tokens in {}: {error}",
                    path.display()
                )
            }
            Self::Exposed(path, mode) => {
                let path = path.display();
                write!(
                    f,
                    "the token file {path} has mode {mode:04o}, so other users can access it; run chmod 600 {path}"
                )
            }
            Self::Invalid(path, why) => {
                let path = path.display();
                write!(
                    f,
                    "the token file {path} is invalid: {why}; restore it from a backup"
                )
            }
            Self::Rejected(why) => f.write_str(why),
        }
    }
}

impl error::Error for FileError {}

/// Reads all tokens. There are none if the file does not exist.
pub fn read(path: &Path) -> Result<Vec<Token>, FileError> {
    let failed = |error| FileError::Failed(path.to_owned(), error);
    match File::open(path) {
        Ok(file) => read_from(path, &file),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed(error)),
    }
}

fn read_from(path: &Path, file: &File) -> Result<Vec<Token>, FileError> {
    let failed = |error| FileError::Failed(path.to_owned(), error);
    let invalid = |why: String| FileError::Invalid(path.to_owned(), why);
    let mode = file.metadata().map_err(failed)?.mode() & 0o777;
    if mode & MODE_OF_OTHERS != 0 {
        return Err(FileError::Exposed(path.to_owned(), mode));
    }
    let mut text = String::new();
    file.take(MAX_SIZE + 1)
        .read_to_string(&mut text)
        .map_err(failed)?;
    if text.len() as u64 > MAX_SIZE {
        return Err(invalid(format!("it is larger than {MAX_SIZE} bytes")));
    }
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut content: Content =
        serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?;
    check(&content.tokens).map_err(invalid)?;
    content
        .tokens
        .iter_mut()
        .for_each(Token::drop_unused_secrets);
    Ok(content.tokens)
}

fn check(tokens: &[Token]) -> Result<(), String> {
    if tokens.len() > MAX_TOKENS {
        return Err(format!("expected at most {MAX_TOKENS} tokens"));
    }
    tokens
        .iter()
        .try_for_each(Token::check)
        .map_err(|error| error.to_string())?;
    let mut names: Vec<&str> = tokens.iter().map(|token| token.name.as_str()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("two tokens have the name '{}'", pair[0]));
    }
    let mut certificates: Vec<&String> = tokens
        .iter()
        .filter_map(|token| token.certificate.as_ref())
        .collect();
    certificates.sort_unstable();
    match certificates.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!(
            "two tokens are bound to the certificate name '{}'",
            pair[0]
        )),
        None => Ok(()),
    }
}

/// Creates the file, without tokens, for this user if it does not exist. Returns whether it was created.
pub fn create_for(path: &Path, uid: u32, gid: u32) -> Result<bool, FileError> {
    let failed = |error| FileError::Failed(path.to_owned(), error);
    let mut options = OpenOptions::new();
    let created = options.write(true).create_new(true).mode(0o600).open(path);
    match created {
        Ok(file) => {
            std::os::unix::fs::fchown(&file, Some(uid), Some(gid)).map_err(failed)?;
            Ok(true)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

/// Changes the tokens. The file is replaced atomically, so a reader never sees a partial change; concurrent changes are
/// made one after the other.
pub fn edit<T>(
    path: &Path,
    change: impl FnOnce(&mut Vec<Token>) -> Result<T, String>,
) -> Result<T, FileError> {
    let failed = |error| FileError::Failed(path.to_owned(), error);
    // If the path is a symbolic link, its target is replaced, not the link.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let locked = lock(path).map_err(failed)?;
    let mut tokens = read_from(path, &locked)?;
    let result = change(&mut tokens).map_err(FileError::Rejected)?;
    tokens.iter_mut().for_each(Token::drop_unused_secrets);
    check(&tokens).map_err(FileError::Rejected)?;
    replace(path, &Content { tokens }).map_err(failed)?;
    Ok(result)
}

/// Opens and locks the file, and creates it if necessary.
fn lock(path: &Path) -> io::Result<File> {
    loop {
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        // Another process may have replaced the file before it released the lock.
        let locked = file.metadata()?;
        let is_current = fs::metadata(path).is_ok_and(|current| current.ino() == locked.ino());
        if is_current {
            return Ok(file);
        }
    }
}

fn replace(path: &Path, content: &Content) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", random_hex::<8>()?));
    let temporary = path.with_file_name(name);
    let owner = fs::metadata(path)?;
    let written = (|| {
        let mut options = OpenOptions::new();
        // `create_new` fails if the path exists, so another user who can write to the directory can't redirect this
        // write with a symbolic link.
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        let text = serde_json::to_string_pretty(content)?;
        writeln!(file, "{text}")?;
        // Root may edit the file, but the gateway's user must remain its owner.
        if file.metadata()?.uid() != owner.uid() {
            std::os::unix::fs::fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
        }
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        sync_directory_of(path)
    })();
    if written.is_err() {
        // An error is ignored: the file does not exist if it could not be created.
        fs::remove_file(&temporary).ok();
    }
    written
}

/// Syncs the directory of a file. Otherwise a power cut could undo a change, such as a revocation, after it was reported.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::super::Role;
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A file from before a token with a certificate lost its secrets may still have both.
    #[test]
    fn a_token_with_a_certificate_has_no_secrets() {
        let path = std::env::temp_dir().join(format!("stoker-secrets-{}", std::process::id()));
        let (_, secret) = super::super::new_secret("a").unwrap();
        let both = Token {
            certificate: Some("a.internal".to_owned()),
            secrets: vec![secret],
            ..token("a")
        };
        let tokens = vec![both];
        let text = serde_json::to_string(&Content { tokens }).unwrap();
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600);
        file.open(&path)
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        assert_eq!(read(&path).unwrap()[0].secrets, []);
        fs::remove_file(&path).unwrap();
    }

    fn token(name: &str) -> Token {
        Token {
            name: name.to_owned(),
            roles: vec![Role::Push],
            ..Token::default()
        }
    }

    #[test]
    fn only_the_owner_can_read_the_token_file() {
        let path = std::env::temp_dir().join(format!("stoker-tokens-{}", std::process::id()));
        assert_eq!(read(&path).unwrap(), []);
        edit(&path, |tokens| {
            tokens.push(token("a"));
            Ok(())
        })
        .unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(read(&path).unwrap(), [token("a")]);
        let twice = edit(&path, |tokens| {
            tokens.push(token("a"));
            Ok(())
        });
        assert!(matches!(twice, Err(FileError::Rejected(_))));
        let rejected: Result<(), FileError> = edit(&path, |_| Err("no".to_owned()));
        assert_eq!(rejected.unwrap_err().to_string(), "no");
        assert_eq!(read(&path).unwrap(), [token("a")]);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(read(&path), Err(FileError::Exposed(_, 0o640))));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "{\"tokens\": [{}]}").unwrap();
        assert!(matches!(read(&path), Err(FileError::Invalid(..))));
        fs::remove_file(&path).unwrap();
    }
}
