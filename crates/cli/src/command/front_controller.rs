//! `stoker serve public/index.php`: serves a PHP application over HTTP without a configuration file.

use std::path::Path;
use stoker_server::config::quote;

/// The file name of a front controller.
const NAME: &str = "index.php";
/// The address of the site if none is given.
const LISTEN: &str = "127.0.0.1:8080";
/// The number of requests that are answered at once.
const WORKERS: usize = 4;

/// Whether a file is a front controller, which answers HTTP requests and does not speak the wire protocol.
pub(super) fn is_front_controller(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name == NAME)
}

/// The configuration that serves a front controller by PHP's built-in server, which is part of every PHP. Public files
/// are served by Stoker.
pub(super) fn configuration(file: &Path, listen: Option<&str>) -> String {
    let root = file.parent().unwrap_or(Path::new("/")).to_string_lossy();
    let command = [
        "php",
        "-S",
        "{address}",
        "-t",
        &root,
        &file.to_string_lossy(),
    ];
    let command = command.map(quote).join(", ");
    format!(
        "[site.default]\nlisten = [{}]\nroot = {}\n\
         [pool.default]\nstrategy = \"http\"\ncommand = [{command}]\naddress = \"127.0.0.1:0\"\nworkers = {WORKERS}\n\
         env = {{ PHP_CLI_SERVER_WORKERS = \"{WORKERS}\" }}\n",
        quote(listen.unwrap_or(LISTEN)),
        quote(&root)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use stoker_server::config::resolve;

    #[test]
    fn the_configuration_is_valid() {
        let text = configuration(Path::new("/srv/a \"b\"/index.php"), None);
        let config = resolve("test", &text).unwrap();
        assert_eq!(
            config.sites[0].root.as_deref(),
            Some(Path::new("/srv/a \"b\""))
        );
        assert_eq!(config.pools[0].sites, ["default"]);
    }
}
