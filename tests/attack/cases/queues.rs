//! Queue options combined with handlers of 0 to 2 ms and with faults, at full speed: prefetched jobs must run exactly
//! as often as the options say.

mod check;
mod draw;

use crate::arena::{Arena, drained, push_all};
use crate::bounds::Bounds;
use crate::case::Group;
use crate::random::Random;
use draw::{Ack, Plan, plan};
use serde_json::json;
use stoker_testkit::{Request, pool_of};
use stoker_wire::{Key, Status};

/// The number of combinations in the quick run, and in the full one.
const QUICK: usize = 16;
const ALL: usize = 100;

pub(crate) fn groups(seed: u64) -> Vec<Group> {
    let mut groups = vec![
        many_acknowledged_on_delivery(2),
        many_acknowledged_on_delivery(1),
    ];
    groups.extend((0..ALL).map(|number| drawn(seed, number)));
    groups
}

/// The original defect: a queue that acknowledges on delivery beside a normal one.
fn many_acknowledged_on_delivery(workers: usize) -> Group {
    let config = pool_of(
        "quick;serve",
        format!("workers = {workers}\n[queue.once]\nack = \"delivery\"\n[queue.normal]\n"),
    );
    let group = Group::new(
        "A1",
        format!("3,000 jobs acknowledged on delivery, {workers} workers"),
    );
    group.config(config).attack(|arena| {
        let mut client = arena.client();
        for queue in ["once", "normal"] {
            let jobs = (0..1_500).map(|n| Request::push(queue, format!("note {queue}-{n}")));
            push_all(&mut client, &jobs.collect::<Vec<_>>());
        }
        for queue in ["once", "normal"] {
            assert_eq!(drained(&mut client, queue)["done"], 1_500, "{queue}");
        }
        check::ran_once(&arena.app().dir.notes(), 3_000);
        assert_eq!(arena.app().pool()["restarts"], 0, "no worker was killed");
    })
}

fn drawn(seed: u64, number: usize) -> Group {
    let mut random = Random::new(seed, &format!("queue {number}"));
    let plan = plan(&mut random, if number < QUICK { 150 } else { 600 });
    let group = Group::new("A1", format!("queue {number} ({})", plan.name()));
    let group = group.config(plan.config()).bounds(Bounds {
        seconds: 90.0,
        ..Bounds::USUAL
    });
    let group = group.attack(move |arena| run(arena, &plan));
    if number < QUICK { group } else { group.slow() }
}

fn run(arena: &mut Arena, plan: &Plan) {
    let mut client = arena.client();
    let asks: Vec<Request> = plan.jobs.iter().map(|job| job.request()).collect();
    let sent: Vec<u32> = asks
        .chunks(100)
        .flat_map(|chunk| client.send_all(chunk))
        .collect();
    let mut accepted = Vec::new();
    for (job, id) in plan.jobs.iter().zip(sent) {
        let answer = client.answer(id);
        match answer.status() {
            Status::OK => accepted.push((job, answer.text())),
            // Another unfinished job has the same unique key.
            Status::ALREADY_EXISTS if job.unique.is_some() => {}
            other => panic!(
                "push of job {}: {} {}",
                job.number,
                other.name(),
                answer.text()
            ),
        }
    }
    let found = drained(&mut client, "q");
    let notes = arena.app().dir.notes();
    check::runs(plan, &accepted, &notes, &mut client);
    if plan.ordered {
        check::order(plan, &notes);
    }
    let ended = found["done"].as_u64().unwrap_or(0) + found["failed"].as_u64().unwrap_or(0);
    let distinct: std::collections::HashSet<&String> = accepted.iter().map(|(_, id)| id).collect();
    assert_eq!(
        ended,
        distinct.len() as u64,
        "every job has ended once: {found}"
    );
    let deaths = accepted.iter().filter(|(job, _)| job.kind.kills()).count();
    let restarts = arena.app().pool()["restarts"].as_u64().unwrap_or(0);
    assert_eq!(
        restarts, deaths as u64,
        "only workers that a job killed died"
    );
    if plan.ack == Ack::Done {
        let state = client.call_server(
            "stoker.job",
            &json!({"op": "count", "queue": "q", "state": "failed"}),
        );
        assert_eq!(state["count"], found["failed"], "the counters agree");
    }
}

impl draw::Job {
    fn request(&self) -> Request {
        let mut ask = Request::push("q", self.script()).prio(self.priority);
        if let Some(key) = &self.key {
            ask = ask.key(key);
        }
        if let Some(unique) = &self.unique {
            ask = ask.meta(Key::UNIQUE, unique);
        }
        if let Some(idempotency) = &self.idempotency {
            ask = ask.meta(Key::IDEMPOTENCY, idempotency);
        }
        if let Some(tries) = self.tries {
            ask = ask.meta(Key::TRIES, tries.to_be_bytes());
        }
        if let Some(delay_ms) = self.delay_ms {
            ask = ask.meta(Key::DELAY, delay_ms.to_be_bytes());
        }
        ask
    }
}
