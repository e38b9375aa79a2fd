//! The adapter: a worker process that speaks the protocol and runs a pool's tasks with programs that do not.

use super::Result;
use crate::command::descriptors::take_inherited;
use crate::exit::Failure;
use std::io;
use std::os::unix::net::UnixStream;
use stoker_workers::{Settings, Strategy, cgi, exec, fastcgi, http};

/// An adapter: a function that serves the pool until the server ends it.
type Serve = fn(UnixStream, Settings) -> io::Result<()>;

fn serve_function(strategy: &str) -> Option<Serve> {
    Some(match strategy {
        "cgi" => cgi::serve,
        "exec" => exec::serve,
        "fastcgi" => fastcgi::serve,
        "http" => http::serve,
        _ => return None,
    })
}

pub(crate) fn adapter(strategy: &str, command: Vec<String>) -> Result {
    if let Some(host) = Strategy::from_name(strategy).and_then(|strategy| strategy.host) {
        // The host inherits the descriptor and the environment.
        let error = stoker_workers::become_host(host, &command);
        return Err(Failure::Failed(format!(
            "a worker with strategy \"{strategy}\" can't be started: {error}"
        )));
    }
    let socket = take_inherited(stoker_angel::env::FD).pop();
    let settings = Settings::from_environment(command);
    let (Some(socket), Some(settings), Some(serve)) = (socket, settings, serve_function(strategy))
    else {
        let text =
            "an adapter is started by 'stoker serve', for a pool with a strategy such as \"exec\"";
        return Err(Failure::Usage(text.to_owned()));
    };
    let served = serve(UnixStream::from(socket), settings);
    served.map_err(|error| {
        Failure::Failed(format!(
            "the adapter of strategy \"{strategy}\" ended: {error}"
        ))
    })
}
