//! What a seed is about: a configuration, how busy it is, and how much goes wrong.

use crate::dice::Dice;
use crate::storing::Store;
use std::fmt::Write;

/// A queue as it was drawn.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) name: String,
    pub(crate) pool: String,
    pub(crate) tries: u16,
    pub(crate) ordered: bool,
    /// Acknowledged when it is delivered: it runs at most once.
    pub(crate) on_delivery: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) pool: String,
}

/// How likely in per cent a run goes wrong, and in which way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trouble {
    pub(crate) error: u64,
    pub(crate) retry: u64,
    pub(crate) crash: u64,
    pub(crate) hang: u64,
    /// Of a client's connections.
    pub(crate) hang_up: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) text: String,
    pub(crate) queues: Vec<Queue>,
    pub(crate) services: Vec<Service>,
    pub(crate) pools: u64,
    pub(crate) trouble: Trouble,
    /// In per cent of what clients do.
    pub(crate) operations: u64,
    /// Requests that all clients make together.
    pub(crate) requests: u64,
    pub(crate) clients: u64,
    /// Runs take this long at the most, microseconds.
    pub(crate) longest_us: u64,
    pub(crate) store: Store,
    pub(crate) wall_jumps: bool,
    /// Reads and writes are cut short.
    pub(crate) cuts: bool,
}

impl Setup {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut dice = Dice::of(seed, "setup");
        let mut text = String::new();
        stoker(&mut dice, &mut text);
        let store = Store::draw(&mut Dice::of(seed, "store setup"));
        text.push_str(&store.section());
        let pools = dice.within(1, 2);
        for pool in 0..pools {
            write_pool(&mut dice, &mut text, pool);
        }
        let queues = (0..dice.within(1, 4))
            .map(|no| write_queue(&mut dice, &mut text, no, pools))
            .collect();
        let services = (0..dice.below(3))
            .map(|no| write_service(&mut dice, &mut text, no, pools))
            .collect();
        Self {
            text,
            queues,
            services,
            pools,
            trouble: trouble(&mut dice),
            operations: *dice.of_all(&[0, 0, 2, 15]),
            requests: dice.within(20, 300),
            clients: dice.within(1, 6),
            longest_us: *dice.of_all(&[50, 150, 1_000, 20_000, 300_000]),
            store,
            // Delays follow the wall over a restart.
            wall_jumps: dice.percent(25) && store.kills == 0,
            cuts: dice.percent(30),
        }
    }
}

/// A third of the seeds is mild, or nothing would ever get far.
fn trouble(dice: &mut Dice) -> Trouble {
    let none = Trouble {
        error: 0,
        retry: 0,
        crash: 0,
        hang: 0,
        hang_up: 0,
    };
    if dice.percent(33) {
        return none;
    }
    let mut some = |most| {
        if dice.percent(50) {
            dice.below(most)
        } else {
            0
        }
    };
    Trouble {
        error: some(20),
        retry: some(15),
        crash: some(8),
        hang: some(4),
        hang_up: some(6),
    }
}

/// A line of configuration, half of the time: what is not said has its default.
fn maybe(dice: &mut Dice, text: &mut String, key: &str, values: &[&str]) -> Option<String> {
    if dice.percent(50) {
        return None;
    }
    let value = (*dice.of_all(values)).to_owned();
    writeln!(text, "{key} = {value}").ok();
    Some(value)
}

fn stoker(dice: &mut Dice, text: &mut String) {
    writeln!(text, "[stoker]\nwatchdog = \"none\"").ok();
    maybe(dice, text, "boots_at_once", &["1", "2", "8"]);
    maybe(dice, text, "max_inflight", &["8", "64", "1024"]);
    maybe(dice, text, "max_memory", &["\"64MB\"", "\"512MB\""]);
    maybe(dice, text, "user_pushes", &["4", "32", "50000"]);
    maybe(dice, text, "frame_timeout", &["\"2s\"", "\"60s\""]);
}

fn write_pool(dice: &mut Dice, text: &mut String, no: u64) {
    writeln!(text, "[pool.p{no}]\ncommand = [\"worker\"]").ok();
    let max = dice.within(1, 6);
    let min = dice.within(1, max);
    writeln!(text, "workers = {{ min = {min}, max = {max} }}").ok();
    maybe(
        dice,
        text,
        "task_timeout",
        &["\"2s\"", "\"10s\"", "\"60s\""],
    );
    maybe(dice, text, "kill_grace", &["\"1s\"", "\"2s\""]);
    maybe(dice, text, "stop_grace", &["\"1s\"", "\"5s\"", "\"20s\""]);
    maybe(dice, text, "boot_timeout", &["\"1s\"", "\"5s\""]);
    maybe(dice, text, "max_tasks", &["1", "7", "100"]);
    maybe(dice, text, "max_age", &["\"1s\"", "\"30s\""]);
    maybe(dice, text, "idle_timeout", &["\"1s\"", "\"10s\""]);
    maybe(dice, text, "crash_budget", &["1", "3", "80"]);
}

fn write_queue(dice: &mut Dice, text: &mut String, no: u64, pools: u64) -> Queue {
    let name = format!("q{no}");
    let pool = dice.below(pools);
    writeln!(text, "[queue.{name}]\npool = \"p{pool}\"").ok();
    maybe(dice, text, "weight", &["1", "3", "100"]);
    maybe(dice, text, "limit", &["1", "2"]);
    maybe(dice, text, "per_key", &["1", "2"]);
    maybe(dice, text, "age_step", &["\"none\"", "\"100ms\"", "\"5s\""]);
    maybe(dice, text, "max_waiting", &["5", "50", "100000"]);
    maybe(
        dice,
        text,
        "backoff",
        &[
            "[\"0s\"]",
            "[\"100ms\", \"2s\"]",
            "{ base = \"100ms\", cap = \"2s\" }",
        ],
    );
    maybe(dice, text, "keep_done", &["0", "1", "1000"]);
    let tries = maybe(dice, text, "tries", &["1", "2", "5"]);
    let ordered = maybe(dice, text, "ordered", &["true", "false"]);
    let ordered = ordered.is_some_and(|ordered| ordered == "true");
    let on_delivery = !ordered && dice.percent(25);
    if on_delivery {
        writeln!(text, "ack = \"delivery\"").ok();
    }
    Queue {
        name,
        pool: format!("p{pool}"),
        tries: tries.map_or(1, |tries| tries.parse().expect("a number")),
        ordered,
        on_delivery,
    }
}

fn write_service(dice: &mut Dice, text: &mut String, no: u64, pools: u64) -> Service {
    let name = format!("s{no}");
    let pool = dice.below(pools);
    writeln!(text, "[service.{name}]\npool = \"p{pool}\"").ok();
    maybe(dice, text, "timeout", &["\"500ms\"", "\"10s\""]);
    maybe(dice, text, "idempotent", &["[\"ask\"]"]);
    maybe(dice, text, "max_waiting", &["3", "1000"]);
    maybe(dice, text, "max_wait", &["\"100ms\"", "\"5s\""]);
    Service {
        name,
        pool: format!("p{pool}"),
    }
}
