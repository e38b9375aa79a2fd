//! Generates the reference pages from the definitions in the program itself. The tests check that the pages are up
//! to date; `make bless` regenerates them.

use crate::args::Args;
use clap::{Command, CommandFactory};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};
use stoker_server::LOG_EVENTS;
use stoker_server::config::schema::sections;

fn config_page() -> String {
    let mut page = String::from(
        "# Configuration\n\nEvery key of `stoker.toml`, generated from the program. `stoker check` validates a file. \
         Durations are written `500ms`, `30s`, `5m`, `2h`, `7d`, sizes `64KB`, `256MB`, `2GB` (powers of 1024). An unknown key is an \
         error.\n\n`stoker reload` applies the file, including pools and queues that were added or removed. Settings of \
         `stoker scale` and `stoker set` override the file until they are reset. ",
    );
    let sections_of = sections();
    let fixed = sections_of.iter().flat_map(|section| {
        let keys = section.keys.iter().filter(|key| key.needs_restart);
        let path = section.heading.trim_matches(['[', ']']);
        keys.map(move |key| format!("`{path}.{}`", key.name))
    });
    let fixed = fixed.collect::<Vec<_>>().join(", ");
    writeln!(page, "These keys need a restart: {fixed}.").unwrap();
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
         Stoker itself have `event` and those of the fields below that apply. Lines from workers have `pool`, \
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
        "# Command line\n\nGenerated from the program. Results go to stdout, messages to stderr. With `--json` an error is \
         one line on stderr, `{\"error\": {\"status\": \"NOT_FOUND\", \"message\": \"…\"}}`, with a status of the \
         [protocol](protocol.md#5-status), or `FAILED`, `USAGE`, `NO_SERVER`, `CONFIG`.\n\n\
         | exit code | meaning |\n|---|---|\n| 0 | success |\n| 1 | the request failed or was rejected |\n\
         | 2 | invalid command line |\n| 69 | no server answers |\n\
         | 75 | rejected for now, or the outcome is unknown (`RESOURCE_EXHAUSTED`, `UNAVAILABLE`, `UNKNOWN`): try again later |\n\
         | 77 | not permitted to this user (`PERMISSION_DENIED`) |\n| 78 | the configuration is invalid |\n",
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

/// Compares a page with the one in `docs/reference`, or writes it there if `STOKER_BLESS` is set.
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

/// The description is complete only in a build with the HTTP gateway.
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
fn the_reference_of_the_administration_methods_is_up_to_date() {
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
