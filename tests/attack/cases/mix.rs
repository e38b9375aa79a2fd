//! Several attacks at the same time, drawn from the seed, beside honest jobs: each honest job must run exactly once, in
//! the same server, within the bounds.

mod attackers;

use crate::arena::{Arena, push_all};
use crate::bounds::Bounds;
use crate::case::Group;
use crate::random::Random;
use attackers::{ATTACKERS, Attacker};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use stoker_testkit::{Request, pool_of, until};

const QUICK: usize = 3;
const ALL: usize = 40;
/// The number of honest jobs, and of the parts in which they are pushed during the attacks.
const JOBS: usize = 600;
const PARTS: usize = 12;

pub(crate) fn groups(seed: u64) -> Vec<Group> {
    (0..ALL).map(|number| mix(seed, number)).collect()
}

fn mix(seed: u64, number: usize) -> Group {
    let mut random = Random::new(seed, &format!("mix {number}"));
    let mut chosen: Vec<&'static Attacker> = Vec::new();
    while chosen.len() < 4 {
        let attacker = &ATTACKERS[random.below(ATTACKERS.len())];
        if !chosen.iter().any(|other| other.name == attacker.name) {
            chosen.push(attacker);
        }
    }
    let ack = random.pick(&["done", "delivery"]);
    let ordered = random.once_in(3);
    let names: Vec<&str> = chosen.iter().map(|attacker| attacker.name).collect();
    let order = if ordered { ", ordered" } else { "" };
    let name = format!("mix {number} (ack {ack}{order}): {}", names.join(" + "));
    let group = Group::new("C", name)
        .config(config(ack, ordered))
        .bounds(Bounds {
            descriptors: 512,
            processes: 40,
            log_mb: 128,
            seconds: 90.0,
            ..Bounds::USUAL
        });
    let seed = random.next();
    let group = group.attack(move |arena| fight(arena, &chosen, seed));
    if number < QUICK { group } else { group.slow() }
}

/// Honest jobs run in the pool `p`, and misbehaving ones in the pool `k`.
fn config(ack: &str, ordered: bool) -> String {
    let honest = pool_of("serve", "workers = 2");
    let other = pool_of(
        "calls k.run;jobs evil;serve",
        "workers = 2\ntask_timeout = \"1s\"\nkill_grace = \"100ms\"",
    );
    let other = other.replace("[pool.p]", "[pool.k]");
    format!(
        "{honest}{other}[queue.q]\npool = \"p\"\nack = \"{ack}\"\nordered = {ordered}\n[queue.evil]\npool = \"k\"\n\
         [service.k]\npool = \"k\"\n[stoker]\nmax_memory = \"64MB\"\nmax_connections = 300\n\
         [log]\nfile = \"stoker.log\"\n"
    )
}

fn fight(arena: &mut Arena, chosen: &[&'static Attacker], seed: u64) {
    let server = arena.app().server();
    let (app, stop) = (arena.app(), AtomicBool::new(false));
    let stop = &stop;
    std::thread::scope(|scope| {
        let _ends = Ends(stop);
        for attacker in chosen {
            let mut random = Random::new(seed, attacker.name);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    (attacker.attack)(app, &mut random);
                }
            });
        }
        let mut client = app.client();
        for part in 0..PARTS {
            let size = JOBS / PARTS;
            let jobs =
                (part * size..(part + 1) * size).map(|n| Request::push("q", format!("note {n}")));
            push_all(&mut client, &jobs.collect::<Vec<_>>());
            stoker_testkit::pause(std::time::Duration::from_millis(150));
        }
    });
    until("all honest jobs have run", || {
        let mut client = app.client();
        let queue = client.queue("q");
        if queue["paused"] == true {
            crate::arena::resume(&mut client, "q");
        }
        // A job that is acknowledged on delivery is done before it runs.
        (queue["done"] == JOBS && app.workers().iter().all(is_idle)).then_some(())
    });
    let mut runs: HashMap<String, usize> = HashMap::new();
    app.dir
        .notes()
        .into_iter()
        .for_each(|note| *runs.entry(note).or_default() += 1);
    let again = runs.values().filter(|times| **times > 1).count();
    assert_eq!(
        (runs.len(), again),
        (JOBS, 0),
        "honest jobs that ran, and that ran again"
    );
    arena.still_serves(server);
}

/// Whether a worker is idle or outside the honest pool.
fn is_idle(worker: &serde_json::Value) -> bool {
    worker["pool"] != "p" || worker["state"] == "ready"
}

/// Stops the attackers when the pushing ends, even if it fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
