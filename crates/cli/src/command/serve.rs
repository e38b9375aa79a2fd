//! `stoker serve`.

use super::gateways::{self, Passed, inherited};
use crate::access::Access;
use crate::args::Serve;
use crate::exit::{Failure, Result};
use crate::running::{Record, Records, Running};
use crate::socket;
use rustix::process::geteuid;
use std::io::{self, ErrorKind, Write};
use std::path::{Component, Path, PathBuf};
use std::{env, fs};
use stoker_angel::{Options, Socket, env as names};
use stoker_server::config::{
    Config, ConfigError, Launch, Source, read_file, resolve, shared_store_for,
};

/// What stands for a file in messages where there is none.
const COMMAND_LINE: &str = "the command line";

/// Becomes the angel. Nothing before this has started a thread.
pub(crate) fn serve(option: Option<PathBuf>, serve: &Serve) -> Result {
    let (launch, config) = configuration(serve)?;
    // What the command line and the environment name is relative to where one stands, what the file
    // names to where the file is.
    let named = socket::named(option)
        .as_deref()
        .map(absolute_as_named)
        .transpose()?;
    let (shown, directory) = match serve.worker.is_empty() {
        true => {
            let file = file_of(serve);
            (
                file.display().to_string(),
                absolute_as_named(directory_of(&file))?,
            )
        }
        false => (COMMAND_LINE.to_owned(), absolute_as_named(Path::new("."))?),
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
    let is_configured = config.socket_group.is_some();
    let group = access
        .group
        .filter(|_| is_configured || geteuid().is_root());
    let path = match named {
        Some(path) => path,
        None => socket_in(&directory, &socket::configured(config.socket)),
    };
    let mut passed = Passed::take()?;
    let socket = passed.listen(&path, config.socket_mode, group)?;
    // Held until the end.
    let _record = recorded(&launch, &path).inspect_err(|_| socket.remove())?;
    if let Some(warning) = &access.warning {
        // There is nothing to do about a stderr that can't be written.
        writeln!(io::stderr(), "stoker: {warning}").ok();
    }
    let gateways = gateways::of(&config.http, &mut passed, |socket| {
        let path = socket_in(&directory, socket);
        (path, config.socket_mode, group)
    });
    let (gateways, sockets) = gateways.inspect_err(|_| socket.remove())?;
    passed.check_empty().inspect_err(|_| socket.remove())?;
    let config = launch.encode();
    let ended = stoker_angel::run(Options {
        socket,
        config,
        gateways,
    });
    sockets.iter().for_each(Socket::remove);
    match ended? {
        0 => Ok(()),
        code => Err(Failure::Code(code)),
    }
}

/// The socket's path as it is named, since clients of the next release look for it behind the same links. One that
/// leads out of the release, as `../../shared/stoker.sock`, is the same for all of them.
fn socket_in(directory: &Path, configured: &Path) -> PathBuf {
    let path = directory.join(configured);
    let leads_out = configured
        .components()
        .any(|part| part == Component::ParentDir);
    let parent = path.parent().filter(|_| leads_out);
    let parent = parent.and_then(|parent| fs::canonicalize(parent).ok());
    match parent.zip(path.file_name()) {
        Some((parent, name)) => parent.join(name),
        None => path,
    }
}

/// Records that this Stoker runs, and looks whether it would hide the jobs of another one: after a deploy the same
/// name may lead to a new release, in which there is no store yet.
fn recorded(launch: &Launch, socket: &Path) -> Result<Option<Record>> {
    let Some(config) = &launch.file else {
        return Ok(None);
    };
    let store = launch.store.as_deref().filter(|store| is_missing(store));
    let record = Records::open().and_then(|records| {
        let other = store.map_or(Ok(None), |_| records.find(config))?;
        match other.zip(store) {
            Some((other, store)) => Ok(Err(conflicting_store(&other, config, store))),
            None => records.enter(config, socket).map(Ok),
        }
    });
    match record {
        Ok(record) => record.map(Some),
        Err(error) => {
            let text = format!(
                "cannot record that this Stoker runs ({error}): another one that is started with this configuration \
                 after a deploy will not be refused"
            );
            // There is nothing to do about a stderr that can't be written.
            writeln!(io::stderr(), "stoker: {text}").ok();
            Ok(None)
        }
    }
}

/// Whether a store would be made.
fn is_missing(store: &Path) -> bool {
    fs::metadata(store).map_or_else(
        |error| error.kind() == ErrorKind::NotFound,
        |file| file.is_file() && file.len() == 0,
    )
}

fn conflicting_store(other: &Running, config: &Path, store: &Path) -> Failure {
    let (pid, socket) = (other.pid, other.socket.display());
    let directory = config.parent().unwrap_or(config);
    Failure::Config(format!(
        "there is no job store {} yet, and another Stoker (pid {pid}) that was started with the same configuration {} \
         still runs: with a new store, its jobs would be out of sight\n    \
         to have it run the code of this release, use 'stoker reload --socket {socket}'; to replace it, stop it \
         first; and put the store where all releases share it, as [store] path = {:?}",
        store.display(),
        config.display(),
        shared_store_for(store, directory)
    ))
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
        let file = file.is_file().then(|| absolute_as_named(&file));
        let launch = Launch {
            file: file.transpose()?,
            store: config.store_file(&base),
            base,
            text,
            ..Launch::default()
        };
        return Ok((launch, config));
    }
    let text = Config::for_command(&command_of(&serve.worker)?);
    let config = resolve(COMMAND_LINE, &text).map_err(bad)?;
    let base = env::current_dir()?;
    let launch = Launch {
        store: config.store_file(&base),
        base,
        text,
        ..Launch::default()
    };
    Ok((launch, config))
}

/// An absolute path as a user names it: with the symbolic links on the way to it, which a deploy may lead elsewhere.
pub(crate) fn absolute_as_named(path: &Path) -> io::Result<PathBuf> {
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
    let (Some(listener), Some(control)) = (
        inherited(names::LISTENER).pop(),
        inherited(names::CONTROL).pop(),
    ) else {
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
