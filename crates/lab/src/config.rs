//! The configurations of the servers that are measured.

use crate::application::{Application, text};
use crate::way::{php_fpm, program};
use rustix::process::geteuid;
use std::path::Path;
use stoker_workers::{Requests, Strategy};

/// The name of pool, site and service.
pub(crate) const NAME: &str = "app";
/// The maximum number of processes that a strategy with one task per process has for each one that is kept ready.
const MAX_SPARE: u32 = 2;
/// The same if they are forked from a zygote. Some of them are about to start or end, which leaves a processor idle if there are too
/// few.
const FORKED: u32 = 4;

/// The text of `stoker.toml` for a strategy. `folder`: where this Stoker runs. `workers`: the number of tasks at once.
pub(crate) fn stoker(
    strategy: &Strategy,
    auto: bool,
    application: &Application,
    folder: &Path,
    workers: u32,
) -> String {
    let max = match strategy.has_zygote {
        true => FORKED,
        false => MAX_SPARE,
    };
    let size = match strategy.tasks > 0 {
        true => format!("{{ min = {workers}, max = {} }}", workers * max),
        false => workers.to_string(),
    };
    let command: Vec<String> = command(strategy, application, folder)
        .iter()
        .map(|word| quote(word))
        .collect();
    let mut env: Vec<String> = application
        .env
        .iter()
        .map(|(name, value)| format!("{name} = {}", quote(value)))
        .collect();
    if strategy.requests == Requests::Nobody {
        // So the front controller answers the same page as for a request.
        env.push("REQUEST_METHOD = \"GET\"".to_owned());
        env.push(format!("REQUEST_URI = {}", quote(&application.path)));
    }
    if strategy.name == "http" && workers > 1 {
        env.push(format!("PHP_CLI_SERVER_WORKERS = \"{workers}\""));
    }
    let mut config = format!(
        "[store]\ndriver = \"memory\"\n[log]\nformat = \"json\"\n[pool.{NAME}]\nstrategy = {}\ncommand = [{}]\nworkers = {size}\n\
         directory = {}\nenv = {{ {} }}\n",
        quote(strategy.name),
        command.join(", "),
        quote(&text(&application.folder)),
        env.join(", ")
    );
    if auto {
        config += "tasks_per_fork = \"auto\"\n";
    }
    config += &match strategy.name {
        "fastcgi" => format!(
            "address = {}\n",
            quote(&text(&folder.join("fpm-{worker}.sock")))
        ),
        "http" => "address = \"127.0.0.1:0\"\n".to_owned(),
        _ => String::new(),
    };
    config
        + &match strategy.requests {
            Requests::Nobody => {
                format!("[service.{NAME}]\npool = \"{NAME}\"\n[http]\nlisten = [\"127.0.0.1:0\"]\n")
            }
            // A GET request is not retried, so that one that kills its process kills one process.
            _ => format!(
                "[site.{NAME}]\nlisten = [\"127.0.0.1:0\"]\nidempotent = false\nroot = {}\n",
                quote(&text(&application.root()))
            ),
        }
}

fn command(strategy: &Strategy, application: &Application, folder: &Path) -> Vec<String> {
    let (index, root) = (
        text(&application.front_controller()),
        text(&application.root()),
    );
    let script = |script: &Result<std::path::PathBuf, String>| {
        script.as_deref().map(text).unwrap_or_default()
    };
    let found = |path: Option<std::path::PathBuf>| path.as_deref().map(text).unwrap_or_default();
    let php = || found(program("php"));
    match strategy.name {
        "sapi" => ["-d", "display_errors=0"].map(str::to_owned).into(),
        "snapshot" => vec![script(&application.snapshot)],
        "cgi" => vec![found(program("php-cgi"))],
        "exec" => vec![php(), index],
        "http" => vec![
            php(),
            "-q".to_owned(),
            "-S".to_owned(),
            "{address}".to_owned(),
            "-t".to_owned(),
            root,
            index,
        ],
        "fastcgi" => fpm_command(&folder.join("fpm.conf")),
        _ => vec![php(), script(&application.worker)],
    }
}

/// The command that starts php-fpm in the foreground.
pub(crate) fn fpm_command(config: &Path) -> Vec<String> {
    let program = php_fpm().as_deref().map(text).unwrap_or_default();
    let mut words = vec![program, "-F".to_owned(), "-y".to_owned(), text(config)];
    if geteuid().is_root() {
        words.push("-R".to_owned());
    }
    words
}

/// The configuration of php-fpm: as many children as there are tasks at once. `address`: where it listens.
pub(crate) fn fpm(address: &str, workers: u32) -> String {
    let user = match geteuid().is_root() {
        true => "user = root\ngroup = root\n",
        false => "",
    };
    format!(
        "[global]\nerror_log = /proc/self/fd/2\nlog_level = notice\ndaemonize = no\n[{NAME}]\n{user}listen = {address}\nlisten.backlog = 1024\n\
         pm = static\npm.max_children = {workers}\nclear_env = no\n"
    )
}

/// The configuration of nginx before a php-fpm that listens on `upstream`. `address`: where nginx listens.
pub(crate) fn nginx(
    application: &Application,
    folder: &Path,
    address: &str,
    upstream: &str,
    workers: u32,
) -> String {
    let user = match geteuid().is_root() {
        true => "user root;",
        false => "",
    };
    let (root, index, folder) = (
        application.root(),
        application.front_controller(),
        folder.display(),
    );
    let (root, index) = (quote(&text(&root)), quote(&text(&index)));
    format!(
        "daemon off; worker_processes {workers}; pid {folder}/nginx.pid; error_log stderr warn; {user}\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n  access_log off; tcp_nodelay on; keepalive_requests 1000000000;\n\
         \x20 client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;\n\
         \x20 uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;\n\
         \x20 server {{ listen {address}; root {root};\n\
         \x20   location / {{ try_files $uri /index.php?$query_string; }}\n\
         \x20   location = /index.php {{ fastcgi_pass unix:{upstream}; {FASTCGI_PARAMS} fastcgi_param SCRIPT_FILENAME {index}; }}\n  }}\n}}\n"
    )
}

/// What nginx passes on, as in the file `fastcgi_params` that comes with it.
const FASTCGI_PARAMS: &str = "fastcgi_param QUERY_STRING $query_string; fastcgi_param REQUEST_METHOD $request_method; \
    fastcgi_param CONTENT_TYPE $content_type; fastcgi_param CONTENT_LENGTH $content_length; fastcgi_param SCRIPT_NAME $fastcgi_script_name; \
    fastcgi_param REQUEST_URI $request_uri; fastcgi_param DOCUMENT_URI $document_uri; fastcgi_param DOCUMENT_ROOT $document_root; \
    fastcgi_param SERVER_PROTOCOL $server_protocol; fastcgi_param REQUEST_SCHEME $scheme; fastcgi_param GATEWAY_INTERFACE CGI/1.1; \
    fastcgi_param REMOTE_ADDR $remote_addr; fastcgi_param REMOTE_PORT $remote_port; fastcgi_param SERVER_ADDR $server_addr; \
    fastcgi_param SERVER_PORT $server_port; fastcgi_param SERVER_NAME $server_name; fastcgi_param REDIRECT_STATUS 200;";

/// A string of TOML. JSON strings have the same escapes. nginx reads them as well, except for control characters.
fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::{Folder, write_all};
    use stoker_server::config::{Source, resolve};
    use stoker_workers::STRATEGIES;

    // A name that has to be quoted.
    fn own(folder: &Folder) -> Application {
        let home = folder.make("an \"app\"").unwrap();
        write_all(
            &home,
            &[
                ("public/index.php", "<?php"),
                ("worker.php", "<?php"),
                ("snapshot.php", "<?php"),
            ],
        )
        .unwrap();
        Application::open(&text(&home), "/", folder).unwrap()
    }

    #[test]
    fn every_strategy_has_a_valid_configuration() {
        let folder = Folder::new().unwrap();
        let application = own(&folder);
        for strategy in &STRATEGIES {
            let toml = stoker(
                strategy,
                strategy.has_zygote,
                &application,
                folder.path(),
                3,
            );
            let config = resolve("test", &toml)
                .unwrap_or_else(|error| panic!("{}: {error}\n{toml}", strategy.name));
            let source = Source {
                file: "test",
                text: &toml,
                config: &config,
                base: folder.path(),
                socket_is_named: false,
            };
            source
                .check_server()
                .unwrap_or_else(|error| panic!("{}: {error}\n{toml}", strategy.name));
            let pool = &config.pools[0];
            assert_eq!(pool.strategy.name, strategy.name);
            assert_eq!(
                config.sites.len(),
                usize::from(strategy.requests != Requests::Nobody),
                "{toml}"
            );
            let expected = if strategy.has_zygote {
                (3, 12)
            } else if strategy.tasks > 0 {
                (3, 6)
            } else if strategy.is_adapter {
                (1, 1)
            } else {
                (3, 3)
            };
            assert_eq!((pool.core.min, pool.core.max), expected, "{toml}");
        }
    }
}
