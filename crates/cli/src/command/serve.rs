//! `stoker serve`.

use super::descriptors::take_inherited;
use super::front_controller::{self, is_front_controller};
use super::gateways;
use super::systemd::SystemdSockets;
use crate::access::Access;
use crate::args::ServeArgs;
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

/// Replaces the file name in messages if there is no configuration file.
const COMMAND_LINE: &str = "the command line";

/// Turns this process into the angel. No thread has been started before.
pub(crate) fn serve(option: Option<PathBuf>, serve: &ServeArgs) -> Result {
    let (launch, config) = configuration(serve)?;
    // Paths from the command line and the environment are relative to the current directory, paths in the configuration
    // to the directory of its file.
    let named = socket::named_explicitly(option)
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
    // Only root can give the socket to any group. Other users can't start workers of another user either, so for them a
    // group that was only derived from the workers is ignored. A configured group is always applied.
    let is_configured = config.socket_group.is_some();
    let group = access
        .group
        .filter(|_| is_configured || geteuid().is_root());
    let path = match named {
        Some(path) => path,
        None => socket_in(
            &directory,
            &socket::configured_or_default(config.socket.clone()),
        ),
    };
    let mut systemd_sockets = SystemdSockets::take()?;
    let socket = systemd_sockets.listen(&path, config.socket_mode, group)?;
    // The record exists until this function returns.
    let _record = record_run(&launch, &path).inspect_err(|_| socket.remove())?;
    if let Some(warning) = &access.warning {
        // An error while writing to stderr can't be reported anywhere.
        writeln!(io::stderr(), "stoker: {warning}").ok();
    }
    let gateways = gateways::configured_gateways(&config, &mut systemd_sockets, |socket| {
        let path = socket_in(&directory, socket);
        (path, config.socket_mode, group)
    });
    let (gateways, sockets) = gateways.inspect_err(|_| socket.remove())?;
    systemd_sockets
        .check_empty()
        .inspect_err(|_| socket.remove())?;
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

/// The socket's path with its symbolic links, because clients of the next release look for it behind the same links. A
/// path that leaves the release directory, such as `../../shared/stoker.sock`, is resolved: all releases share it.
pub(super) fn socket_in(directory: &Path, configured: &Path) -> PathBuf {
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

/// Records that this Stoker is running. Fails if it would create a store while another Stoker with the same
/// configuration path is running: after a deploy the path may lead to a new release that has no store yet, and the jobs
/// of the other Stoker would be hidden.
fn record_run(launch: &Launch, socket: &Path) -> Result<Option<Record>> {
    let Some(config) = &launch.file else {
        return Ok(None);
    };
    let store = launch.store.as_deref().filter(|store| is_missing(store));
    let record = Records::open().and_then(|records| {
        let other = store.map_or(Ok(None), |_| records.find(config))?;
        match other.zip(store) {
            Some((other, store)) => Ok(Err(conflicting_store(&other, config, store))),
            None => records.add(config, socket).map(Ok),
        }
    });
    match record {
        Ok(record) => record.map(Some),
        Err(error) => {
            let text = format!(
                "cannot record that this Stoker is running ({error}): a second Stoker that is started with this \
                 configuration after a deploy will not be rejected"
            );
            // An error while writing to stderr can't be reported anywhere.
            writeln!(io::stderr(), "stoker: {text}").ok();
            Ok(None)
        }
    }
}

/// Whether opening the store would create it.
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
        "refusing to create a new job store {}: another Stoker (pid {pid}) that was started with the same \
         configuration {} still runs, and the new store would not contain its jobs\n    \
         to run the code of this release in the other Stoker: stoker reload --socket {socket}\n    \
         to replace the other Stoker: stop it, and move its job store to the new path\n    \
         to avoid this error after each deploy: set a path that all releases share, such as [store] path = {:?}",
        store.display(),
        config.display(),
        shared_store_for(store, directory)
    ))
}

/// The directory of a configuration file. Workers run in it, and the paths of socket, store and log are relative to it.
pub(crate) fn directory_of(file: &Path) -> &Path {
    let parent = file.parent();
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

fn file_of(serve: &ServeArgs) -> PathBuf {
    let file = serve.config.clone();
    file.unwrap_or_else(|| "stoker.toml".into())
}

/// Returns the configuration as the server receives it, and parsed: the file's, or one generated for a worker
/// command.
fn configuration(serve: &ServeArgs) -> Result<(Launch, Config)> {
    if serve.worker.is_empty() {
        let file = file_of(serve);
        let (text, config) = read(&file)?;
        // A reload does not read a file again that can be read only once, such as a pipe.
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
    let file = Path::new(&serve.worker[0]);
    let is_site = is_front_controller(file) && file.is_file() && serve.worker.len() == 1;
    let text = match is_site {
        true => front_controller::configuration(&absolute_as_named(file)?, serve.listen.as_deref()),
        false if serve.listen.is_some() => {
            let text = "--listen is the address of a web site: add its front controller to the command, such as public/index.php";
            return Err(Failure::Usage(text.to_owned()));
        }
        false => Config::for_command(&command_of(&serve.worker)?),
    };
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

/// Makes a path absolute without resolving its symbolic links, because a deploy may change their targets.
pub(crate) fn absolute_as_named(path: &Path) -> io::Result<PathBuf> {
    let here = env::current_dir()?;
    // The shell's PWD contains the symbolic links of the current directory; the kernel's answer does not.
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
            false => "; 'stoker serve worker.php' needs no configuration file",
        };
        Failure::Config(format!("{error}{hint}"))
    })?;
    let config = resolve(&file.display().to_string(), &text).map_err(bad)?;
    Ok((text, config))
}

pub(crate) fn bad(error: ConfigError) -> Failure {
    Failure::Config(error.to_string())
}

/// The command that runs a worker file: with the interpreter for its extension, or the file itself.
fn command_of(words: &[String]) -> Result<Vec<String>> {
    let file = Path::new(&words[0]);
    if !file.is_file() {
        return Err(Failure::Usage(format!("file not found: {}", words[0])));
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

/// The main function of the server process, which the angel starts.
pub(crate) fn server() -> Result {
    let (Some(listener), Some(control)) = (
        take_inherited(names::LISTENER).pop(),
        take_inherited(names::CONTROL).pop(),
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
