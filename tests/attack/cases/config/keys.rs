//! Every key of the reference page, with values that it does not accept.

use super::check;
use crate::bounds::Bounds;
use crate::case::Group;
use stoker_testkit::{bad_worker, repository};

/// Values, and the words of the page for which they are valid.
const VALUES: &[(&str, &[&str])] = &[
    ("-1", &[]),
    ("1.5", &[]),
    ("nan", &[]),
    ("2026-11-22", &[]),
    ("\"\"", &[]),
    ("\"a\\u001Bb\"", &[]),
    ("[[]]", &[]),
    ("{ a = { b = 1 } }", &["table"]),
    ("true", &["true"]),
    ("7", &["number", "size"]),
    ("99999999999999999999", &[]),
    ("\"5x\"", &["string", "path", "list", "table"]),
];

pub(crate) fn groups() -> Vec<Group> {
    let page = std::fs::read_to_string(repository().join("docs/reference/config.md"));
    let page = page.expect("the reference page is in the repository");
    let mut groups = Vec::new();
    for part in page.split("\n## `[").skip(1) {
        let (section, rest) = part.split_once("]`").expect("a heading ends");
        let section = section.replace("NAME", "p");
        let mut group = Group::new("B", format!("keys of [{section}]")).bounds(Bounds {
            seconds: 120.0,
            ..Bounds::NO_ADMIN
        });
        for row in rest.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let (key, takes) = (cells[1].trim_matches('`').to_owned(), cells[2].to_owned());
            add(&mut group, &section, &key, &takes);
        }
        groups.push(group);
    }
    assert!(groups.len() >= 5, "the page has its sections");
    groups
}

fn add(group: &mut Group, section: &str, key: &str, takes: &str) {
    let wrong = VALUES
        .iter()
        .filter(|(value, right)| !is_right(key, value, right, takes));
    let wrong: Vec<String> = wrong.map(|(value, _)| (*value).to_owned()).collect();
    let (section, key, count) = (section.to_owned(), key.to_owned(), wrong.len());
    let name = format!("{key} with {count} wrong values");
    let nearly = format!("{key}x");
    let name_of_section = section.clone();
    let of = move |line: &str| {
        let worker = bad_worker();
        let (before, pool) = match &*section {
            "pool.p" => (String::new(), String::new()),
            _ => (
                String::new(),
                format!("[pool.p]\ncommand = [{worker:?}, \"serve\"]\n"),
            ),
        };
        format!("{before}{pool}[{section}]\n{line}\n")
    };
    let again = of.clone();
    let text = key.clone();
    group.add(name, move |arena| {
        for value in &wrong {
            let output = check(arena, &of(&format!("{key} = {value}")));
            assert_eq!(
                output.code, 78,
                "{key} = {value} is refused: {}{}",
                output.stdout, output.stderr
            );
            assert!(
                output.stderr.contains(&*key),
                "it names the key: {}",
                output.stderr
            );
            let printed = output
                .stderr
                .chars()
                .any(|letter| letter.is_control() && letter != '\n');
            assert!(
                !printed,
                "it prints no control characters: {:?}",
                output.stderr
            );
        }
    });
    group.add(
        format!("{nearly} is unknown, and {text} is named"),
        move |arena| {
            let output = check(arena, &again(&format!("{nearly} = 1")));
            assert_eq!(output.code, 78, "[{name_of_section}] {}", output.stdout);
            assert!(
                output.stderr.contains(&*text),
                "it names the key that is near: {}",
                output.stderr
            );
        },
    );
}

/// Whether the key accepts this value according to the page.
fn is_right(key: &str, value: &str, words: &[&str], takes: &str) -> bool {
    let says = words.iter().any(|word| takes.contains(word));
    // Texts that name something in the system are only checked when they are used.
    let is_free = takes.contains("string") || takes.contains("path");
    says || (is_free && matches!(value, "\"a\\u001Bb\"" | "\"\"") && key != "socket_mode")
}
