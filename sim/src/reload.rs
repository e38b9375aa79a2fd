//! Reloads: the configuration file changes, one key at a time, and an operator requests a reload.

use crate::agenda::PlannedEvent;
use crate::dice::Dice;
use crate::request_kind::RequestKind;
use crate::setup::{SectionEdit, Setup};
use crate::world::World;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use stoker_os::{sim, steady};
use stoker_server::config::Launch;

pub(crate) const FILE: &str = "/stoker.toml";
/// After this time, what was written before the file changed has been read, on both sides.
const SETTLE_TIME: Duration = Duration::from_secs(1);
/// A reload that was not answered is requested again after this time.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// The new content of one section of the file.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    /// The number of the edit.
    no: u64,
    to: SectionEdit,
    /// The file has the new section.
    is_written: bool,
    /// Queues whose limit may change, because it is edited or because an operator's overrides may no longer fit and are
    /// dropped.
    limits: Vec<usize>,
}

impl Edit {
    fn draw(no: u64, dice: &mut Dice, setup: &Setup) -> Self {
        let (to, key) = SectionEdit::draw(dice, setup);
        let limits = match &to {
            SectionEdit::Queue(at, _) if ["limit", "reserve", "keep"].contains(&key) => vec![*at],
            SectionEdit::Pool(pool, _) if key == "workers" => (0..setup.queues.len())
                .filter(|at| setup.queues[*at].pool == *pool)
                .collect(),
            _ => Vec::new(),
        };
        Self {
            no,
            to,
            is_written: false,
            limits,
        }
    }
}

impl World {
    /// An operator edits the file. From now on either the old or the new value may apply.
    pub(crate) fn edit_file(&mut self) {
        if self.edit.is_some() {
            return;
        }
        let setup = self.setup.clone();
        self.edits += 1;
        let no = self.edits;
        let edit = Edit::draw(no, self.dice("operator"), &setup);
        Rc::make_mut(&mut self.setup).begin_change(&edit.to);
        if let SectionEdit::Service(at, _) = &edit.to
            && self.setup.services[*at].is_idempotent.known().is_none()
        {
            self.ledger.calls.idempotence_changes(*at);
        }
        self.ledger.sizes.forget();
        for queue in &edit.limits {
            self.ledger.overrides.file_limit_changes(*queue);
        }
        self.edit = Some(edit);
        self.agenda
            .plan(steady() + SETTLE_TIME, PlannedEvent::FileChanges);
    }

    /// Whether an edit that is under way may change the limit of this queue.
    pub(crate) fn may_edit_limit(&self, queue: usize) -> bool {
        self.edit
            .as_ref()
            .is_some_and(|edit| edit.limits.contains(&queue))
    }

    pub(crate) fn write_file(&mut self) {
        let Some(edit) = &mut self.edit else { return };
        edit.is_written = true;
        Rc::make_mut(&mut self.setup).write_section(&edit.to);
        sim::put_file(Path::new(FILE), self.setup.text().into_bytes());
        self.request_reload();
    }

    /// Requests a reload until one is answered. A reload of all pools makes the server read the file as well.
    pub(crate) fn request_reload(&mut self) {
        let Some(edit) = self.edit.as_ref().filter(|edit| edit.is_written) else {
            return;
        };
        let kind = RequestKind::Reload(edit.no);
        if self.draining.is_none()
            && let Some(client) = &mut self.clients[0]
            && !client.requests.open.values().any(|open| *open == kind)
        {
            let request = serde_json::json!({"op": "reload"});
            client.operate(kind, "stoker.pool", &request);
            self.ledger.sizes.forget();
        }
        self.agenda
            .plan(steady() + RETRY_INTERVAL, PlannedEvent::Reloads);
    }

    /// The server has reloaded the file. The new value applies once everything that was written before has been read.
    pub(crate) fn plan_reload_applies(&mut self, edit: u64) {
        self.agenda
            .plan(steady() + SETTLE_TIME, PlannedEvent::ReloadApplies(edit));
    }

    /// A server starts: if the file was reloaded since it was last edited, it is started with what the file says.
    pub(crate) fn check_reload_is_kept(&self) {
        if self.ledger.reloaded_edit != Some(self.edits) || self.edit.is_some() {
            return;
        }
        let unlike = Launch::keys_unlike_file(&self.angel.text, &self.setup.text());
        let unlike = unlike.expect("the configuration is valid");
        assert!(
            unlike.is_empty(),
            "a server is started without what was reloaded before; left: {unlike:?}"
        );
    }

    /// The new value of this edit applies from now on.
    pub(crate) fn apply_reload(&mut self, no: u64) {
        let Some(edit) = self.edit.take_if(|edit| edit.no == no) else {
            return;
        };
        let setup = Rc::make_mut(&mut self.setup);
        setup.apply_change(&edit.to);
        if let SectionEdit::Queue(at, to) = edit.to {
            let limit = to.section.number("limit", u64::MAX);
            if self.ledger.overrides.apply_file_limit(at, limit) {
                setup.queues[at].limit.set_to(&to.limit);
            }
        }
    }
}
