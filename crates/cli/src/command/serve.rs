use crate::access::Access;
use crate::args::Serve;
use crate::exit::{Failure, Result};
use crate::socket;
use rustix::fd::{FromRawFd, OwnedFd};
use rustix::process::geteuid;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::{env, fs};
use stoker_angel::{Options, env as names};
use stoker_server::config::{Config, ConfigError, MAX_FILE, resolve};

/// Becomes the angel. Nothing before this has started a thread.
pub(crate) fn serve(option: Option<PathBuf>, serve: &Serve) -> Result {
    let (text, config) = configuration(serve)?;
    // What the command line and the environment name is relative to where one stands, what the file
    // names to where the file is.
    let named = socket::named(option).map(std::path::absolute).transpose()?;
    enter_directory_of(serve)?;
    if let Some(file) = &config.log.file {
        stoker_server::open_log(file).map_err(|error| Failure::Config(error.to_string()))?;
    }
    let access = Access::of(&config)?;
    // Others than root can't give it away. Unless they were told to that is no mistake: nor can they start
    // workers of another user.
    let is_asked = config.socket_group.is_some();
    let group = access.group.filter(|_| is_asked || geteuid().is_root());
    let path = std::path::absolute(named.unwrap_or_else(|| socket::configured(config.socket)))?;
    let listener = socket::listen_at(&path, config.socket_mode, group)?;
    if let Some(warning) = &access.warning {
        // There is nothing to do about a stderr that can't be written.
        writeln!(io::stderr(), "stoker: {warning}").ok();
    }
    let socket_path = path.to_string_lossy().into_owned();
    let ours = socket::identity(&path);
    let result = stoker_angel::run(Options {
        listener,
        socket_path,
        config: text,
    });
    // It may be gone already, or be a later server's; then there is nothing to do.
    if ours.is_some() && ours == socket::identity(&path) {
        fs::remove_file(&path).ok();
    }
    match result? {
        0 => Ok(()),
        code => Err(Failure::Code(code)),
    }
}

/// Makes the configuration file's directory that of the workers, the socket and the log.
fn enter_directory_of(serve: &Serve) -> Result {
    let file = serve.config.as_deref().filter(|_| serve.worker.is_empty());
    match file
        .and_then(Path::parent)
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        Some(parent) => Ok(env::set_current_dir(parent)?),
        None => Ok(()),
    }
}

/// The configuration's text and what it means: a file's, or one made for a lone worker.
fn configuration(serve: &Serve) -> Result<(String, Config)> {
    if serve.worker.is_empty() {
        let file = serve.config.clone().unwrap_or_else(|| "stoker.toml".into());
        return read(&file);
    }
    let text = Config::for_command(&command_of(&serve.worker)?);
    let config = resolve("the command line", &text).map_err(bad)?;
    Ok((text, config))
}

/// Reads and resolves a configuration file.
pub(crate) fn read(file: &Path) -> Result<(String, Config)> {
    let shown = file.display().to_string();
    let bytes = fs::read(file).map_err(|error| {
        Failure::Config(format!(
            "cannot read {shown}: {error}; 'stoker serve worker.php' needs no file"
        ))
    })?;
    if bytes.len() > MAX_FILE {
        return Err(Failure::Config(format!(
            "{shown} is larger than {} KB",
            MAX_FILE / 1024
        )));
    }
    let text =
        String::from_utf8(bytes).map_err(|_| Failure::Config(format!("{shown} is not UTF-8")))?;
    let config = resolve(&shown, &text).map_err(bad)?;
    Ok((text, config))
}

fn bad(error: ConfigError) -> Failure {
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
