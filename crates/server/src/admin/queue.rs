use super::{Answer, Refused, text_of};
use crate::counted;
use crate::net::ConnId;
use crate::plane::{Alarm, Plane};
use crate::sources::jobs::{ANSWER_WITHIN, Asked};
use serde_json::{Map, Value, json};
use stoker_core::{Event, Health, Kind, PoolConfig, QueueConfig, QueueId, Span};
use stoker_store::{Ask, QueueNo, Ticket};
use stoker_wire::Status;

/// How long an operator waits for a store that can't write: it may be well again at once.
const FAILING_WITHIN: Span = Span::from_millis(2_000);

/// Queues without a pool that are told one by one.
const ORPHANS: usize = 20;

/// What an operator has set of a queue while running.
#[derive(Clone)]
pub(crate) struct Steered {
    /// As the configuration says, or for a queue that it does not name as by default.
    own: QueueConfig,
    /// By their keys, the numbers that go before those; as the store keeps them.
    set: Map<String, Value>,
}

impl Steered {
    /// What the queue is like, all in all.
    fn config(&self, now: &QueueConfig) -> QueueConfig {
        let number = |share: Share| {
            let set = self.set.get(share.key()).and_then(Value::as_u64);
            set.map_or(share.of(&self.own), |number| number as u32)
        };
        QueueConfig {
            weight: number(Share::Weight),
            reserve: number(Share::Reserve),
            limit: number(Share::Limit),
            ..now.clone()
        }
    }
}

/// What can be set of a queue while running.
#[derive(Clone, Copy)]
enum Share {
    Weight,
    Reserve,
    Limit,
}

impl Share {
    const ALL: [Self; 3] = [Self::Weight, Self::Reserve, Self::Limit];

    fn key(self) -> &'static str {
        match self {
            Self::Weight => "weight",
            Self::Reserve => "reserve",
            Self::Limit => "limit",
        }
    }

    fn of(self, config: &QueueConfig) -> u32 {
        match self {
            Self::Weight => config.weight,
            Self::Reserve => config.reserve,
            Self::Limit => config.limit,
        }
    }

    /// For people: a limit that is none is none.
    fn show(self, config: &QueueConfig) -> String {
        match self.of(config) {
            u32::MAX => "none".to_owned(),
            number => number.to_string(),
        }
    }

    /// The number that a request wants it to be, if any.
    fn asked(self, ask: &Value) -> Result<Option<u32>, Refused> {
        let (key, from) = (self.key(), u64::from(!matches!(self, Self::Reserve)));
        match (self, &ask[key]) {
            (_, Value::Null) => Ok(None),
            (Self::Limit, Value::String(none)) if none == "none" => Ok(Some(u32::MAX)),
            (_, value) => {
                let number = value.as_u64();
                let number = number.filter(|n| (from..=1_000_000).contains(n));
                let wrong = || {
                    let text = format!("'{key}' is a number from {from} to 1000000");
                    Refused::invalid(text)
                };
                number.map(|n| Some(n as u32)).ok_or_else(wrong)
            }
        }
    }
}

impl Plane {
    pub(crate) fn list_queues(&mut self) -> Value {
        let ids: Vec<QueueId> = self.core.queues().map(|queue| queue.id).collect();
        let queues: Vec<Value> = ids.into_iter().map(|id| self.queue_json(id)).collect();
        json!({"queues": queues})
    }

    fn queue_json(&mut self, id: QueueId) -> Value {
        let counts = self.jobs.counts(id);
        let figures = self.figures(id);
        let percentiles = |recent: &crate::observe::Recent| {
            let [p50, p99] = recent
                .quantiles([500, 990])
                .map_or([None; 2], |both| both.map(Some));
            json!({"p50": p50, "p99": p99})
        };
        let (wait_ms, run_ms) = (percentiles(&figures.waited), percentiles(&figures.ran));
        let (calls_done, calls_failed) = (figures.done, figures.failed);
        let queue = self.core.queue(id);
        let pool = queue.pools.first().map(|(pool, _)| self.core.pool(*pool).0);
        let bound = |limit: u32| (limit != u32::MAX).then_some(limit);
        let running = u64::from(queue.running);
        let set = self.set_by_hand(id);
        let is_jobs = queue.kind == Kind::Jobs;
        let mut value = json!({
            "name": queue.name,
            "kind": if is_jobs { "jobs" } else { "calls" },
            "pool": pool,
            "weight": queue.config.weight,
            "reserve": queue.config.reserve,
            "limit": bound(queue.config.limit),
            "set": set,
            "paused": queue.paused,
            "ready": if is_jobs { counts.ready.saturating_sub(running) } else { u64::from(queue.waiting) },
            "delayed": counts.delayed,
            "running": running,
            "done": if is_jobs { counts.done } else { calls_done },
            "failed": if is_jobs { counts.failed } else { calls_failed },
            "wait_ms": wait_ms,
            "run_ms": run_ms,
            "oldest_ms": queue.oldest.map(|came| self.now.since(came).as_millis()),
        });
        if is_jobs {
            value["retried"] = counts.retried.into();
            value["cancelled"] = counts.cancelled.into();
            value["suspended"] = counts.suspended.into();
        }
        value
    }

    pub(crate) fn pause_queue(&mut self, to: (ConnId, u32), ask: &Value, paused: bool) -> Answer {
        let queue = self.queue_of(ask)?;
        self.step(Event::Paused { queue, paused }, None);
        let value = json!({"queue": self.core.queue(queue).name, "paused": paused});
        let answer = self.answer_when_kept(to, queue, value, |queue, told| Ask::Pause {
            queue,
            paused,
            told,
        });
        self.settle();
        answer
    }

    /// Has the store keep what was set of a queue, and answers when that is safe. Of services nothing is
    /// kept: they are as the configuration says after the next start.
    fn answer_when_kept(
        &mut self,
        (conn, id): (ConnId, u32),
        queue: QueueId,
        value: Value,
        keep: impl FnOnce(QueueNo, Option<Ticket>) -> Ask,
    ) -> Answer {
        let Some(no) = self.jobs.queue(queue).map(|of_queue| of_queue.no) else {
            return Ok(Some(value));
        };
        let told = self.jobs.ticket(Asked::Reply { conn, id, value });
        self.jobs.ask(keep(no, Some(told)));
        let within = match self.jobs.failing {
            Some(_) => FAILING_WITHIN,
            None => ANSWER_WITHIN,
        };
        self.alarms.push((self.now + within, Alarm::Operator(told)));
        Ok(None)
    }

    /// What an operator has set is in force, but the store has not kept it within the time that one waits for it.
    pub(crate) fn operator_waited(&mut self, ticket: Ticket) {
        if let Some((conn, id)) = self.jobs.leave(ticket) {
            let text = format!(
                "this is in force, but not yet in the job store{}. It will be written as soon as that is possible; \
                 until then a restart takes it back",
                self.why_store_waits()
            );
            self.status(conn, id, Status::UNKNOWN, &text, None);
        }
    }

    pub(crate) fn set_queue(&mut self, to: (ConnId, u32), ask: &Value) -> Answer {
        let id = self.queue_of(ask)?;
        let mut steered = self.steered_of(id);
        let reset = ask["reset"] == true;
        for share in Share::ALL {
            match (reset, share.asked(ask)?) {
                (true, None) => drop(steered.set.remove(share.key())),
                (true, Some(_)) => {
                    let text = "'reset' takes back all, so nothing can be set with it";
                    return Err(Refused::invalid(text));
                }
                (false, Some(number)) => {
                    steered.set.insert(share.key().to_owned(), number.into());
                }
                (false, None) => {}
            }
        }
        let config = steered.config(self.core.queue(id).config);
        if config.reserve > config.limit {
            return Err(Refused::invalid("the reserve would be above the limit"));
        }
        self.check_reserves(id, config.reserve)?;
        let settings = match steered.set.is_empty() {
            true => String::new(),
            false => Value::from(steered.set.clone()).to_string(),
        };
        self.steered.insert(id, steered);
        self.core.configure_queue(id, config);
        self.step(Event::Tick, None);
        let value = self.queue_json(id);
        self.answer_when_kept(to, id, value, |queue, told| Ask::Settings {
            queue,
            settings,
            told,
        })
    }

    /// What an operator had set of a queue before the server was started again.
    pub(crate) fn apply_settings(&mut self, id: QueueId, settings: &str) {
        let Ok(Value::Object(set)) = serde_json::from_str::<Value>(settings) else {
            return;
        };
        let mut steered = self.steered_of(id);
        steered.set = set;
        let queue = self.core.queue(id);
        let (name, config) = (queue.name.to_owned(), steered.config(queue.config));
        // The configuration may have changed since; what does not fit it any more is left out.
        if self.check_reserves(id, config.reserve).is_err() || config.reserve > config.limit {
            self.log.warn(format!(
                "queue {name}: what `stoker set` set does not fit the configuration any more, and is left \
                 out; `stoker set {name} --reset` forgets it"
            ));
            return;
        }
        let differing = Share::ALL
            .iter()
            .filter(|share| share.of(&config) != share.of(&steered.own));
        let differing = differing.map(|share| {
            let (now, own) = (share.show(&config), share.show(&steered.own));
            format!("{} {now} (the configuration: {own})", share.key())
        });
        let differing = differing.collect::<Vec<String>>().join(", ");
        if !differing.is_empty() {
            self.log.info(format!(
                "queue {name} has by `stoker set`: {differing}; `stoker set {name} --reset` takes it back"
            ));
        }
        self.steered.insert(id, steered);
        self.core.configure_queue(id, config);
    }

    fn steered_of(&self, id: QueueId) -> Steered {
        let steered = self.steered.get(&id).cloned();
        steered.unwrap_or_else(|| Steered {
            own: self.core.queue(id).config.clone(),
            set: Map::new(),
        })
    }

    /// What of a queue is not as the configuration says.
    fn set_by_hand(&self, id: QueueId) -> Vec<&'static str> {
        let Some(steered) = self.steered.get(&id) else {
            return Vec::new();
        };
        let config = self.core.queue(id).config;
        let shares = Share::ALL.iter();
        let differing = shares.filter(|share| share.of(config) != share.of(&steered.own));
        differing.map(|share| share.key()).collect()
    }

    /// Says once after a start which queues have jobs and no pool: what a worker serves is known when the first
    /// of each pool is ready, or has shown that it can't be. Pools whose workers dial in are not waited for.
    pub(crate) fn tell_orphans(&mut self) {
        let mut pools = self.core.pools().map(|pool| self.core.pool(pool));
        let is_known = |(_, config, health, _): (_, &PoolConfig, _, _)| {
            !config.spawned || health != Health::Starting
        };
        if self.orphans_told || !pools.all(is_known) {
            return;
        }
        self.orphans_told = true;
        let queues = self.core.queues();
        let queues = queues.filter(|queue| queue.kind == Kind::Jobs && queue.pools.is_empty());
        let orphans = queues.filter_map(|queue| {
            let counts = self.jobs.counts(queue.id);
            let jobs = counts.ready + counts.delayed + counts.suspended;
            (jobs > 0).then(|| (queue.name.to_owned(), counted(jobs, "unfinished job")))
        });
        let orphans: Vec<(String, String)> = orphans.collect();
        for (name, jobs) in orphans.iter().take(ORPHANS) {
            self.log.warn(format!(
                "queue {name} has {jobs}, and no pool serves it: name it in the configuration or in a worker, \
                 or move them by `stoker jobs move --queue {name} --to …`"
            ));
        }
        if let Some(more @ 1..) = orphans.len().checked_sub(ORPHANS) {
            let more = counted(more as u64, "more queue");
            self.log
                .warn(format!("{more} with jobs that no pool serves"));
        }
    }

    /// Whether jobs may go to a queue, as a move or a push would find it.
    pub(super) fn find_queue(&mut self, ask: &Value) -> Answer {
        let name = text_of(ask, "queue")?;
        match self.core.resolve_job(name) {
            Ok(_) => Ok(Some(json!({"queue": name}))),
            Err(_) => Err(Refused::not_found(self.unknown_queue(Kind::Jobs, name))),
        }
    }

    /// A pool must have as many workers for certain as its queues reserve.
    fn check_reserves(&self, changed: QueueId, reserve: u32) -> Result<(), Refused> {
        for (pool, _) in self.core.queue(changed).pools {
            let others = self.core.queues().filter(|queue| {
                queue.id != changed && queue.pools.iter().any(|(bound, _)| bound == pool)
            });
            let sum: u32 = others.map(|queue| queue.config.reserve).sum::<u32>() + reserve;
            let (name, config, _, _) = self.core.pool(*pool);
            if sum > config.min {
                let text = format!(
                    "pool {name} has only {} for certain, and {sum} would be reserved",
                    counted(config.min, "worker")
                );
                return Err(Refused::invalid(text));
            }
        }
        Ok(())
    }

    /// The queue that a request names; a service if no queue has that name. One that a pool would serve
    /// as soon as something is pushed to it can be steered before that.
    fn queue_of(&mut self, ask: &Value) -> Result<QueueId, Refused> {
        let name = text_of(ask, "queue")?;
        let known = self.core.find_queue(Kind::Jobs, name);
        let known = known.or(self.core.find_queue(Kind::Calls, name));
        if let Some(queue) = known {
            // One that a worker announced may not have been opened in the store yet.
            if self.core.queue(queue).kind == Kind::Jobs
                && let Ok(name) = self.core.resolve_job(name)
            {
                self.known_queue(name);
            }
            return Ok(queue);
        }
        match self
            .core
            .serves_all_jobs()
            .then(|| self.core.resolve_job(name))
        {
            Some(Ok(name)) => Ok(self.known_queue(name)),
            _ => Err(Refused::not_found(self.unknown_queue(Kind::Jobs, name))),
        }
    }
}
