//! Operations on queues: list, find, pause, resume, remove, set.

use super::{Answered, Caller, Handle, Rejected};
use crate::counted;
use crate::observe::events;
use crate::plane::{Alarm, Plane, Todo};
use crate::sources::jobs::{ANSWER_TIMEOUT, Waiter};
use serde_json::{Map, Value};
use stoker_api::queue::{self, Found, Paused, Percentiles, Queue, Queues};
use stoker_api::{Answer, Limit};
use stoker_core::{Event, Health, Kind, PoolConfig, QueueConfig, QueueId, Span, Time};
use stoker_store::{QueueNo, StoreRequest, Ticket};
use stoker_wire::Status;

/// How long an operator's request waits for a store that can't write. The failure may be over soon.
const FAILING_STORE_TIMEOUT: Span = Span::from_millis(2_000);

/// The maximum number of queues without a pool that are logged one by one.
const MAX_LOGGED_ORPHANS: usize = 20;

/// The settings of a queue that an operator has changed at run time.
#[derive(Clone)]
pub(crate) struct Overrides {
    /// The settings of the configuration, or the defaults for a queue that it does not name.
    configured: QueueConfig,
    /// The overrides by key, in the form in which the store saves them.
    set: Map<String, Value>,
}

impl Overrides {
    /// The effective settings: the configuration's, with the overrides applied.
    fn config(&self, now: &QueueConfig) -> QueueConfig {
        let number = |setting: QueueSetting| {
            let set = self.set.get(setting.key()).and_then(Value::as_u64);
            set.map_or(setting.of(&self.configured), |number| number as u32)
        };
        QueueConfig {
            weight: number(QueueSetting::Weight),
            reserve: number(QueueSetting::Reserve),
            limit: number(QueueSetting::Limit),
            ..now.clone()
        }
    }
}

/// The settings of a queue that can be overridden at run time.
#[derive(Clone, Copy)]
enum QueueSetting {
    Weight,
    Reserve,
    Limit,
}

impl QueueSetting {
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

    /// The value as text; `u32::MAX`, which means no limit, is shown as "none".
    fn show(self, config: &QueueConfig) -> String {
        match self.of(config) {
            u32::MAX => "none".to_owned(),
            number => number.to_string(),
        }
    }

    /// The new value in the request, if it has one.
    fn new_value(self, set: &queue::Set) -> Option<u32> {
        match self {
            Self::Weight => set.weight.map(|weight| weight.0 as u32),
            Self::Reserve => set.reserve.map(|reserve| reserve.0 as u32),
            Self::Limit => set.limit.map(|limit| match limit {
                Limit::Of(number) => number,
                Limit::None => u32::MAX,
            }),
        }
    }
}

impl Handle for queue::List {
    fn handle(self, plane: &mut Plane, caller: Caller) -> Answered<Queues> {
        plane.list_queues_next_turn(caller.reply_conn(), caller.id);
        Ok(None)
    }
}

impl Handle for queue::Find {
    /// Reports whether a move or a push to this queue would be accepted.
    fn handle(self, plane: &mut Plane, _: Caller) -> Answered<Found> {
        let name = self.queue.0;
        match plane.core.accepts_job(&name) {
            true => Ok(Some(Found { queue: name })),
            false => Err(Rejected::not_found(plane.unknown_queue(Kind::Jobs, &name))),
        }
    }
}

impl Handle for queue::Pause {
    fn handle(self, plane: &mut Plane, caller: Caller) -> Answered<Paused> {
        if self.create {
            plane.create_queue(&self.queue.0)?;
        }
        plane.pause_queue(caller, &self.queue.0, true)
    }
}

impl Handle for queue::Resume {
    fn handle(self, plane: &mut Plane, caller: Caller) -> Answered<Paused> {
        plane.pause_queue(caller, &self.queue.0, false)
    }
}

impl Handle for queue::Set {
    fn handle(self, plane: &mut Plane, caller: Caller) -> Answered<Queue> {
        if self.create {
            plane.create_queue(&self.queue.0)?;
        }
        plane.set_queue(caller, &self)
    }
}

impl Handle for queue::Remove {
    fn handle(self, plane: &mut Plane, _: Caller) -> Answered<Found> {
        let queue = self.queue.0;
        plane.remove_queue(&queue)?;
        Ok(Some(Found { queue }))
    }
}

impl Plane {
    pub(super) fn list_queues(&mut self) -> Queues {
        let ids: Vec<QueueId> = self.core.queues().map(|queue| queue.id).collect();
        let queues = ids.into_iter().map(|id| self.shown_queue(id)).collect();
        Queues { queues }
    }

    fn shown_queue(&mut self, id: QueueId) -> Queue {
        let counts = self.jobs.counts(id);
        let now = self.now;
        let stats = self.queue_stats_mut(id);
        let (wait_ms, run_ms) = (
            percentiles(&stats.waited, now),
            percentiles(&stats.ran, now),
        );
        let (calls_done, calls_failed) = (stats.done, stats.failed);
        let queue = self.core.queue(id);
        let pool = queue.pools.first().map(|pool| self.core.pool(*pool).0);
        let config = queue.config;
        let running = u64::from(queue.running);
        let is_jobs = queue.kind == Kind::Jobs;
        Queue {
            name: queue.name.to_owned(),
            kind: match queue.kind {
                Kind::Jobs => queue::Kind::Jobs,
                Kind::Calls => queue::Kind::Calls,
            },
            pool: pool.map(str::to_owned),
            weight: config.weight,
            reserve: config.reserve,
            limit: (config.limit != u32::MAX).then_some(config.limit),
            set: self.overridden_keys(id),
            paused: queue.paused,
            ready: match is_jobs {
                true => counts.ready.saturating_sub(running),
                false => u64::from(queue.waiting),
            },
            delayed: counts.delayed,
            running,
            done: if is_jobs { counts.done } else { calls_done },
            failed: if is_jobs { counts.failed } else { calls_failed },
            retried: is_jobs.then_some(counts.retried),
            cancelled: is_jobs.then_some(counts.cancelled),
            suspended: is_jobs.then_some(counts.suspended),
            wait_ms,
            run_ms,
            oldest_ms: queue.oldest.map(|came| self.now.since(came).as_millis()),
        }
    }

    fn pause_queue(&mut self, caller: Caller, name: &str, paused: bool) -> Answered<Paused> {
        let queue = self.queue_of(name)?;
        self.step(Event::Paused { queue, paused }, None);
        let answer = Paused {
            queue: self.core.queue(queue).name.to_owned(),
            paused,
        };
        let answer =
            self.answer_when_saved(caller, queue, answer, |queue, ticket| StoreRequest::Pause {
                queue,
                paused,
                ticket,
            });
        self.settle();
        answer
    }

    /// Sends a queue's overrides to the store, and answers once they are saved. Services have no state in the
    /// store: after a restart they have the settings of the configuration.
    fn answer_when_saved<A: Answer>(
        &mut self,
        caller: Caller,
        queue: QueueId,
        answer: A,
        request: impl FnOnce(QueueNo, Option<Ticket>) -> StoreRequest,
    ) -> Answered<A> {
        let Some(no) = self.jobs.queue(queue).map(|of_queue| of_queue.no) else {
            return Ok(Some(answer));
        };
        let ticket = self.jobs.create_ticket(Waiter::Reply {
            conn: caller.reply_conn(),
            id: caller.id,
            value: serde_json::to_value(answer).unwrap_or_default(),
        });
        self.jobs.send(request(no, Some(ticket)));
        let timeout = match self.jobs.failing {
            Some(_) => FAILING_STORE_TIMEOUT,
            None => ANSWER_TIMEOUT,
        };
        self.alarms.set(self.now + timeout, Alarm::Operator(ticket));
        Ok(None)
    }

    /// The overrides are in effect, but the store has not saved them within the time that an operator's request
    /// waits.
    pub(crate) fn on_operator_timeout(&mut self, ticket: Ticket) {
        if let Some((conn, id)) = self.jobs.stop_waiting(ticket) {
            let text = format!(
                "the change is in effect, but not stored yet{}. It will be stored as soon as possible; until then a restart \
                 would undo it",
                self.why_store_waits()
            );
            self.status(conn, id, Status::UNKNOWN, &text, None);
        }
    }

    fn set_queue(&mut self, caller: Caller, set: &queue::Set) -> Answered<Queue> {
        let id = self.queue_of(&set.queue.0)?;
        let mut overrides = self.overrides_of(id);
        for setting in QueueSetting::ALL {
            match (set.reset, setting.new_value(set)) {
                (true, _) => drop(overrides.set.remove(setting.key())),
                (false, Some(number)) => {
                    overrides
                        .set
                        .insert(setting.key().to_owned(), number.into());
                }
                (false, None) => {}
            }
        }
        let config = overrides.config(self.core.queue(id).config);
        if config.reserve > config.limit {
            return Err(Rejected::invalid("the reserve would exceed the limit"));
        }
        self.check_reserves(id, config.reserve)?;
        let settings = match overrides.set.is_empty() {
            true => String::new(),
            false => Value::from(overrides.set.clone()).to_string(),
        };
        self.admin.overrides.insert(id, overrides);
        self.core.configure_queue(id, config);
        self.step(Event::Tick, None);
        let answer = self.shown_queue(id);
        self.answer_when_saved(caller, id, answer, |queue, ticket| StoreRequest::Settings {
            queue,
            settings,
            ticket,
        })
    }

    /// Applies the overrides that the store has saved for a queue.
    pub(crate) fn apply_settings(&mut self, id: QueueId, settings: &str) {
        let Ok(Value::Object(set)) = serde_json::from_str::<Value>(settings) else {
            return;
        };
        let mut overrides = self.overrides_of(id);
        overrides.set = set;
        self.override_queue(id, overrides);
        self.todo.push_back(Todo::Tick);
    }

    /// The configuration of a queue has changed. Its overrides still apply.
    pub(crate) fn configure_overridden(&mut self, id: QueueId, configured: QueueConfig) {
        self.core.configure_queue(id, configured.clone());
        if let Some(overrides) = self.admin.overrides.remove(&id) {
            self.override_queue(
                id,
                Overrides {
                    configured,
                    ..overrides
                },
            );
        }
    }

    fn override_queue(&mut self, id: QueueId, overrides: Overrides) {
        let queue = self.core.queue(id);
        let (name, config) = (queue.name.to_owned(), overrides.config(queue.config));
        // The configuration may have changed since; overrides that no longer fit it are dropped.
        if self.check_reserves(id, config.reserve).is_err() || config.reserve > config.limit {
            let text = format!(
                "queue {name}: the settings from `stoker set` no longer fit the configuration and are ignored; \
                 `stoker set {name} --reset` deletes them"
            );
            self.log
                .put(events::OVERRIDE_DROPPED.message(text).with("queue", name));
            return;
        }
        let differing = QueueSetting::ALL
            .iter()
            .filter(|setting| setting.of(&config) != setting.of(&overrides.configured));
        let differing = differing.map(|setting| {
            let (now, configured) = (setting.show(&config), setting.show(&overrides.configured));
            format!("{} {now} (configured: {configured})", setting.key())
        });
        let differing = differing.collect::<Vec<String>>().join(", ");
        if !differing.is_empty() {
            let text = format!(
                "queue {name} has settings from `stoker set`: {differing}; `stoker set {name} --reset` restores the \
                 configuration"
            );
            let entry = events::QUEUE_OVERRIDDEN.message(text).with("queue", name);
            self.log.put(entry.with("keys", differing));
        }
        self.admin.overrides.insert(id, overrides);
        self.core.configure_queue(id, config);
    }

    fn overrides_of(&self, id: QueueId) -> Overrides {
        let overrides = self.admin.overrides.get(&id).cloned();
        overrides.unwrap_or_else(|| Overrides {
            configured: self.core.queue(id).config.clone(),
            set: Map::new(),
        })
    }

    /// The keys of a queue's settings that differ from the configuration.
    pub(super) fn overridden_keys(&self, id: QueueId) -> Vec<String> {
        let Some(overrides) = self.admin.overrides.get(&id) else {
            return Vec::new();
        };
        let config = self.core.queue(id).config;
        let all_settings = QueueSetting::ALL.iter();
        let differing =
            all_settings.filter(|setting| setting.of(config) != setting.of(&overrides.configured));
        differing.map(|setting| setting.key().to_owned()).collect()
    }

    /// Logs once after a start which queues have jobs but no pool. The queues that a pool's workers serve are
    /// known once its first worker is ready, or has failed to start. Pools whose workers connect by themselves
    /// are not waited for.
    pub(crate) fn report_orphans(&mut self) {
        let mut pools = self.core.pools().map(|pool| self.core.pool(pool));
        let is_known = |(_, config, health, _): (_, &PoolConfig, _, _)| {
            !config.spawned || health != Health::Starting
        };
        if self.admin.orphans_reported || !pools.all(is_known) {
            return;
        }
        self.admin.orphans_reported = true;
        let queues = self.core.queues();
        let queues = queues.filter(|queue| queue.kind == Kind::Jobs && queue.pools.is_empty());
        let orphans = queues.filter_map(|queue| {
            let counts = self.jobs.counts(queue.id);
            let jobs = counts.ready + counts.delayed + counts.suspended;
            (jobs > 0).then(|| (queue.name.to_owned(), jobs))
        });
        let orphans: Vec<(String, u64)> = orphans.collect();
        for (name, count) in orphans.iter().take(MAX_LOGGED_ORPHANS) {
            let jobs = counted(*count, "unfinished job");
            let text = format!(
                "queue {name} has {jobs}, but no pool serves it: add it to the configuration or to a worker, or move \
                 them with `stoker jobs move --queue {name} --to …`"
            );
            let entry = events::QUEUE_UNSERVED.message(text);
            self.log
                .put(entry.with("queue", name.as_str()).with("jobs", *count));
        }
        if let Some(more @ 1..) = orphans.len().checked_sub(MAX_LOGGED_ORPHANS) {
            let shown = counted(more as u64, "more queue");
            let text = format!("{shown} with jobs that no pool serves");
            self.log
                .put(events::QUEUE_UNSERVED.message(text).with("queues", more));
        }
    }

    /// The slots that a pool guarantees must cover the sum of its queues' reserves.
    fn check_reserves(&self, changed: QueueId, reserve: u32) -> Result<(), Rejected> {
        for pool in self.core.queue(changed).pools {
            let others = self
                .core
                .queues()
                .filter(|queue| queue.id != changed && queue.pools.contains(pool));
            let sum: u32 = others.map(|queue| queue.config.reserve).sum::<u32>() + reserve;
            let (name, config, _, _) = self.core.pool(*pool);
            let certain = self.guaranteed_slots_with(*pool, config.min);
            if sum > certain {
                let text = format!(
                    "pool {name} guarantees only {}, but the reserves of its queues would add up to {sum}",
                    counted(certain, "worker")
                );
                return Err(Rejected::invalid(text));
            }
        }
        Ok(())
    }

    /// The queue that a request names, or the service if no queue has this name. A queue that a worker has
    /// announced can be changed before the first push to it.
    fn queue_of(&mut self, name: &str) -> Result<QueueId, Rejected> {
        let known = self.core.find_queue(Kind::Jobs, name);
        let known = known.or(self.core.find_queue(Kind::Calls, name));
        if let Some(queue) = known {
            // A queue that a worker announced may not have been opened in the store yet.
            if self.core.queue(queue).kind == Kind::Jobs
                && let Ok(name) = self.core.resolve_job(name)
            {
                self.find_or_open_queue(name);
            }
            return Ok(queue);
        }
        let text = self.unknown_queue(Kind::Jobs, name);
        let hint = match self.core.accepts_job(name) {
            true => {
                ". A queue exists after the first push to it; `--create` creates it without one"
            }
            false => "",
        };
        Err(Rejected::not_found(format!("{text}{hint}")))
    }

    /// Creates a queue that a pool would serve as soon as something is pushed to it.
    fn create_queue(&mut self, name: &str) -> Result<(), Rejected> {
        if self.core.find_queue(Kind::Calls, name).is_some() {
            return Ok(());
        }
        let created = self.queue_for_push(name, None);
        let created = created.map_err(|(status, text)| Rejected::new(status, text))?;
        self.find_or_open_queue(created);
        Ok(())
    }

    /// Removes a queue that contains no jobs and that neither the configuration nor a worker names, with its
    /// overrides.
    fn remove_queue(&mut self, name: &str) -> Result<(), Rejected> {
        let rejected = |text| Err(Rejected::new(Status::FAILED_PRECONDITION, text));
        let Some(id) = self.core.find_queue(Kind::Jobs, name) else {
            return Err(Rejected::not_found(self.unknown_queue(Kind::Jobs, name)));
        };
        if self.core.is_configured(id) {
            return rejected(format!(
                "queue '{name}' is in the configuration: remove the section [queue.{name}] and reload, then remove \
                 the queue"
            ));
        }
        let of_queue = self.jobs.queue(id);
        let (unfinished, failed) =
            of_queue.map_or((0, 0), |queue| (queue.unfinished(), queue.counts.failed));
        if unfinished + failed > 0 {
            return rejected(format!(
                "queue '{name}' holds {} and {}: move, cancel or discard them first (`stoker jobs move --queue \
                 {name} --to …`, `stoker jobs cancel --queue {name}`, `stoker jobs discard --queue {name}`)",
                counted(unfinished, "unfinished job"),
                counted(failed, "failed job")
            ));
        }
        if !self.core.is_removable(id) {
            return rejected(format!(
                "queue '{name}' is served by workers, or one of its jobs is ending: stop those workers or wait, then \
                 try again"
            ));
        }
        if let Some(no) = of_queue.map(|queue| queue.no) {
            let (paused, settings, ticket) = (false, String::new(), None);
            self.jobs.send(StoreRequest::Pause {
                queue: no,
                paused,
                ticket,
            });
            self.jobs.send(StoreRequest::Settings {
                queue: no,
                settings,
                ticket,
            });
        }
        self.close_queue(id);
        Ok(())
    }

    /// Whether an operator has overridden a setting of a queue.
    pub(crate) fn is_overridden(&self, id: QueueId) -> bool {
        self.admin
            .overrides
            .get(&id)
            .is_some_and(|overrides| !overrides.set.is_empty())
    }
}

fn percentiles(recent: &crate::observe::Recent, now: Time) -> Percentiles {
    let [p50, p99] = recent
        .quantiles(now, [500, 990])
        .map_or([None; 2], |both| both.map(Some));
    Percentiles { p50, p99 }
}
