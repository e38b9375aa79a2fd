//! The behaviour of a worker, as `sdk/conformance/worker.json` defines it. The PHP SDK is tested against the same rows.

use serde_json::Value;
use std::collections::HashMap;
use std::sync::LazyLock;

const JSON: &str = include_str!("../../sdk/conformance/worker.json");

/// The table of a worker whose SDK runs the loop.
pub(crate) static RUNS: LazyLock<Table> = LazyLock::new(|| Table::of("runs"));
/// The table of a worker that takes tasks on request.
pub(crate) static PULLS: LazyLock<Table> = LazyLock::new(|| Table::of("pulls"));
/// The flags of a worker, one bit each in this order.
const FLAGS: [&str; 7] = [
    "told",
    "stops",
    "struck",
    "acked",
    "open",
    "confirmed",
    "connected",
];

/// A set of flags.
pub(crate) type Flags = u8;

pub(crate) fn flag(name: &str) -> Flags {
    let at = FLAGS.iter().position(|flag| *flag == name);
    1 << at.unwrap_or_else(|| panic!("unknown flag {name}"))
}

/// The effect of an event on the task that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Becomes {
    Same,
    Waits,
    Cancelled,
    Runs,
    Over,
}

#[derive(Debug)]
pub(crate) struct Row {
    needs: Flags,
    pub(crate) sends: Vec<&'static str>,
    pub(crate) sets: Flags,
    pub(crate) clears: Flags,
    pub(crate) confirms: i32,
    pub(crate) task: Becomes,
    pub(crate) next: Option<&'static str>,
}

#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: HashMap<(&'static str, &'static str), Vec<Row>>,
}

impl Table {
    fn of(part: &str) -> Self {
        let json: Value = serde_json::from_str(JSON).expect("worker.json is JSON");
        let json: &'static Value = Box::leak(Box::new(json));
        let mut table = Self::default();
        for row in json[part].as_array().expect("a list of rows") {
            let event = row["on"].as_str().expect("a row has an event");
            for state in texts(&row["in"]) {
                table
                    .rows
                    .entry((state, event))
                    .or_default()
                    .push(read(row));
            }
        }
        table
    }

    /// The first row for this state and event whose flags are all set.
    pub(crate) fn find(&self, state: &'static str, event: &'static str, flags: Flags) -> &Row {
        let rows = self.rows.get(&(state, event)).map(Vec::as_slice);
        let mut rows = rows.unwrap_or_default().iter();
        let row = rows.find(|row| flags & row.needs == row.needs);
        row.unwrap_or_else(|| panic!("no row for \"{event}\" of a worker that {state}"))
    }
}

fn read(row: &'static Value) -> Row {
    let flags = |field: &str| texts(&row[field]).fold(0, |all, name| all | flag(name));
    Row {
        needs: flags("if"),
        sends: texts(&row["sends"]).collect(),
        sets: flags("sets"),
        clears: flags("clears"),
        confirms: row["confirms"].as_i64().unwrap_or(0) as i32,
        task: match row["task"].as_str() {
            None => Becomes::Same,
            Some("waits") => Becomes::Waits,
            Some("cancelled") => Becomes::Cancelled,
            Some("runs") => Becomes::Runs,
            Some("over") => Becomes::Over,
            Some(other) => panic!("unknown effect on a task: {other}"),
        },
        next: row["next"].as_str(),
    }
}

fn texts(list: &'static Value) -> impl Iterator<Item = &'static str> {
    let all = list.as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().map(|text| text.as_str().expect("a string"))
}
