//! What is drawn from a seed: pools, queues, and how long the trouble lasts.

use crate::chance::Chance;
use crate::support::*;
use stoker_core::*;

pub struct PoolPlan {
    pub config: PoolConfig,
    pub hello: Hello,
    /// Whether its workers leave after nearly every task and take long to end.
    pub leaves: bool,
    /// The number of workers that are started elsewhere and connect again and again.
    pub guests: u32,
}

pub struct QueuePlan {
    pub kind: Kind,
    pub name: String,
    pub config: QueueConfig,
    /// The pools that serve it by configuration. If empty, it is served by the pools that announce
    /// it.
    pub pools: Vec<usize>,
    /// The usual duration of a run.
    pub cost: Span,
    pub tenants: u64,
    /// The time between bursts, and the maximum number of tasks in one.
    pub gap: Span,
    pub burst: u64,
    pub idempotent: bool,
    /// The percentage of tasks that make a call themselves.
    pub nested: u64,
}

pub struct Setup {
    pub limits: Limits,
    pub pools: Vec<PoolPlan>,
    pub queues: Vec<QueuePlan>,
    /// When the trouble ends and no more tasks arrive.
    pub calm_at: Time,
    /// When the server drains, in the middle of the trouble.
    pub drain_at: Option<Time>,
}

pub fn setup(chance: &mut Chance) -> Setup {
    let limits = Limits {
        boots_at_once: chance.within(1, 3) as u32,
        prefetch_window: chance.of(&[1, 4, 16]),
        load_window: chance.of(&[2, 6, 16]),
        seed: chance.below(u64::MAX),
        ..Limits::default()
    };
    let mut pools: Vec<PoolPlan> = (0..chance.within(1, 3)).map(|_| pool(chance)).collect();
    // The first pool always speaks the protocol, because the others may not.
    for pool in &mut pools[1..] {
        if chance.percent(20) {
            make_silent(pool);
        }
    }
    let count = chance.within(2, 5);
    let mut setup = Setup {
        limits,
        pools,
        queues: Vec::new(),
        calm_at: Time(0) + chance.ms(25_000, 140_000),
        drain_at: None,
    };
    for at in 0..count {
        let queue = queue(chance, at, &setup.pools);
        if queue.pools.is_empty() {
            announce(&mut setup.pools, &queue, chance);
        }
        setup.queues.push(queue);
    }
    limit_reserves_to_minimum(&mut setup);
    setup.drain_at = chance
        .percent(70)
        .then(|| Time(0) + chance.ms(4_000, 60_000));
    setup
}

fn pool(chance: &mut Chance) -> PoolPlan {
    let spawned = chance.percent(85);
    let min = chance.of(&[0, 1, 1, 2, 3, 4]);
    let config = PoolConfig {
        min,
        max: (min + chance.below(4) as u32).max(1),
        boot_timeout: chance.ms(300, 2_000),
        stop_grace: chance.ms(0, 3_000),
        task_timeout: chance.ms(300, 3_000),
        kill_grace: chance.ms(50, 500),
        memory_limit: chance.of(&[0, 100]),
        max_tasks: chance.of(&[0, 5, 40]),
        tasks_per_worker: chance.of(&[0, 0, 0, 0, 0, 0, 1, 3]),
        max_tasks_per_worker: chance.of(&[0, 10]),
        boots_quickly: chance.percent(20),
        isolated: chance.percent(20),
        max_age: chance.of(&[Span::FOREVER, secs(4)]),
        idle_timeout: chance.ms(100, 3_000),
        crash_budget: chance.within(1, 3) as u8,
        protocol: true,
        spawned,
    };
    let hello = Hello {
        slots: chance.of(&[1, 1, 1, 2, 5]),
        soft_cancel: chance.percent(50),
        pull: chance.percent(25),
        tasks: chance.of(&[0, 0, 0, 0, 0, 0, 1, 2]),
        ..Hello::default()
    };
    let guests = match spawned {
        true => chance.of(&[0, 0, 2]),
        false => chance.within(1, 4) as u32,
    };
    PoolPlan {
        config,
        hello,
        leaves: chance.percent(14),
        guests,
    }
}

/// Turns a pool into one whose processes do not speak the protocol. Settings that the configuration
/// rejects for such a pool are reset.
fn make_silent(pool: &mut PoolPlan) {
    let config = &mut pool.config;
    (config.protocol, config.spawned) = (false, true);
    (config.min, config.max_tasks, config.tasks_per_worker) = (config.max, 0, 0);
    config.isolated = false;
    config.max_tasks_per_worker = 0;
    pool.guests = 0;
    pool.hello = Hello::slots(1);
}

fn queue(chance: &mut Chance, at: u64, pools: &[PoolPlan]) -> QueuePlan {
    let kind = chance.of(&[Kind::Jobs, Kind::Jobs, Kind::Calls]);
    let reserve = chance.of(&[0, 0, 1, 2]);
    let config = QueueConfig {
        weight: chance.of(&[1, 2, 6]),
        reserve,
        keep: if chance.percent(30) { reserve } else { 0 },
        limit: chance.of(&[u32::MAX, u32::MAX, 3]).max(reserve),
        per_key: chance.of(&[u32::MAX, u32::MAX, 1, 2]),
        ordered: chance.of(&[false, false, false, false, false, false, true]),
        ack_on_delivery: chance.percent(20),
        max_waiting: chance.of(&[1_000, 20]),
        max_wait: chance.of(&[Span::FOREVER, secs(1)]),
        age_step: chance.of(&[ms(200), secs(5), Span::FOREVER]),
        timeout: chance.ms(200, 4_000),
    };
    let speaking = (0..pools.len()).filter(|at| pools[*at].config.protocol);
    let speaking: Vec<usize> = speaking.collect();
    let any = chance.of(&speaking);
    // A pool that starts no workers on its own announces nothing either.
    let announces = pools[any].config.min > 0 && pools[any].config.spawned;
    let pools = match chance.percent(75) || !announces {
        true if chance.percent(20) => speaking,
        true => vec![any],
        false => vec![],
    };
    QueuePlan {
        kind,
        name: format!("queue{at}"),
        config,
        pools,
        cost: chance.of(&[Span(60), ms(2), ms(20), ms(150)]),
        tenants: chance.of(&[0, 3, 12]),
        gap: chance.ms(50, 900),
        burst: chance.of(&[1, 4, 25]),
        idempotent: chance.percent(50),
        nested: chance.of(&[0, 15]),
    }
}

/// Lets the workers of one pool announce a queue that is not configured.
fn announce(pools: &mut [PoolPlan], queue: &QueuePlan, chance: &mut Chance) {
    let able = |pool: &&mut PoolPlan| {
        let config = &pool.config;
        config.min > 0 && config.spawned && config.protocol
    };
    let hello = &mut pools.iter_mut().find(able).expect("one was drawn").hello;
    match queue.kind {
        Kind::Calls => hello.calls.push(format!("{}.get", queue.name)),
        Kind::Jobs if chance.percent(30) => hello.jobs.push("*".into()),
        Kind::Jobs => hello.jobs.push(queue.name.clone()),
    }
}

/// Limits the kept slots so that at least one slot is left for other queues, which would otherwise
/// wait forever.
fn limit_reserves_to_minimum(setup: &mut Setup) {
    for at in 0..setup.pools.len() {
        let mut kept = 0;
        for queue in setup
            .queues
            .iter_mut()
            .filter(|queue| queue.pools.contains(&at))
        {
            kept += queue.config.keep;
            let pool = &setup.pools[at];
            let surely = if pool.config.spawned {
                u32::MAX
            } else {
                pool.guests
            };
            if kept >= surely.min(pool.config.min) {
                queue.config.keep = 0;
            }
        }
    }
}
