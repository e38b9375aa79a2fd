//! The configuration file changes, one key at a time, and the server is told to read it again.

use crate::agenda::What;
use crate::client::About;
use crate::dice::Dice;
use crate::setup::{Queue, Setup};
use crate::world::World;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use stoker_os::{sim, steady};

pub(crate) const FILE: &str = "/stoker.toml";
/// What was written before the file changed has been read after so long, and so has what the server wrote.
const SETTLED: Duration = Duration::from_secs(1);
/// A reload that was not answered is asked for again.
const AGAIN: Duration = Duration::from_secs(5);
/// Keys of a queue that change. The others keep their value for the whole seed.
pub(crate) const KEYS: [&str; 10] = [
    "tries",
    "max_waiting",
    "keep_done",
    "keep_failed",
    "limit",
    "per_key",
    "weight",
    "age_step",
    "keep_payloads",
    "keep_results",
];

/// One queue as the file is to say.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    /// Which of all edits it is.
    no: u64,
    at: usize,
    to: Queue,
    is_written: bool,
    is_of_limit: bool,
}

impl Edit {
    /// One key of one queue has another value, or none any more.
    fn draw(no: u64, dice: &mut Dice, setup: &Setup) -> Self {
        let at = dice.below(setup.queues.len() as u64) as usize;
        let key = *dice.of_all(&KEYS);
        let to = setup.queues[at].with_another(dice, key);
        Self {
            no,
            at,
            to,
            is_written: false,
            is_of_limit: key == "limit",
        }
    }
}

impl World {
    /// Somebody edits the file. From now on either may hold.
    pub(crate) fn edits_file(&mut self) {
        if self.edit.is_some() {
            return;
        }
        let setup = self.setup.clone();
        self.edits += 1;
        let no = self.edits;
        let edit = Edit::draw(no, self.dice("operator"), &setup);
        Rc::make_mut(&mut self.setup).queues[edit.at].may_become(&edit.to);
        if edit.is_of_limit {
            self.ledger.steering.changes_limit(edit.at);
        }
        self.edit = Some(edit);
        self.agenda.plan(steady() + SETTLED, What::FileChanges);
    }

    /// The file is to have another limit of this queue.
    pub(crate) fn edits_limit(&self, queue: usize) -> bool {
        self.edit
            .as_ref()
            .is_some_and(|edit| edit.at == queue && edit.is_of_limit)
    }

    pub(crate) fn file_changes(&mut self) {
        let Some(edit) = &mut self.edit else { return };
        edit.is_written = true;
        let section = edit.to.section.clone();
        Rc::make_mut(&mut self.setup).queues[edit.at].section = section;
        sim::put_file(Path::new(FILE), self.setup.text().into_bytes());
        self.reload();
    }

    /// Until it is answered. Whoever asks for a reload of all has the server read the file as well.
    pub(crate) fn reload(&mut self) {
        let Some(edit) = self.edit.as_ref().filter(|edit| edit.is_written) else {
            return;
        };
        let about = About::Reload(edit.no);
        if self.draining.is_none()
            && let Some(client) = &mut self.clients[0]
            && !client.open.values().any(|open| *open == about)
        {
            let request = serde_json::json!({"op": "reload"});
            client.operate(about, "stoker.pool", &request);
        }
        self.agenda.plan(steady() + AGAIN, What::Reloads);
    }

    /// The server has read the file: once all has been read that was written before, it holds.
    pub(crate) fn is_reloaded(&mut self, edit: u64) {
        self.agenda
            .plan(steady() + SETTLED, What::ReloadHolds(edit));
    }

    pub(crate) fn reload_holds(&mut self, no: u64) {
        if let Some(edit) = self.edit.take_if(|edit| edit.no == no) {
            let limit = edit.to.section.number("limit", u64::MAX);
            let of_file = self.ledger.steering.of_file(edit.at, limit);
            let queue = &mut Rc::make_mut(&mut self.setup).queues[edit.at];
            queue.has_become(&edit.to);
            if of_file {
                queue.limit.is_as(&edit.to.limit);
            }
        }
    }
}
