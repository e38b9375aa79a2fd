//! Performs the actions of the core. Code here does not decide anything and does not step the core.

use crate::observe::{Entry, events};
use crate::plane::{Plane, Todo};
use crate::sources::end::{CrashedProcess, exit_text};
use crate::sources::{Origin, TaskAnswer};
use crate::workers::WorkerHandle;
use stoker_angel::ToAngel;
use stoker_core::{
    Action, Exit, Facts, Health, Notice, Outcome, Recycled, StopReason, TaskId, WorkerId,
};
use stoker_os::Signal;
use stoker_store::{HistoryKind, StoreRequest};

impl Plane {
    pub(crate) fn perform(&mut self, action: Action, answer: Option<&TaskAnswer<'_>>) {
        match action {
            Action::Spawn {
                worker,
                pool,
                version,
                number,
            } => self.spawn(worker, pool, version, number),
            Action::Admit {
                worker,
                ticket,
                number,
            } => self.admit(worker, ticket, number),
            Action::Deliver {
                worker,
                task,
                time_left,
                attempt,
                crashes,
            } => {
                self.deliver(worker, task, time_left, attempt, crashes);
            }
            Action::Claim { task } => self.claim(task),
            Action::CancelOn { worker, task } => self.cancel_on(worker, task),
            Action::SoftSignal { worker } => self.signal(worker, Signal::USR1),
            Action::Goaway { worker, .. } => self.goaway(worker),
            Action::Disconnect { worker } => self.todo.push_back(Todo::Disconnect { worker }),
            Action::Terminate { worker } => self.signal(worker, Signal::TERM),
            Action::Kill { worker, why } => self.kill(worker, why),
            Action::Release { worker } => self.release(worker),
            Action::BeginAnswer { task, facts } => self.begin_answer(task, facts, answer),
            Action::Answer {
                task,
                outcome,
                facts,
            } => match self.payloads[task].origin {
                Origin::Job(_) => self.acknowledge(task, facts),
                _ => self.reply(task, outcome, facts, answer),
            },
            Action::Finish {
                task,
                outcome,
                facts,
            } => self.finish(task, outcome, facts, answer),
            Action::Drop { task } => {
                self.drop_job(task, answer);
                self.free(task);
            }
            Action::Retry {
                task,
                after,
                cause,
                facts,
            } => {
                self.retry_job(task, after, cause, facts, answer);
                self.free(task);
            }
            Action::Return { task } => {
                self.return_job(task);
                self.free(task);
            }
            Action::Refill { queue, class, key } => {
                self.todo.push_back(Todo::Refill { queue, class, key });
            }
            Action::RefillKeys { queue } => self.todo.push_back(Todo::RefillKeys { queue }),
            Action::Measure { worker } => self.measure(worker),
            Action::Notice(notice) => self.notice(notice, CrashedProcess::of(answer)),
            Action::Reloaded { pool, done } => self.reloaded(pool, done),
            Action::Drained => self.drained = true,
        }
    }

    fn finish(
        &mut self,
        task: TaskId,
        outcome: Outcome,
        facts: Facts,
        answer: Option<&TaskAnswer<'_>>,
    ) {
        if let Outcome::Quarantined { .. } | Outcome::WorkerDied(_) = outcome {
            self.record_killer(task, outcome, facts, CrashedProcess::of(answer));
        }
        match self.payloads[task].origin {
            Origin::Job(_) => self.end_job(task, outcome, facts, answer),
            _ => self.reply(task, outcome, facts, answer),
        }
        self.free(task);
    }

    /// Frees a task's slot, and releases the memory that was reserved for its answer.
    fn free(&mut self, task: TaskId) {
        self.unreserve(task);
        self.discharge(task);
        self.payloads.remove(task);
    }

    fn kill(&mut self, worker: WorkerId, why: StopReason) {
        let Some(handle) = self.worker_handle_mut(worker) else {
            return;
        };
        handle.kill_reason = describe_stop_reason(why);
        let (name, spawned) = (handle.name.clone(), handle.spawned);
        // A worker that was still booting has nothing to finish, so its end is not worth a log line.
        let quiet = !handle.ready
            && matches!(
                why,
                StopReason::Shutdown | StopReason::Surplus | StopReason::Replaced
            );
        if let Some(reason) = describe_stop_reason(why).filter(|_| !quiet) {
            let task = Some(self.current_task_label(worker)).filter(|task| !task.is_empty());
            let at = task
                .as_ref()
                .map_or(String::new(), |task| format!(" at {task}"));
            let entry = events::WORKER_KILLED.message(format!("{name} is killed{at}: {reason}"));
            let entry = self.with_worker(worker, entry).with("task", task);
            self.log.put(entry.with("reason", reason));
        }
        if spawned {
            self.send_to_angel(&ToAngel::Kill {
                worker: WorkerHandle::key(worker),
            });
            if why == StopReason::BootTimeout {
                self.end_stuck_zygote(worker);
            }
        } else {
            self.todo.push_back(Todo::KillConnected { worker });
        }
    }

    /// Reports to the store that the worker of a job, or its program, died while it ran the job.
    fn record_crash(
        &mut self,
        worker: WorkerId,
        exit: Exit,
        task: TaskId,
        crashes: u8,
        crashed_process: CrashedProcess,
    ) {
        let Some(loaded) = self.jobs.loaded.get(task) else {
            return self.log_crashed_call(task, worker, exit, crashes, crashed_process);
        };
        let (whole, crashes) = (
            loaded.job.clone(),
            crashes.saturating_add(loaded.uncounted_crashes),
        );
        let job = whole.id;
        let died_of = self
            .worker_handle(worker)
            .and_then(WorkerHandle::death_reason);
        let died_of = died_of.map_or(String::new(), |text| format!(": {text}"));
        let text = format!(
            "{} with {}{died_of}",
            crashed_process.crash_text(),
            exit_text(exit)
        );
        let entry =
            events::RUN_CRASHED.message(format!("crashed: {text}; the job is retried, alone"));
        let entry = entry.with("worker", self.worker_name(Some(worker)));
        let entry = entry.with("reason", text.as_str()).with("final", false);
        self.log_lost_run(&whole, crashes, entry);
        // The job no longer runs. Without this update, a crash of the server would count as another crash of the
        // job.
        self.jobs.runs_changed = true;
        let what = HistoryKind::Crashed;
        self.jobs.send(StoreRequest::Note { job, what, text });
    }

    /// Reports to the store that a job's run was cut off through no fault of the job.
    fn record_cut_off(
        &mut self,
        worker: WorkerId,
        task: TaskId,
        why: Option<StopReason>,
        again: bool,
    ) {
        let Some(whole) = self.jobs.loaded.get(task).map(|loaded| loaded.job.clone()) else {
            let why = why
                .and_then(describe_stop_reason)
                .unwrap_or("it was killed");
            return self.log_cut_off_call(task, worker, why, again);
        };
        let job = whole.id;
        let name = self
            .worker_handle(worker)
            .map_or("its worker", |handle| &handle.name);
        let why = why
            .and_then(describe_stop_reason)
            .unwrap_or("it was killed");
        let (text, next) = match again {
            true => ("", "the job is retried"),
            // The job has counted as done since its delivery, or since its code acknowledged it.
            false => ("; the job is not retried", "the job is not retried"),
        };
        let text = format!("{name} was killed while it ran this job: {why}{text}");
        let entry = events::RUN_CUT_OFF.message(format!("was cut off: {why}; {next}"));
        let entry = entry.with("worker", self.worker_name(Some(worker)));
        let entry = entry.with("reason", why).with("final", !again);
        self.log_lost_run(&whole, whole.counters.crashes, entry);
        if let Some(loaded) = self.jobs.loaded.get_mut(task) {
            loaded.is_cut_off = !again;
        }
        self.jobs.runs_changed = true;
        let what = HistoryKind::CutOff;
        self.jobs.send(StoreRequest::Note { job, what, text });
    }

    /// Adds the fields that identify a worker to a log entry.
    fn with_worker(&self, worker: WorkerId, entry: Entry) -> Entry {
        let Some(handle) = self.worker_handle(worker) else {
            return entry;
        };
        let pool = self.core.pool(handle.pool).0;
        let entry = entry
            .with("worker", handle.name.as_str())
            .with("pool", pool);
        entry.with("pid", handle.pid)
    }

    fn notice(&mut self, notice: Notice, crashed_process: CrashedProcess) {
        match notice {
            Notice::Ready { worker, quiet } => {
                let Some(handle) = self.worker_handle_mut(worker) else {
                    return;
                };
                handle.ready = true;
                if quiet {
                    return;
                }
                let text = format!("{} is ready (pid {})", handle.name, handle.pid);
                let version = self.core.worker(worker).map(|(_, _, version)| version);
                let entry = self.with_worker(worker, events::WORKER_READY.message(text));
                self.log.put(entry.with("version", version));
            }
            Notice::Died {
                worker,
                exit,
                expected,
                quiet,
                why,
                crashed,
            } => {
                let Some(handle) = self.worker_handle(worker) else {
                    return;
                };
                let pool = handle.pool;
                if quiet {
                    *self.workers.spent.entry(pool).or_default() += 1;
                    return;
                }
                let (name, words) = (handle.name.clone(), handle.death_details());
                let (pool, how) = (handle.pool, exit_text(exit));
                if expected {
                    let entry = events::WORKER_GONE.message(format!("{name} has ended ({how})"));
                    let entry = self.with_worker(worker, entry).with("exit", how);
                    return self.log.put(entry);
                }
                *self.workers.restarts.entry(pool).or_default() += 1;
                self.workers.last_exits.insert(pool, how.clone());
                let task = crashed.map_or(String::new(), |_| " while it ran a task".to_owned());
                let reason = why.and_then(describe_stop_reason);
                let why = reason.map_or(String::new(), |why| format!("; {why}"));
                let last = words.as_ref();
                let last = last.map_or(String::new(), |words| format!("; last words: {words}"));
                let text = format!("{name} died with {how}{task}{why}{last}");
                let entry = self.with_worker(worker, events::WORKER_DIED.message(text));
                let entry = entry.with("exit", how).with("reason", reason);
                self.log.put(
                    entry
                        .with("in_task", crashed.is_some())
                        .with("last_words", words),
                );
            }
            Notice::Recycled { worker, why } => self.log_recycled(worker, why),
            Notice::Crashed {
                worker,
                exit,
                task,
                crashes,
            } => self.record_crash(worker, exit, task, crashes, crashed_process),
            Notice::CutOff {
                worker,
                task,
                why,
                again,
            } => self.record_cut_off(worker, task, why, again),
            Notice::BootFailed {
                worker,
                exit,
                again_in,
            } => {
                let Some(handle) = self.worker_handle(worker) else {
                    return;
                };
                let (name, words) = (handle.name.clone(), handle.death_details());
                let last = words
                    .as_ref()
                    .map_or(String::new(), |words| format!(": {words}"));
                // Issue 9, A27: a script that only defines its handlers exits at once, with code 0.
                let hint = match exit {
                    Exit::Code(0) if !handle.ready => {
                        ". The process ended without serving: a worker script must end with a call of run(); for a \
                         program that does not speak Stoker's protocol, set protocol = false"
                    }
                    _ => "",
                };
                let (how, ms) = (exit_text(exit), again_in.as_millis());
                let what = match handle.ready {
                    true => "ended before it ran a task",
                    false => "did not become ready",
                };
                let (pool, text) = (handle.pool, format!("{name} {what} ({how}){last}{hint}"));
                let entry = events::BOOT_FAILED.message(format!("{text}; next boot in {ms} ms"));
                let entry = self.with_worker(worker, entry).with("exit", how.as_str());
                self.log
                    .put(entry.with("last_words", words).with("next_boot_ms", ms));
                self.workers
                    .last_exits
                    .insert(pool, format!("{how} at boot"));
                self.admin.reloads.record_failed_boot(pool, text);
            }
            Notice::Health { pool, health } => {
                if health == Health::Healthy {
                    self.admin.reloads.clear_failed_boot(pool);
                }
                let pool = self.core.pool(pool).0.to_owned();
                let entry = match health {
                    Health::Healthy => {
                        Some(events::POOL_HEALTHY.message(format!("pool {pool} is healthy")))
                    }
                    Health::Starting => None,
                    Health::Failing { boots } => {
                        let text =
                            format!("pool {pool} is unhealthy: {boots} boots in a row failed");
                        Some(events::POOL_UNHEALTHY.message(text).with("boots", boots))
                    }
                    Health::Blamed => Some(events::VERSION_BLAMED.message(format!(
                        "pool {pool}: many different tasks kill its workers; the cause is probably the version of the \
                         code, or the network if they are on other machines"
                    ))),
                };
                if let Some(entry) = entry {
                    self.log.put(entry.with("pool", pool));
                }
                self.report_orphans();
            }
            Notice::ReloadGivenUp { pool } => {
                let pool = self.core.pool(pool).0.to_owned();
                let text = format!(
                    "pool {pool}: the new version can't start; the old version keeps running"
                );
                self.log
                    .put(events::RELOAD_GIVEN_UP.message(text).with("pool", pool));
            }
        }
    }
}

impl Plane {
    fn log_recycled(&mut self, worker: WorkerId, why: Recycled) {
        let Some(name) = self.worker_name(Some(worker)) else {
            return;
        };
        let (reason, rss) = match why {
            Recycled::Tasks => ("max_tasks", None),
            Recycled::Age => ("max_age", None),
            Recycled::Memory { rss } => ("memory_limit", Some(rss)),
        };
        let size = rss.map_or(String::new(), |rss| format!(" ({} MB)", rss >> 20));
        let text = format!("{name} is replaced: {reason}{size}");
        let entry = self.with_worker(worker, events::WORKER_RECYCLED.message(text));
        self.log
            .put(entry.with("reason", reason).with("rss_bytes", rss));
    }
}

/// The reason for killing a worker, as text.
fn describe_stop_reason(why: StopReason) -> Option<&'static str> {
    Some(match why {
        StopReason::BootTimeout => "it was not ready within boot_timeout",
        StopReason::TaskTimeout => "its task exceeded its timeout",
        StopReason::Cancelled => "its task was cancelled",
        StopReason::Memory => "it used more memory than memory_limit allows within a task",
        StopReason::Misbehaved => "it broke the protocol",
        StopReason::Shutdown => "it did not end within stop_grace",
        StopReason::Surplus | StopReason::Replaced | StopReason::Left | StopReason::TaskLimit => {
            "it did not end within stop_grace"
        }
    })
}
