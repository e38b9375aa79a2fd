use super::{Answer, Refused, text_of};
use crate::clock::wall_ms;
use crate::counted;
use crate::net::ConnId;
use crate::plane::Plane;
use crate::sources::jobs::{
    Asked, Operator, Reach, error_json, job_json, refusal_of, state_named, view_of, whole_note_json,
};
use serde_json::{Value, json};
use stoker_core::Kind;
use stoker_store::{
    Ask, Bytes, Change, Filter, Found, Job, JobId, Look, QueueNo, State, States, Ticket, Trouble,
    View, Which,
};
use stoker_wire::{Codec, Frame, Status};
use uuid::Uuid;

/// Jobs in one answer.
const PAGE: usize = 100;
const PAGE_MAX: usize = 1_000;

impl Plane {
    /// A request about jobs. The store answers most of them, later.
    pub(crate) fn job_method(
        &mut self,
        conn: ConnId,
        frame: &Frame<'_>,
        op: &str,
        ask: &Value,
    ) -> Answer {
        let (what, look) = match op {
            "list" if ask["state"] == "running" => return self.list_running(ask),
            "count" if ask["state"] == "running" => return self.count_running(ask),
            "list" if ask["state"] == "ready" => (Operator::ListReady, self.list(ask, false)?),
            "list" => (Operator::List, self.list(ask, false)?),
            "export" if !ask["id"].is_null() => (Operator::Export, Look::One(self.job_of(ask)?)),
            "export" => (Operator::Export, self.list(ask, true)?),
            "show" => (show_of(ask)?, Look::One(self.job_of(ask)?)),
            "count" => (Operator::Count, Look::Count(self.filter_of(ask)?)),
            "groups" => {
                let (filter, limit) = (self.filter_of(ask)?, limit_of(ask));
                (Operator::Groups, Look::Groups { filter, limit })
            }
            "import" => return self.import_jobs(conn, frame, ask),
            op => return self.change_jobs(conn, frame, op, ask),
        };
        let ticket = self.admin_ticket(conn, frame, what);
        self.jobs.ask(Ask::Look { ticket, look });
        Ok(None)
    }

    pub(super) fn admin_ticket(
        &mut self,
        conn: ConnId,
        frame: &Frame<'_>,
        what: Operator,
    ) -> Ticket {
        let conn = self.answered_at(conn, frame);
        let id = frame.id;
        self.jobs.ticket(Asked::Admin { conn, id, what })
    }

    fn list(&mut self, ask: &Value, whole: bool) -> Result<Look, Refused> {
        Ok(Look::List {
            filter: self.filter_of(ask)?,
            after: self.after(ask)?,
            limit: limit_of(ask),
            whole,
        })
    }

    /// Which jobs run, only the core knows. In order of their ids.
    fn running(&self, filter: &Filter) -> Result<Vec<&Job>, Refused> {
        if filter.error.is_some() || filter.fingerprint.is_some() {
            return Err(Refused::invalid("jobs that run are not found by an error"));
        }
        let held = self.jobs.held.iter();
        let runs = held.filter(|(task, held)| self.core.is_running(*task) && !held.acked);
        let mut running: Vec<&Job> = runs
            .map(|(_, held)| &held.job)
            .filter(|job| means(filter, job))
            .collect();
        running.sort_unstable_by_key(|job| job.id);
        Ok(running)
    }

    fn list_running(&mut self, ask: &Value) -> Answer {
        let (after, limit) = (self.after(ask)?, limit_of(ask));
        let filter = self.filter_of(ask)?;
        let mut running = self.running(&filter)?;
        running.retain(|job| after.is_none_or(|after| job.id > after));
        let next = running.get(limit).map(|_| running[limit - 1].id);
        running.truncate(limit);
        let jobs: Vec<Value> = running
            .into_iter()
            .map(|job| job_json(self, &view_of(job)))
            .collect();
        let next = next.map(|id| self.jobs.uuid(id).to_string());
        Ok(Some(json!({"jobs": jobs, "next": next})))
    }

    fn count_running(&mut self, ask: &Value) -> Answer {
        let filter = self.filter_of(ask)?;
        Ok(Some(json!({"count": self.running(&filter)?.len()})))
    }

    fn change_jobs(&mut self, conn: ConnId, frame: &Frame<'_>, op: &str, ask: &Value) -> Answer {
        let change = self.change_of(op, ask)?;
        let which = self.which(ask)?;
        let cancel = change == Change::Cancel;
        if let Which::One(job) = &which
            && !cancel
            && self.runs(*job)
        {
            let text = "the job runs: wait for its end, or cancel it first";
            return Err(Refused(Status::FAILED_PRECONDITION, text.to_owned()));
        }
        if ask["state"] == "running" && matches!(which, Which::Many(_)) {
            return match cancel {
                true => self.cancel_running(conn, frame, ask),
                false => Err(Refused::invalid(format!(
                    "{op} does not reach jobs that run"
                ))),
            };
        }
        let reach = match change {
            // Whoever names a state in which jobs wait does not mean those that run.
            Change::Cancel if ask["state"].is_string() || ask["states"].is_array() => {
                Reach::CancelWaiting
            }
            Change::Cancel => Reach::Cancel,
            Change::Move { to } => Reach::Move {
                to,
                alone: matches!(which, Which::One(_)),
            },
            Change::Suspend => Reach::Suspend {
                alone: matches!(which, Which::One(_)),
            },
            Change::Release => Reach::Release,
            _ => Reach::None,
        };
        let ticket = self.admin_ticket(conn, frame, Operator::Changed(reach));
        self.jobs.ask(Ask::Change {
            ticket,
            which,
            change,
        });
        Ok(None)
    }

    fn change_of(&mut self, op: &str, ask: &Value) -> Result<Change, Refused> {
        Ok(match op {
            "retry" => Change::Retry {
                per_second: match ask["per_second"].as_u64() {
                    Some(0) => return Err(Refused::invalid("'per_second' is at least 1")),
                    rate => rate.map(|rate| rate.min(1_000_000) as u32),
                },
            },
            "cancel" => Change::Cancel,
            "discard" => Change::Discard,
            "release" => Change::Release,
            "suspend" => Change::Suspend,
            "move" => Change::Move {
                to: self.queue_named(text_of(ask, "to")?)?,
            },
            "edit" => Change::Edit {
                body: Bytes {
                    codec: ask["codec"].as_u64().unwrap_or(u64::from(Codec::JSON.0)) as u8,
                    bytes: text_of(ask, "body")?.as_bytes().to_vec(),
                },
            },
            op => {
                return Err(Refused::invalid(format!(
                    "stoker.job has no operation '{op}'; there is: list, show, count, groups, retry, \
                     cancel, discard, suspend, release, move, edit, export, import"
                )));
            }
        })
    }

    fn cancel_running(&mut self, conn: ConnId, frame: &Frame<'_>, ask: &Value) -> Answer {
        let filter = self.filter_of(ask)?;
        let running: Vec<JobId> = self.running(&filter)?.iter().map(|job| job.id).collect();
        let conn = self.answered_at(conn, frame);
        self.cancel_held(conn, frame.id, 0, running, Reach::Cancel);
        Ok(None)
    }

    /// The one job of a request, or all that its filter means.
    fn which(&mut self, ask: &Value) -> Result<Which, Refused> {
        if ask["id"].is_string() {
            return self.job_of(ask).map(Which::One);
        }
        let filter = self.filter_of(ask)?;
        if filter == Filter::default() && ask["all"] != true {
            return Err(Refused::invalid(
                "name a job by 'id', or many by 'queue', 'state', 'type', 'error', 'fingerprint', 'key' \
                 or 'older_ms', or all by 'all': true",
            ));
        }
        Ok(Which::Many(filter))
    }

    fn filter_of(&mut self, ask: &Value) -> Result<Filter, Refused> {
        let text = |key: &str| ask[key].as_str().map(str::to_owned);
        let queue = match ask["queue"].as_str() {
            Some(name) => Some(self.queue_no(name)?),
            None => None,
        };
        let states = states_of(ask)?;
        let fingerprint = match ask["fingerprint"].as_str() {
            Some(text) => Some(u64::from_str_radix(text, 16).map_err(|_| {
                Refused::invalid(format!(
                    "'{text}' is no fingerprint (16 hexadecimal digits)"
                ))
            })?),
            None => None,
        };
        let older = ask["older_ms"].as_u64();
        Ok(Filter {
            queue,
            states,
            kind: text("type"),
            error: text("error"),
            fingerprint,
            before_ms: older.map(|older| wall_ms().saturating_sub(older)),
            key: text("key").map(|key| key.into_bytes().into()),
            owner: None,
        })
    }

    /// A known queue's number in the store.
    fn queue_no(&mut self, name: &str) -> Result<QueueNo, Refused> {
        if self.core.find_queue(Kind::Jobs, name).is_none() {
            return Err(Refused::not_found(self.unknown_queue(Kind::Jobs, name)));
        }
        // One that a worker announced may not have been opened in the store yet.
        self.queue_named(name)
    }

    /// A queue that jobs may go to: known, or announced by a worker.
    pub(super) fn queue_named(&mut self, name: &str) -> Result<QueueNo, Refused> {
        let unknown = Refused::not_found(self.unknown_queue(Kind::Jobs, name));
        let id = self.core.resolve_job(name).map_err(|_| unknown)?;
        let queue = self.known_queue(id);
        Ok(self
            .jobs
            .queue(queue)
            .map(|queue| queue.no)
            .unwrap_or_default())
    }

    fn job_of(&self, ask: &Value) -> Result<JobId, Refused> {
        let uuid = parse_id(text_of(ask, "id")?)?;
        let missing = || Refused::not_found(format!("there is no job {uuid} (any more)"));
        self.jobs.store.ids().number(uuid).ok_or_else(missing)
    }

    fn after(&self, ask: &Value) -> Result<Option<JobId>, Refused> {
        let Some(id) = ask["after"].as_str() else {
            return Ok(None);
        };
        let number = self.jobs.store.ids().number(parse_id(id)?);
        let foreign = || Refused::invalid(format!("'{id}' is no id of this store"));
        number.map(Some).ok_or_else(foreign)
    }

    /// The store has changed what an operator meant.
    pub(crate) fn answer_changed(
        &mut self,
        conn: ConnId,
        id: u32,
        result: Result<(u64, u64), Trouble>,
    ) {
        match result {
            // Jobs in the core's hands that this does not reach: they run, or are about to.
            Ok((count, held)) => {
                let mut value = json!({"count": count});
                if held > 0 {
                    value["held"] = held.into();
                }
                self.answer_json(conn, id, &value);
            }
            Err(trouble) => self.answer_trouble(conn, id, &trouble),
        }
    }

    fn answer_trouble(&mut self, conn: ConnId, id: u32, trouble: &Trouble) {
        let (status, text) = refusal_of(trouble);
        self.status(conn, id, status, &text, None);
    }

    /// The store has found what somebody looked for.
    pub(crate) fn answer_found(
        &mut self,
        conn: ConnId,
        id: u32,
        what: Operator,
        found: Result<Found, Trouble>,
    ) {
        let found = match found {
            Ok(Found::One(None)) => Err(Trouble::NotFound),
            found => found,
        };
        match found {
            Ok(found) => match (what, &found) {
                (Operator::Note(number), Found::One(Some(view))) => {
                    self.answer_note(conn, id, view, number);
                }
                _ => {
                    let value = self.found_json(what, found);
                    self.answer_json(conn, id, &value);
                }
            },
            Err(trouble) => self.answer_trouble(conn, id, &trouble),
        }
    }

    fn answer_note(&mut self, conn: ConnId, id: u32, view: &View, number: u64) {
        let history = view.whole.as_deref().map(|whole| whole.history.as_slice());
        let history = history.unwrap_or_default();
        let note = usize::try_from(number - 1)
            .ok()
            .and_then(|at| history.get(at));
        match note.map(whole_note_json) {
            Some(note) => self.answer_json(conn, id, &note),
            None => {
                let text = format!("its history has {}", counted(history.len() as u64, "line"));
                self.status(conn, id, Status::NOT_FOUND, &text, None);
            }
        }
    }

    fn found_json(&self, what: Operator, found: Found) -> Value {
        match found {
            Found::One(None) => Value::Null,
            Found::One(Some(view)) if what == Operator::Export => {
                json!({"jobs": [self.export_json(&view)], "next": null})
            }
            Found::One(Some(view)) => job_json(self, &view),
            Found::Count(count) => json!({"count": count}),
            Found::List { jobs, more } => {
                let last = jobs.last().filter(|_| more).map(|view| view.id);
                let next = last.map(|id| self.jobs.uuid(id).to_string());
                let jobs = jobs.iter().map(|view| match what {
                    Operator::Export => self.export_json(view),
                    _ => job_json(self, view),
                });
                let shown = jobs
                    .filter(|job| what != Operator::ListReady || job["state"] == "ready")
                    .collect::<Vec<Value>>();
                json!({"jobs": shown, "next": next})
            }
            Found::Groups(groups) => {
                let groups = groups.iter().map(|group| {
                    let queue = self.jobs.queue_id(group.queue);
                    json!({
                        "fingerprint": format!("{:016x}", group.fingerprint),
                        "count": group.count,
                        "queue": queue.map(|queue| self.core.queue(queue).name),
                        "first_at": crate::clock::rfc3339(group.first_ms),
                        "last_at": crate::clock::rfc3339(group.last_ms),
                        "job": self.jobs.uuid(group.job).to_string(),
                        "error": error_json(&group.error, false),
                    })
                });
                json!({"groups": groups.collect::<Vec<Value>>()})
            }
        }
    }
}

/// Whether a filter means a job that the core holds.
fn means(filter: &Filter, job: &Job) -> bool {
    let kind = job
        .options
        .as_deref()
        .and_then(|options| options.kind.as_deref());
    filter.queue.is_none_or(|queue| queue == job.queue)
        && filter
            .kind
            .as_deref()
            .is_none_or(|wanted| kind == Some(wanted))
        && filter.key.as_ref().is_none_or(|key| *key == job.key)
        && filter
            .before_ms
            .is_none_or(|before| job.id.made_ms() < before)
}

/// The states that a request means: the one in `state`, or those in `states`.
fn states_of(ask: &Value) -> Result<States, Refused> {
    let listed = ask["states"].as_array().map(Vec::as_slice);
    let one = std::slice::from_ref(&ask["state"]);
    let mut states = States::default();
    for name in listed.unwrap_or(one).iter().filter_map(Value::as_str) {
        states = states.with(state_of(name)?);
    }
    Ok(states)
}

pub(super) fn state_of(name: &str) -> Result<State, Refused> {
    state_named(name).ok_or_else(|| {
        let [ready, others @ ..] = State::ALL.map(State::name);
        let others = others.join(", ");
        Refused::invalid(format!(
            "there is no state '{name}'; there is: {ready}, running, {others}"
        ))
    })
}

/// What is to be shown of a job: all, or one line of its history.
fn show_of(ask: &Value) -> Result<Operator, Refused> {
    let note = &ask["note"];
    let number = note.as_u64().filter(|number| *number > 0);
    match (note.is_null(), number) {
        (true, _) => Ok(Operator::Show),
        (false, Some(number)) => Ok(Operator::Note(number)),
        (false, None) => Err(Refused::invalid(
            "'note' is the number of a line of its history, from 1",
        )),
    }
}

fn limit_of(ask: &Value) -> usize {
    ask["limit"]
        .as_u64()
        .map_or(PAGE, |limit| (limit as usize).clamp(1, PAGE_MAX))
}

fn parse_id(text: &str) -> Result<Uuid, Refused> {
    text.parse()
        .map_err(|_| Refused::invalid(format!("'{text}' is no job id")))
}
