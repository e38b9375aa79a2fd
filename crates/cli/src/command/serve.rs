use crate::access::Access;
use crate::args::Serve;
use crate::exit::{Failure, Result};
use crate::socket;
use rustix::fd::{FromRawFd, OwnedFd};
use rustix::process::geteuid;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::{env, fs};
use stoker_angel::{Options, Socket, env as names};
use stoker_server::config::{Config, ConfigError, Launch, Source, read_file, resolve};

/// What stands for a file in messages where there is none.
const COMMAND_LINE: &str = "the command line";

/// Becomes the angel. Nothing before this has started a thread.
pub(crate) fn serve(option: Option<PathBuf>, serve: &Serve) -> Result {
    let (launch, config) = configuration(serve)?;
    // What the command line and the environment name is relative to where one stands, what the file
    // names to where the file is.
    let named = socket::named(option).map(std::path::absolute).transpose()?;
    let (shown, directory) = match serve.worker.is_empty() {
        true => {
            let file = file_of(serve);
            (file.display().to_string(), directory_of(&file).to_owned())
        }
        false => (COMMAND_LINE.to_owned(), PathBuf::from(".")),
    };
    let source = Source {
        file: &shown,
        text: &launch.text,
        config: &config,
        base: &directory,
        socket_is_named: named.is_some(),
    };
    source.check_server().map_err(bad)?;
    env::set_current_dir(&directory)?;
    if let Some(file) = &config.log.file {
        stoker_server::open_log(file).map_err(|error| Failure::Config(error.to_string()))?;
    }
    let access = Access::of(&config)?;
    // Others than root can't give it away. Unless they were told to that is no mistake: nor can they start
    // workers of another user.
    let is_asked = config.socket_group.is_some();
    let group = access.group.filter(|_| is_asked || geteuid().is_root());
    let path = std::path::absolute(named.unwrap_or_else(|| socket::configured(config.socket)))?;
    let socket = Socket::listen(&path, config.socket_mode, group)?;
    if let Some(warning) = &access.warning {
        // There is nothing to do about a stderr that can't be written.
        writeln!(io::stderr(), "stoker: {warning}").ok();
    }
    let config = launch.encode();
    match stoker_angel::run(Options { socket, config })? {
        0 => Ok(()),
        code => Err(Failure::Code(code)),
    }
}

/// A configuration file's directory, which is that of the workers, the socket, the store and the log.
pub(crate) fn directory_of(file: &Path) -> &Path {
    let parent = file.parent();
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

fn file_of(serve: &Serve) -> PathBuf {
    let file = serve.config.clone();
    file.unwrap_or_else(|| "stoker.toml".into())
}

/// The configuration, as servers get it and what it means: a file's, or one made for a lone worker.
fn configuration(serve: &Serve) -> Result<(Launch, Config)> {
    if serve.worker.is_empty() {
        let file = file_of(serve);
        let (text, config) = read(&file)?;
        // What can be read only once, as a pipe, a reload does not read again.
        let base = fs::canonicalize(directory_of(&file))?;
        let file = file.is_file().then(|| as_named(&file));
        let launch = Launch {
            file: file.transpose()?,
            base,
            text,
            ..Launch::default()
        };
        return Ok((launch, config));
    }
    let text = Config::for_command(&command_of(&serve.worker)?);
    let config = resolve(COMMAND_LINE, &text).map_err(bad)?;
    let launch = Launch {
        base: env::current_dir()?,
        text,
        ..Launch::default()
    };
    Ok((launch, config))
}

/// An absolute path as a user names it: with the symbolic links on the way to it, which a deploy may lead elsewhere.
pub(crate) fn as_named(path: &Path) -> io::Result<PathBuf> {
    let here = env::current_dir()?;
    // A shell knows by which way one came; the system does not.
    let shell = env::var_os("PWD").map(PathBuf::from);
    let shell = shell.filter(|shell| {
        shell.is_absolute() && fs::canonicalize(shell).is_ok_and(|real| real == here)
    });
    std::path::absolute(shell.unwrap_or(here).join(path))
}

/// Reads and resolves a configuration file.
pub(crate) fn read(file: &Path) -> Result<(String, Config)> {
    let text = read_file(file).map_err(|error| {
        let hint = match file.exists() {
            true => "",
            false => "; 'stoker serve worker.php' needs no file",
        };
        Failure::Config(format!("{error}{hint}"))
    })?;
    let config = resolve(&file.display().to_string(), &text).map_err(bad)?;
    Ok((text, config))
}

pub(crate) fn bad(error: ConfigError) -> Failure {
    Failure::Config(error.to_string())
}

/// How to run a worker that is named by its file: by the interpreter of its kind, or itself.
fn command_of(words: &[String]) -> Result<Vec<String>> {
    let file = Path::new(&words[0]);
    if !file.is_file() {
        return Err(Failure::Usage(format!("there is no file {}", words[0])));
    }
    let interpreter = match file.extension().and_then(|extension| extension.to_str()) {
        Some("php") => Some("php"),
        Some("py") => Some("python3"),
        Some("js" | "mjs") => Some("node"),
        _ => None,
    };
    let absolute = std::path::absolute(file)?.to_string_lossy().into_owned();
    let command = interpreter.map(str::to_owned).into_iter().chain([absolute]);
    Ok(command.chain(words[1..].iter().cloned()).collect())
}

/// The server process, as the angel starts it.
pub(crate) fn server() -> Result {
    let (Some(listener), Some(control)) = (inherited(names::LISTENER), inherited(names::CONTROL))
    else {
        return Err(Failure::Usage(
            "the server process is started by 'stoker serve'".to_owned(),
        ));
    };
    stoker_server::run(listener, control).map_err(|error| match error.kind() {
        // The angel sees this code and does not start the server again.
        ErrorKind::InvalidInput => Failure::Config(error.to_string()),
        _ => Failure::from(error),
    })
}

/// A descriptor that the angel left open and named in the environment.
#[expect(unsafe_code, reason = "a number becomes a descriptor nowhere else")]
fn inherited(name: &str) -> Option<OwnedFd> {
    let number = env::var(name).ok()?.parse().ok()?;
    // SAFETY: the angel opened it for this process, and nothing else here knows its number.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}
