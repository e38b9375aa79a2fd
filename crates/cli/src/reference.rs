//! The reference pages, generated from what the program itself reads and prints. They are checked for
//! being up to date by the tests, and written anew by `make bless`.

use crate::args::Args;
use clap::{Command, CommandFactory};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};
use stoker_server::LOG_EVENTS;
use stoker_server::config::schema::sections;

fn config_page() -> String {
    let mut page = String::from(
        "# Configuration\n\nGenerated from the program; `stoker check` explains a file. Times are written \
         `500ms`, `30s`, `5m`, `2h`, `7d`, sizes `64KB`, `256MB`, `2GB` (powers of 1024). An unknown key is an error. \
         `stoker reload` reads the file again and applies it, pools and queues that came or went included. What \
         `stoker scale` and `stoker set` have set overrides the file until it is reset. ",
    );
    let sections_of = sections();
    let fixed = sections_of.iter().flat_map(|section| {
        let keys = section.keys.iter().filter(|key| key.needs_restart);
        let path = section.heading.trim_matches(['[', ']']);
        keys.map(move |key| format!("`{path}.{}`", key.name))
    });
    let fixed = fixed.collect::<Vec<_>>().join(", ");
    writeln!(page, "A change of these needs a restart: {fixed}.").unwrap();
    for section in sections() {
        write!(page, "\n## `{}`\n\n{}\n\n", section.heading, section.doc).unwrap();
        page += "| key | value | default | meaning |\n|---|---|---|---|\n";
        for key in &section.keys {
            let row =
                [key.kind.as_str(), key.default, key.doc].map(|cell| cell.replace('|', "\\|"));
            writeln!(
                page,
                "| `{}` | {} | {} | {} |",
                key.name, row[0], row[1], row[2]
            )
            .unwrap();
        }
    }
    page
}

fn log_page() -> String {
    let mut page = String::from(
        "# Log events\n\nGenerated from the program. With `[log] format = \"json\"` every line is an object with `at` \
         (RFC 3339), `level` (`info`, `warn`, `error`) and `message`, a sentence for people that may change. Lines of \
         Stoker's own have `event` and the fields below, as far as they apply. Lines that workers write have `pool`, \
         `worker`, `pid`, `stream`, `task` and no `event`.\n\n| event | level | fields | when |\n|---|---|---|---|\n",
    );
    for event in LOG_EVENTS {
        let fields: Vec<String> = event
            .fields
            .iter()
            .map(|field| format!("`{field}`"))
            .collect();
        let (name, level, doc) = (event.name, event.level, event.doc);
        writeln!(
            page,
            "| `{name}` | {level} | {} | {doc} |",
            fields.join(", ")
        )
        .unwrap();
    }
    page
}

fn cli_page() -> String {
    let mut page = String::from(
        "# Command line\n\nGenerated from the program. Results go to stdout, talk to stderr. With `--json` what went wrong is \
         one line on stderr, `{\"error\": {\"status\": \"NOT_FOUND\", \"message\": \"…\"}}`: the status of the \
         [protocol](protocol.md), or `FAILED`, `USAGE`, `NO_SERVER`, `CONFIG`.\n\n\
         | exit code | means |\n|---|---|\n| 0 | done |\n| 1 | the thing itself failed, or was refused for good |\n\
         | 2 | the command line is wrong |\n| 69 | no Stoker answers |\n\
         | 75 | refused for now, or in doubt (`RESOURCE_EXHAUSTED`, `UNAVAILABLE`, `UNKNOWN`): try again later |\n\
         | 77 | not permitted to this user (`PERMISSION_DENIED`) |\n| 78 | the configuration is wrong |\n",
    );
    let mut stoker = Args::command();
    stoker.build();
    describe(&stoker, "stoker", &mut page);
    page
}

fn describe(command: &Command, path: &str, page: &mut String) {
    let help = command.clone().render_long_help();
    write!(
        page,
        "\n## `{path}`\n\n```\n{}\n```\n",
        help.to_string().trim_end()
    )
    .unwrap();
    let shown = command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
    for sub in shown {
        describe(sub, &format!("{path} {}", sub.get_name()), page);
    }
}

/// Compares a page with the one in `docs/reference`, or writes it there.
fn check(name: &str, fresh: &str) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/reference")
        .join(name);
    let fresh: String = fresh
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect();
    if env::var_os("STOKER_BLESS").is_some() {
        fs::write(&file, fresh).unwrap();
        return;
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == fresh,
        "docs/reference/{name} is out of date: run 'make bless'"
    );
}

/// Only a gateway knows all of it.
#[cfg(feature = "http")]
#[test]
fn the_openapi_description() {
    let description = stoker_gateway::http::openapi();
    check(
        "openapi.json",
        &serde_json::to_string_pretty(&description).unwrap(),
    );
}

#[test]
fn the_reference_of_the_configuration_is_up_to_date() {
    check("config.md", &config_page());
}

#[test]
fn the_reference_of_the_own_methods_is_up_to_date() {
    check("methods.md", &stoker_api::reference::page());
}

#[test]
fn the_reference_of_the_command_line_is_up_to_date() {
    check("cli.md", &cli_page());
}

#[test]
fn the_reference_of_the_log_is_up_to_date() {
    check("log-events.md", &log_page());
}
