//! Tests that every option is drawn: each option in the generated reference pages must be drawn by some seed, or listed
//! here with the reason why it is not. If an option is added, these tests fail until it is drawn or listed.

use crate::coverage::Coverage;
use crate::dice::Dice;
use crate::gateway::{self, RemoteToken};
use crate::ledger::{Ledger, Verb};
use crate::operator::{self, Effect, Targets};
use crate::push::Options;
use crate::setup::{Frequencies, Setup, edit};
use std::collections::BTreeSet;
use stoker_os::sim;
use stoker_wire::{Key, Relayed};

const SEEDS: u64 = 400;

/// Keys of the configuration that are not drawn, with the reason.
const UNDRAWN_KEYS: [(&str, &str); 16] = [
    ("stoker.socket", "the angel binds it"),
    ("stoker.socket_mode", "the angel sets it"),
    ("stoker.socket_group", "the angel sets it"),
    ("pool.command", "always the same: nothing is executed"),
    (
        "pool.address",
        "only adapters connect to it: tested by their tests",
    ),
    (
        "pool.task_path",
        "only adapters make requests: tested by their tests and campaign/sites.py",
    ),
    (
        "pool.task_script",
        "only adapters run scripts: tested by their tests and campaign/sites.py",
    ),
    ("pool.user", "the angel changes users; it needs an account"),
    (
        "pool.protocol",
        "processes without the protocol get no tasks: tested by integration tests",
    ),
    ("store.path", "drawn with the engine"),
    ("store.driver", "drawn with the engine"),
    ("store.sync", "drawn with the engine"),
    ("log.format", "the check of attribution parses text lines"),
    ("log.file", "the simulation takes the log from memory"),
    ("log.max_size", "applies only to log files"),
    ("log.keep_files", "applies only to log files"),
];

/// Operations that are not drawn, with the reason.
const UNDRAWN_OPERATIONS: [(&str, &str); 5] = [
    (
        "stoker.server stats",
        "counters of the process: tested by integration tests",
    ),
    ("stoker.job show", "by id: tested by integration tests"),
    ("stoker.queue list", "requested repeatedly at the end"),
    (
        "stoker.quarantine show",
        "by id: tested by integration tests",
    ),
    ("stoker.worker list", "requested at the end"),
];

#[test]
fn every_key_of_the_configuration_is_drawn() {
    let mut coverage = Coverage::default();
    (0..SEEDS).for_each(|seed| coverage.count_keys(&Setup::draw(seed)));
    let page = include_str!("../../docs/reference/config.md");
    let (mut section, mut known) = (String::new(), 0);
    for line in page.lines() {
        if let Some(head) = line.strip_prefix("## `[") {
            let end = head.find(['.', ']']).expect("a section");
            section = head[..end].to_owned();
        } else if let Some(key) = line.strip_prefix("| `") {
            let key = format!("{section}.{}", key.split('`').next().unwrap_or_default());
            known += 1;
            // The server does not know the settings of gateways.
            let is_gateways = matches!(section.as_str(), "http" | "listen")
                || section == "site" && !edit::SITE_KEYS.contains(&key.trim_start_matches("site."));
            let is_excused = is_gateways || UNDRAWN_KEYS.iter().any(|(name, _)| *name == key);
            assert!(
                is_excused || coverage.draws.contains_key(&key),
                "{key} is never drawn: add it to setup/sections.rs"
            );
        }
    }
    assert!(known > 60, "only {known} keys were found in the page");
}

/// Keys that the simulation never changes by a reload although the server would accept it, with the reason.
const NOT_RELOADED: [(&str, &str); 14] = [
    (
        "site.pool",
        "each site stays in the pool that was drawn first",
    ),
    ("pool.command", "always the same: nothing is executed"),
    ("pool.address", "of a server that only an adapter knows"),
    ("pool.task_path", "only an adapter makes requests"),
    ("pool.task_script", "only an adapter runs scripts"),
    ("pool.directory", "used only by the angel; always the same"),
    ("pool.env", "the angel's"),
    ("pool.env_clear", "the angel's"),
    ("pool.env_pass", "the angel's"),
    ("pool.user", "the angel changes users; it needs an account"),
    (
        "pool.protocol",
        "processes without the protocol get no tasks",
    ),
    ("pool.token", "guests use the token that was drawn first"),
    ("stoker.watchdog", "the angel's"),
    (
        "queue.pool",
        "each queue stays in the pool that was drawn first",
    ),
];

#[test]
fn every_key_is_reloaded_or_needs_a_restart() {
    let page = include_str!("../../docs/reference/config.md");
    let restart = page
        .lines()
        .find_map(|line| line.split_once("need a restart: "));
    let (_, restart) = restart.expect("the page lists them");
    let mut section = String::new();
    for line in page.lines() {
        if let Some(head) = line.strip_prefix("## `[") {
            let end = head.find(['.', ']']).expect("a section");
            section = head[..end].to_owned();
            continue;
        }
        let Some(key) = line.strip_prefix("| `") else {
            continue;
        };
        let key = key.split('`').next().unwrap_or_default();
        let drawn: &[&str] = match section.as_str() {
            "queue" => &edit::QUEUE_KEYS,
            "service" => &edit::SERVICE_KEYS,
            "site" => &edit::SITE_KEYS,
            "pool" => &edit::POOL_KEYS,
            "stoker" => &edit::SERVER_KEYS,
            _ => &[],
        };
        let name = format!("{section}.{key}");
        let of_queue = name.replace("service.", "queue.");
        let known = |name: &str| {
            let written = name
                .replace("queue.", "queue.NAME.")
                .replace("site.", "site.NAME.");
            let restarts = restart.contains(&format!("`{name}`"));
            let excused = NOT_RELOADED.iter().any(|(known, _)| *known == name);
            restarts || excused || restart.contains(&format!("`{written}`"))
        };
        assert!(
            drawn.contains(&key) || known(&name) || known(&of_queue),
            "no reload changes {name}: add it to setup/edit.rs"
        );
    }
}

#[test]
fn every_operation_is_drawn() {
    sim::reset(1_800_000_000_000);
    let mut drawn = BTreeSet::new();
    for seed in 0..SEEDS {
        let (setup, mut dice) = (Setup::draw(seed), Dice::of(seed, "operator"));
        let mut ledger = Ledger::new(false);
        for _ in 0..20 {
            let (method, mut request, effect) =
                operator::draw(&mut dice, &setup, 0, None, &Targets::default());
            if let Effect::Imports(_) = effect {
                request = serde_json::json!({"op": "import"});
            } else if let Effect::Changes(verb, filter) = effect {
                let at = ledger.change(verb, filter, None, &setup);
                let op = match verb {
                    Verb::Edit(_) => Some(serde_json::json!({"op": "edit"})),
                    _ => ledger.changes[at].request(&ledger, &setup),
                };
                request = op.expect("it names no job");
            }
            drawn.insert(format!(
                "{method} {}",
                request["op"].as_str().unwrap_or_default()
            ));
        }
    }
    let page = include_str!("../../docs/reference/methods.md");
    let mut method = "";
    for line in page.lines() {
        if let Some(head) = line.strip_prefix("## `") {
            method = head.trim_end_matches('`');
        } else if let Some(op) = line.strip_prefix("### `") {
            let name = format!("{method} {}", op.split('`').next().unwrap_or_default());
            let is_excused = UNDRAWN_OPERATIONS.iter().any(|(known, _)| *known == name);
            assert!(
                is_excused || drawn.contains(&name),
                "{name} is never drawn: add it to operator.rs"
            );
        }
    }
    assert!(
        drawn.len() > 15,
        "only few operations were drawn: {drawn:?}"
    );
}

#[test]
fn every_option_of_a_push_is_drawn() {
    sim::reset(1_800_000_000_000);
    let mut drawn = BTreeSet::new();
    for seed in 0..SEEDS {
        let (setup, mut dice) = (Setup::draw(seed), Dice::of(seed, "asks"));
        for queue in &setup.queues {
            let options = Options::draw(&mut dice, queue, Some(&Frequencies::default()), 1, 1);
            drawn.extend(options.meta().iter().map(|(key, _)| key.0));
        }
    }
    // The queue's name is always set, only a task can set a parent, only calls have credit (drawn in calls/spec.rs), and
    // the server sends the other keys to workers.
    let others = [
        Key::QUEUE,
        Key::PARENT,
        Key::JOB_ID,
        Key::CRASHES,
        Key::CREATED_AT,
        Key::CHECKPOINT,
        Key::CREDIT,
    ];
    drawn.extend(others.map(|key| key.0));
    for key in (1..=255).map(Key).filter(|key| key.is_for_server()) {
        assert!(
            drawn.contains(&key.0),
            "the key {key:?} of a push is never drawn: add it to push.rs"
        );
    }
}

#[test]
fn everything_that_a_gateway_states_about_a_peer_is_drawn() {
    let mut hello = serde_json::json!({});
    let token = RemoteToken {
        reads: true,
        inflight: Some(1),
    };
    gateway::relay(&mut hello, "user1", token);
    let all = serde_json::to_value(Relayed::default()).expect("it is serializable");
    for field in all.as_object().expect("an object").keys() {
        let drawn = &hello["relayed"][field];
        assert!(
            !drawn.is_null(),
            "`relayed.{field}` is never drawn: add it to gateway.rs"
        );
    }
}
