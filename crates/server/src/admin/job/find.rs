//! Operations that query jobs: show, list, export, groups, count.

use super::super::{Answered, Caller, Handle};
use super::change::running_job_rejection;
use crate::plane::Plane;
use crate::sources::jobs::{OperatorReply, applicable};
use stoker_api::job::{self, State};
use stoker_store::{Filter, Query, States, StoreRequest};

impl Handle for job::Show {
    fn handle(self, plane: &mut Plane, caller: Caller) -> Answered<job::Shown> {
        let job = plane.job_of(self.id)?;
        let (what, query) = match self.note {
            Some(number) => {
                let number = number.0;
                (
                    OperatorReply::Note(number),
                    Query::HistoryEntry { job, number },
                )
            }
            None => (OperatorReply::Show, Query::One(job)),
        };
        plane.query(caller, what, query);
        Ok(None)
    }
}

impl Handle for job::List {
    fn handle(self, plane: &mut Plane, caller: Caller) -> Answered<job::Jobs> {
        let filter = plane.filter_of(&self.filter)?;
        if self.filter.state == Some(State::Running) {
            return plane.list_running(&filter, &self).map(Some);
        }
        let names_states = self.filter.state.is_some() || !self.filter.states.is_empty();
        let what = match names_states {
            true => OperatorReply::ListWithoutRunning,
            false => OperatorReply::List,
        };
        let query = Query::List {
            filter,
            after: plane.start_of_page(&self.page)?,
            limit: self.page.limit(),
            newest: self.newest,
            whole: false,
        };
        plane.query(caller, what, query);
        Ok(None)
    }
}

impl Handle for job::Export {
    fn handle(self, plane: &mut Plane, caller: Caller) -> Answered<job::Exports> {
        let query = match self.id {
            Some(id) => Query::One(plane.job_of(id)?),
            None => Query::List {
                filter: plane.filter_of(&self.filter)?,
                after: plane.start_of_page(&self.page)?,
                limit: self.page.limit(),
                newest: false,
                whole: true,
            },
        };
        plane.query(caller, OperatorReply::Export, query);
        Ok(None)
    }
}

impl Handle for job::Groups {
    fn handle(self, plane: &mut Plane, caller: Caller) -> Answered<job::GroupList> {
        let filter = plane.filter_of(&self.filter)?;
        let limit = self.limit.map_or(100, |limit| limit.0 as usize);
        plane.query(
            caller,
            OperatorReply::Groups,
            Query::Groups { filter, limit },
        );
        Ok(None)
    }
}

impl Handle for job::Count {
    fn handle(self, plane: &mut Plane, caller: Caller) -> Answered<job::Counted> {
        if let (Some(id), Some(change)) = (self.id, self.of) {
            let job = plane.job_of(id)?;
            plane.check_running(job, change)?;
            plane.query(caller, OperatorReply::Fits(change), Query::One(job));
            return Ok(None);
        }
        let filter = plane.filter_of(&self.filter)?;
        if self.filter.state == Some(State::Running) {
            if self.of.is_some_and(|change| change != job::Change::Cancel) {
                return Err(running_job_rejection());
            }
            let count = plane.running(&filter).len() as u64;
            return Ok(Some(job::Counted { count }));
        }
        let Some(filter) = narrow_filter(filter, self.of) else {
            return Ok(Some(job::Counted { count: 0 }));
        };
        plane.query(caller, OperatorReply::Count, Query::Count(filter));
        Ok(None)
    }
}

/// Narrows a filter to the states in which a change is possible; `None` if no job can match.
fn narrow_filter(filter: Filter, change: Option<job::Change>) -> Option<Filter> {
    let Some(change) = change else {
        return Some(filter);
    };
    let reached = applicable(change).filter(|state| filter.states.contains(*state));
    let states = reached.fold(States::default(), States::with);
    // An empty set of states would match every state.
    (states != States::default()).then_some(Filter { states, ..filter })
}

impl Plane {
    fn query(&mut self, caller: Caller, what: OperatorReply, query: Query) {
        let ticket = self.create_admin_ticket(caller, what);
        self.jobs.send(StoreRequest::Query { ticket, query });
    }
}
