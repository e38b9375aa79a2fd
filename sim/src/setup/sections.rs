//! Draws random sections of a configuration. Every key of the reference is drawn here, or listed in `completeness.rs`
//! with the reason why it is not.

use super::section::Section;
use crate::dice::Dice;

pub(super) const LOOP: &str = "\"loop\"";
/// The strategy that runs a program per task.
pub(super) const EXEC: &str = "\"exec\"";
pub(super) const SPARE: &str = "\"spare\"";
pub(super) const FORK: &str = "\"fork\"";
const STRATEGIES: &[&str] = &[LOOP, SPARE, FORK, EXEC];

pub(super) fn stoker(dice: &mut Dice) -> Section {
    let mut section = Section::new("stoker".to_owned());
    section.put("watchdog", dice.one_of(&["\"none\"", "\"60s\""]));
    section.maybe(dice, "boots_at_once", &["1", "2", "8"]);
    section.maybe(dice, "max_connections", &["100", "10000"]);
    section.maybe(dice, "max_inflight", &["8", "64", "1024"]);
    section.maybe(dice, "max_memory", &["\"64MB\"", "\"512MB\""]);
    section.maybe(dice, "frame_timeout", &["\"2s\"", "\"60s\""]);
    section.maybe(dice, "hello_timeout", &["\"1s\"", "\"10s\""]);
    section.maybe(dice, "user_connections", &["50", "9000"]);
    section.maybe(dice, "user_inflight", &["4", "100", "50000"]);
    section.maybe(dice, "user_pushes", &["4", "32", "50000"]);
    section.maybe(dice, "user_memory", &["\"16MB\"", "\"48MB\""]);
    section.maybe(dice, "user_queues", &["1", "3", "900"]);
    section.maybe(dice, "queue_expiry", &["\"1s\"", "\"1h\""]);
    section
}

pub(super) fn log(dice: &mut Dice) -> Section {
    let mut section = Section::new("log".to_owned());
    section.maybe(dice, "rate_limit", &["\"none\"", "\"1MB\"", "\"64KB\""]);
    section.maybe(dice, "rate_burst", &["\"1MB\"", "\"16MB\""]);
    section
}

pub(super) fn pool(dice: &mut Dice, name: &str) -> Section {
    let mut section = Section::new(format!("pool.{name}"));
    section.put("command", "[\"worker\"]");
    let max = dice.within(1, 6);
    let min = dice.within(1, max);
    section.put("workers", format!("{{ min = {min}, max = {max} }}"));
    section.maybe(dice, "directory", &["\"/\""]);
    section.maybe(dice, "env", &["{ APP_ENV = \"sim\" }"]);
    section.maybe(dice, "env_clear", &["true", "false"]);
    if section.get("env_clear") == Some("true") {
        section.maybe(dice, "env_pass", &["[\"LANG\", \"AWS_*\"]"]);
    }
    section.maybe(dice, "boot_timeout", &["\"1s\"", "\"5s\""]);
    times(dice, &mut section);
    section.maybe(dice, "memory_limit", &["\"64MB\"", "\"1GB\""]);
    section.maybe(dice, "strategy", STRATEGIES);
    match section.get("strategy") {
        Some(SPARE | EXEC) => {}
        Some(FORK) => section.maybe(dice, "tasks_per_fork", &["1", "3", "50", "\"auto\""]),
        _ => section.maybe(dice, "max_tasks", &["1", "7", "100"]),
    }
    section.maybe(dice, "max_age", &["\"1s\"", "\"30s\""]);
    section.maybe(dice, "idle_timeout", &["\"1s\"", "\"10s\""]);
    section.maybe(dice, "crash_budget", &["1", "3", "80"]);
    section.maybe(dice, "token", &["\"secret\""]);
    section.maybe(dice, "nice", &["0", "5", "19"]);
    section
}

/// Draws the time limits of a pool. A `stop_grace` that is shorter than a task may run cuts the task off at each
/// restart.
fn times(dice: &mut Dice, section: &mut Section) {
    section.maybe(
        dice,
        "task_timeout",
        &["\"2s\"", "\"10s\"", "\"60s\"", "\"none\""],
    );
    section.maybe(dice, "kill_grace", &["\"1s\"", "\"2s\""]);
    section.maybe(dice, "stop_grace", &["\"1s\"", "\"5s\"", "\"20s\""]);
}

/// Draws the share of a pool that a queue or service gets. `spare` is how much of the pool's minimum is not reserved
/// yet.
fn shares(dice: &mut Dice, section: &mut Section, spare: &mut u64) {
    section.maybe(dice, "weight", &["1", "3", "100"]);
    section.maybe(dice, "limit", &["1", "2", "4"]);
    section.maybe(dice, "per_key", &["1", "2"]);
    section.maybe(dice, "age_step", &["\"none\"", "\"100ms\"", "\"5s\""]);
    let limit = section.number("limit", u64::MAX);
    if dice.percent(30) {
        let reserve = dice.below(spare.saturating_add(1)).min(limit);
        *spare -= reserve;
        section.put("reserve", reserve);
        // At least one worker is left to those that reserve nothing.
        section.put("keep", dice.below(reserve + 1).min(*spare));
    }
}

pub(super) fn queue(dice: &mut Dice, name: &str, pool: &str, spare: &mut u64) -> Section {
    let mut section = Section::new(format!("queue.{name}"));
    section.put("pool", format!("\"{pool}\""));
    shares(dice, &mut section, spare);
    section.maybe(dice, "max_waiting", &["5", "50", "100000"]);
    section.maybe(dice, "max_body", &["\"300B\"", "\"4KB\"", "\"none\""]);
    section.maybe(
        dice,
        "backoff",
        &[
            "[\"0s\"]",
            "[\"100ms\", \"2s\"]",
            "{ base = \"100ms\", cap = \"2s\" }",
            "\"exponential\"",
        ],
    );
    if dice.percent(65) {
        section.put("tries", *dice.one_of(&["0", "1", "2", "2", "5"]));
    }
    section.maybe(dice, "ordered", &["true", "true", "false"]);
    match dice.percent(20) {
        true => section.put("ack", "\"delivery\""),
        false => section.maybe(dice, "ack", &["\"done\""]),
    }
    retention(dice, &mut section);
    section
}

/// Draws how long a queue keeps ended jobs, their payloads and their results.
fn retention(dice: &mut Dice, section: &mut Section) {
    section.maybe(dice, "keep_done", &["0", "1", "3", "1000"]);
    section.maybe(dice, "keep_failed", &["1", "3", "1000"]);
    if dice.percent(25) {
        section.maybe(dice, "keep_done_for", &["\"2s\"", "\"1h\""]);
        section.maybe(dice, "keep_failed_for", &["\"5s\"", "\"1d\""]);
    }
    section.maybe(dice, "keep_payloads", &["\"0s\"", "\"1s\"", "\"1h\""]);
    section.maybe(dice, "keep_results", &["\"0s\"", "\"1s\"", "\"1h\""]);
}

pub(super) fn service(dice: &mut Dice, name: &str, pool: &str, spare: &mut u64) -> Section {
    let mut section = Section::new(format!("service.{name}"));
    section.put("pool", format!("\"{pool}\""));
    shares(dice, &mut section, spare);
    section.maybe(dice, "timeout", &["\"500ms\"", "\"10s\""]);
    section.maybe(dice, "idempotent", &["[\"ask\"]"]);
    section.maybe(dice, "max_waiting", &["3", "1000"]);
    section.maybe(dice, "max_wait", &["\"100ms\"", "\"5s\""]);
    section
}
