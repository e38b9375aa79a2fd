//! Draws a queue's options, its pool, and jobs for it.

use crate::random::Random;
use stoker_testkit::pool_of;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ack {
    Done,
    Delivery,
}

/// The behaviour of a job when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ok,
    /// Fails each time.
    Fails,
    /// Fails the first time.
    FailsOnce,
    /// Requests a retry the first time.
    Retries,
    /// Kills its worker the first time.
    Kills,
    /// Acknowledges, then fails.
    AcksThenFails,
    /// Acknowledges, then kills its worker.
    AcksThenKills,
}

impl Kind {
    pub(super) fn kills(self) -> bool {
        matches!(self, Self::Kills | Self::AcksThenKills)
    }
}

pub(super) struct Job {
    pub(super) number: usize,
    pub(super) kind: Kind,
    pub(super) ms: u64,
    pub(super) key: Option<String>,
    pub(super) unique: Option<String>,
    pub(super) idempotency: Option<String>,
    pub(super) priority: u8,
    pub(super) tries: Option<u16>,
    pub(super) delay_ms: Option<u64>,
}

impl Job {
    pub(super) fn script(&self) -> String {
        let n = self.number;
        let wait = if self.ms > 0 {
            format!("sleep {};", self.ms)
        } else {
            String::new()
        };
        let rest = match self.kind {
            Kind::Ok => "ok".to_owned(),
            Kind::Fails => "fail 64 each time".to_owned(),
            Kind::FailsOnce => format!("once first-{n};fail 64 the first time"),
            Kind::Retries => format!("once first-{n};retry 5"),
            Kind::Kills => format!("once first-{n};kill"),
            Kind::AcksThenFails => "ack;fail 64 after its acknowledgement".to_owned(),
            Kind::AcksThenKills => "ack;kill".to_owned(),
        };
        format!("note {n};{wait}{rest}")
    }
}

pub(super) struct Plan {
    pub(super) workers: usize,
    pub(super) slots: usize,
    pub(super) ack: Ack,
    pub(super) ordered: bool,
    pub(super) tries: u16,
    backoff: &'static str,
    quick: bool,
    /// The possible faults of the jobs; without one a job succeeds.
    faults: &'static [Kind],
    pub(super) keys: usize,
    uniques: bool,
    priorities: bool,
    pub(super) jobs: Vec<Job>,
}

const FAULTS: &[(&str, &[Kind])] = &[
    ("no faults", &[]),
    ("no faults", &[]),
    ("errors", &[Kind::Fails, Kind::FailsOnce]),
    ("retries", &[Kind::Retries, Kind::FailsOnce]),
    ("deaths", &[Kind::Kills]),
    ("acks", &[Kind::AcksThenFails, Kind::AcksThenKills]),
    (
        "all faults",
        &[Kind::Fails, Kind::Retries, Kind::Kills, Kind::AcksThenFails],
    ),
];

pub(super) fn plan(random: &mut Random, jobs: usize) -> Plan {
    let ack = random.pick(&[Ack::Done, Ack::Delivery]);
    let ordered = random.once_in(3);
    let mut plan = Plan {
        workers: random.pick(&[1, 1, 2, 3]),
        slots: random.pick(&[1, 1, 1, 4]),
        ack,
        ordered,
        tries: random.pick(&[1, 2, 3]),
        backoff: random.pick(&[
            "[\"0s\"]",
            "[\"1ms\", \"5ms\"]",
            "{ base = \"1ms\", cap = \"10ms\" }",
        ]),
        quick: random.once_in(2),
        faults: random.pick(FAULTS).1,
        keys: random.pick(&[0, 1, 5]),
        uniques: random.once_in(3),
        priorities: !ordered && random.once_in(2),
        jobs: Vec::new(),
    };
    // If a worker with several slots dies, all its tasks may have caused it.
    if plan.faults.iter().any(|kind| kind.kills()) {
        plan.slots = 1;
    }
    // A step that reads the socket can't run in a thread.
    if plan.faults.contains(&Kind::AcksThenFails) {
        plan.slots = 1;
    }
    let mut deaths = 0;
    plan.jobs = (0..jobs)
        .map(|number| {
            let mut job = job(random, &plan, number);
            deaths += usize::from(job.kind.kills());
            // Each death costs a start of a worker, so their number is limited.
            if deaths > 6 && job.kind.kills() {
                job.kind = Kind::Ok;
            }
            job
        })
        .collect();
    plan
}

fn job(random: &mut Random, plan: &Plan, number: usize) -> Job {
    let faulty = !plan.faults.is_empty() && random.once_in(12);
    let kind = if faulty {
        random.pick(plan.faults)
    } else {
        Kind::Ok
    };
    let is_long = !plan.quick && random.once_in(3);
    let is_unique = plan.uniques && random.once_in(4);
    Job {
        number,
        kind,
        ms: if is_long {
            1 + random.below(2) as u64
        } else {
            0
        },
        key: (plan.keys > 0).then(|| format!("k{}", random.below(plan.keys))),
        unique: is_unique.then(|| format!("u{}", random.below(10))),
        idempotency: (!is_unique && random.once_in(20)).then(|| format!("i{number}")),
        priority: if plan.priorities {
            random.below(8) as u8
        } else {
            3
        },
        tries: random.once_in(5).then(|| 1 + random.below(3) as u16),
        delay_ms: (!plan.ordered && random.once_in(10)).then(|| random.below(20) as u64),
    }
}

impl Plan {
    pub(super) fn tries_of(&self, job: &Job) -> usize {
        usize::from(job.tries.unwrap_or(self.tries))
    }

    pub(super) fn config(&self) -> String {
        let ack = if self.ack == Ack::Done {
            "done"
        } else {
            "delivery"
        };
        let quick = if self.quick { "quick;" } else { "" };
        let (slots, script) = (self.slots, "serve");
        pool_of(
            &format!("{quick}slots {slots};{script}"),
            format!(
                "workers = {}\n[queue.q]\nack = \"{ack}\"\nordered = {}\ntries = {}\nbackoff = {}\n",
                self.workers, self.ordered, self.tries, self.backoff
            ),
        )
    }

    pub(super) fn name(&self) -> String {
        let faults = FAULTS.iter().find(|(_, kinds)| *kinds == self.faults);
        let mut name = format!(
            "ack {:?}, {} workers of {} slots, {} tries, {} keys, {}",
            self.ack,
            self.workers,
            self.slots,
            self.tries,
            self.keys,
            faults.map_or("", |(name, _)| name)
        );
        for (holds, text) in [
            (self.ordered, ", ordered"),
            (self.quick, ", quick"),
            (self.uniques, ", uniques"),
            (self.priorities, ", priorities"),
        ] {
            name.push_str(if holds { text } else { "" });
        }
        name.to_lowercase()
    }
}
