use super::{Answer, Refused, text_of};
use crate::clock::wall_ms;
use crate::plane::Plane;
use crate::sources::jobs::{job_json, state_named};
use crate::store::{Filter, JobNo, State};
use serde_json::{Value, json};
use stoker_core::{Event, Kind};
use uuid::Uuid;

/// Jobs in one answer.
const PAGE: usize = 100;
const PAGE_MAX: usize = 1_000;

impl Plane {
    pub(crate) fn list_jobs(&mut self, ask: &Value) -> Answer {
        let filter = self.filter_of(ask)?;
        let limit = ask["limit"]
            .as_u64()
            .map_or(PAGE, |limit| (limit as usize).clamp(1, PAGE_MAX));
        let after = match ask["after"].as_str() {
            Some(id) => Some(parse_id(id)?),
            None => None,
        };
        let mut found = self.store.list(&filter, after, usize::MAX);
        self.refine(ask, &mut found);
        let next = (found.len() > limit).then(|| self.store[found[limit - 1]].id.to_string());
        found.truncate(limit);
        let jobs: Vec<Value> = found
            .into_iter()
            .map(|job| job_json(self, job, false))
            .collect();
        Ok(Some(json!({"jobs": jobs, "next": next})))
    }

    pub(crate) fn show_job(&mut self, ask: &Value) -> Answer {
        let job = self.job_of(ask)?;
        Ok(Some(job_json(self, job, true)))
    }

    /// Runs failed or cancelled jobs again, with fresh budgets: one, or all that a filter means.
    pub(crate) fn retry_jobs(&mut self, ask: &Value) -> Answer {
        let jobs = self.meant(ask, &[State::Failed, State::Cancelled])?;
        let mut count = 0;
        for job in jobs {
            if matches!(self.store[job].state, State::Failed | State::Cancelled) {
                self.store.revive(job);
                self.offer_job(job);
                self.settle();
                count += 1;
            }
        }
        Ok(Some(json!({"count": count})))
    }

    /// Ends jobs that are not finished. A running one is ended with its worker, if it does not stop.
    pub(crate) fn cancel_jobs(&mut self, ask: &Value) -> Answer {
        let jobs = self.meant(ask, &[State::Ready, State::Delayed, State::Retrying])?;
        let mut count = 0;
        for job in jobs {
            if self.store[job].state.is_final() {
                continue;
            }
            count += 1;
            match self.store[job].task {
                Some(task) => self.step(Event::Cancel { task, kill: true }, None),
                None => self.store.end(job, State::Cancelled, None, wall_ms()),
            }
            self.settle();
        }
        Ok(Some(json!({"count": count})))
    }

    /// The one job of a request, or all of its filter that are in one of `states`.
    fn meant(&mut self, ask: &Value, states: &[State]) -> Result<Vec<JobNo>, Refused> {
        if ask["id"].is_string() {
            let job = self.job_of(ask)?;
            if !states.contains(&self.store[job].state) {
                let state = job_json(self, job, false)["state"].clone();
                let text = format!("the job is {}", state.as_str().unwrap_or_default());
                return Err(Refused(stoker_wire::Status::FAILED_PRECONDITION, text));
            }
            return Ok(vec![job]);
        }
        if ask["queue"].is_null() && ask["state"].is_null() {
            return Err(Refused::invalid(
                "name a job by 'id', or many by 'queue' or 'state'",
            ));
        }
        let mut filter = self.filter_of(ask)?;
        let states = match filter.state.take() {
            Some(state) => vec![state],
            None => states.to_vec(),
        };
        let mut jobs = Vec::new();
        for state in states {
            let filter = Filter {
                state: Some(state),
                ..filter.clone()
            };
            jobs.extend(self.store.list(&filter, None, usize::MAX));
        }
        self.refine(ask, &mut jobs);
        Ok(jobs)
    }

    /// Running and ready are one to the store and two to people.
    fn refine(&self, ask: &Value, jobs: &mut Vec<JobNo>) {
        if let Some(wanted @ ("ready" | "running")) = ask["state"].as_str() {
            jobs.retain(|job| {
                let task = self.store[*job].task;
                task.is_some_and(|task| self.core.is_running(task)) == (wanted == "running")
            });
        }
    }

    fn filter_of(&self, ask: &Value) -> Result<Filter, Refused> {
        let queue = match ask["queue"].as_str() {
            Some(name) => Some(
                self.core
                    .find_queue(Kind::Jobs, name)
                    .ok_or_else(|| Refused::not_found(self.unknown_queue(Kind::Jobs, name)))?,
            ),
            None => None,
        };
        let state = match ask["state"].as_str() {
            Some(name) => Some(state_named(name).ok_or_else(|| {
                Refused::invalid(format!(
                    "there is no state '{name}'; there is: ready, running, delayed, retrying, done, \
                     failed, cancelled"
                ))
            })?),
            None => None,
        };
        Ok(Filter { queue, state })
    }

    fn job_of(&self, ask: &Value) -> Result<JobNo, Refused> {
        let id = parse_id(text_of(ask, "id")?)?;
        let missing = || Refused::not_found(format!("there is no job {id} (any more)"));
        self.store.find(id).ok_or_else(missing)
    }
}

fn parse_id(text: &str) -> Result<Uuid, Refused> {
    text.parse()
        .map_err(|_| Refused::invalid(format!("'{text}' is no job id")))
}
