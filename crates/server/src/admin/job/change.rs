//! Operations that change jobs: retry, cancel, discard, suspend, release, move, edit.

use super::super::{Answered, Caller, Handle, Rejected};
use crate::plane::Plane;
use crate::sources::jobs::{IS_RUNNING, LoadedEffect, OperatorReply};
use stoker_api::job::{self, Changed, State, Target};
use stoker_store::{Bytes, Change, JobId, Selection, StoreRequest};
use stoker_wire::{Codec, Status};

impl Handle for job::Retry {
    fn handle(self, plane: &mut Plane, caller: Caller) -> Answered<Changed> {
        let per_second = self.per_second.map(|rate| rate.0 as u32);
        plane.change_jobs(caller, &self.target, Change::Retry { per_second })
    }
}

impl Handle for job::Cancel {
    fn handle(self, plane: &mut Plane, caller: Caller) -> Answered<Changed> {
        plane.change_jobs(caller, &self.target, Change::Cancel)
    }
}

impl Handle for job::Discard {
    fn handle(self, plane: &mut Plane, caller: Caller) -> Answered<Changed> {
        plane.change_jobs(caller, &self.target, Change::Discard)
    }
}

impl Handle for job::Suspend {
    fn handle(self, plane: &mut Plane, caller: Caller) -> Answered<Changed> {
        plane.change_jobs(caller, &self.target, Change::Suspend)
    }
}

impl Handle for job::Release {
    fn handle(self, plane: &mut Plane, caller: Caller) -> Answered<Changed> {
        plane.change_jobs(caller, &self.target, Change::Release)
    }
}

impl Handle for job::Move {
    fn handle(self, plane: &mut Plane, caller: Caller) -> Answered<Changed> {
        let to = plane.queue_named(&self.to.0)?;
        plane.change_jobs(caller, &self.target, Change::Move { to })
    }
}

impl Handle for job::Edit {
    fn handle(self, plane: &mut Plane, caller: Caller) -> Answered<Changed> {
        let codec = self.codec.map_or(Codec::JSON.0, |codec| codec.0 as u8);
        let bytes = self.body.into_bytes();
        let body = Bytes { codec, bytes };
        let id = Some(self.id);
        let target = Target {
            id,
            ..Target::default()
        };
        plane.change_jobs(caller, &target, Change::Edit { body })
    }
}

impl Plane {
    /// Rejects a change other than a cancellation for a job that is running.
    pub(super) fn check_running(&self, job: JobId, change: job::Change) -> Result<(), Rejected> {
        if change == job::Change::Cancel || !self.is_job_running(job) {
            return Ok(());
        }
        Err(Rejected::new(Status::FAILED_PRECONDITION, IS_RUNNING))
    }

    fn change_jobs(
        &mut self,
        caller: Caller,
        target: &Target,
        change: Change,
    ) -> Answered<Changed> {
        let which = self.selection_of(target)?;
        let state = target.filter.state;
        match &which {
            Selection::One(job) => self.check_running(*job, kind_of(&change))?,
            Selection::Many(filter) if state == Some(State::Running) => {
                if change != Change::Cancel {
                    return Err(running_job_rejection());
                }
                self.cancel_running(caller, filter);
                return Ok(None);
            }
            Selection::Many(_) | Selection::Loaded(_) => {}
        }
        let alone = matches!(which, Selection::One(_));
        let names_states = state.is_some() || !target.filter.states.is_empty();
        let effect = loaded_effect(&change, alone, names_states);
        let ticket = self.create_admin_ticket(caller, OperatorReply::Changed(effect));
        self.jobs.send(StoreRequest::Change {
            ticket,
            which,
            change,
        });
        Ok(None)
    }
}

pub(super) fn running_job_rejection() -> Rejected {
    Rejected::invalid(
        "running jobs can only be cancelled: wait for their end, or name other states",
    )
}

/// What a change does to loaded jobs.
fn loaded_effect(change: &Change, alone: bool, names_states: bool) -> LoadedEffect {
    match change {
        // A request that names states of waiting jobs does not mean those that run.
        Change::Cancel if names_states => LoadedEffect::CancelWaiting,
        Change::Cancel if alone => LoadedEffect::CancelOne,
        Change::Cancel => LoadedEffect::Cancel,
        Change::Move { to } => LoadedEffect::Move { to: *to, alone },
        Change::Suspend => LoadedEffect::Suspend { alone },
        Change::Release => LoadedEffect::Release,
        Change::Retry { .. } | Change::Discard | Change::Edit { .. } => LoadedEffect::None,
    }
}

fn kind_of(change: &Change) -> job::Change {
    match change {
        Change::Retry { .. } => job::Change::Retry,
        Change::Cancel => job::Change::Cancel,
        Change::Discard => job::Change::Discard,
        Change::Move { .. } => job::Change::Move,
        Change::Edit { .. } => job::Change::Edit,
        Change::Suspend => job::Change::Suspend,
        Change::Release => job::Change::Release,
    }
}
