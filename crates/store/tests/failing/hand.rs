//! Uses a store as a server does, through any trouble.

mod events;
mod trouble;

use crate::ledger::Ledger;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stoker_store::{
    Driver, Filter, Found, JobId, Query, QueueNo, QueuePolicy, SqliteOptions, SqliteStore, State,
    StoreError, StoreEvent, StoreRequest, Ticket, Trouble,
};

pub(crate) const START: u64 = 1_800_000_000_000;

/// How often something is asked that fails again and again. The trouble ends after the first time.
pub(crate) const TRIES: u32 = 5;

/// How long anything may take, seconds.
const PATIENCE: f64 = 20.0;

pub(crate) struct Hand {
    path: PathBuf,
    store: Option<SqliteStore>,
    clock: Arc<AtomicU64>,
    pub(crate) ledger: Ledger,
    /// The file that ends the trouble.
    heal: PathBuf,
    tickets: u64,
    answers: BTreeMap<u64, StoreEvent>,
    /// Tickets of which nobody knew for a while what became.
    in_doubt: BTreeSet<u64>,
    /// The store has said that it can't write.
    failing: Option<Trouble>,
    is_in_trouble: bool,
    /// Something could not be read, and is tried again.
    was_damaged: bool,
    probes: u32,
    /// What a scheduler holds, by what the jobs are called.
    loaded: BTreeMap<String, JobId>,
    /// What was told of each job that was accepted.
    states: BTreeMap<String, State>,
    accepted: BTreeSet<String>,
    ids: BTreeMap<String, JobId>,
    /// Whether there are more lanes, once that is told.
    lanes: Option<bool>,
}

impl Hand {
    pub(crate) fn new(path: &Path, heal: &Path, ledger: Ledger) -> Self {
        Self {
            path: path.to_owned(),
            store: None,
            clock: Arc::new(AtomicU64::new(START)),
            ledger,
            heal: heal.to_owned(),
            tickets: 0,
            answers: BTreeMap::new(),
            in_doubt: BTreeSet::new(),
            failing: None,
            is_in_trouble: false,
            was_damaged: false,
            probes: 0,
            loaded: BTreeMap::new(),
            states: BTreeMap::new(),
            accepted: BTreeSet::new(),
            ids: BTreeMap::new(),
            lanes: None,
        }
    }

    /// Opens the store. Where that fails it must be for the disk's sake, and go well once the disk does.
    pub(crate) fn open(&mut self) {
        for _ in 0..TRIES {
            match self.try_to_open() {
                Ok(()) => return,
                Err(error) if error.is_temporary() => self.ledger.note(&error.to_string()),
                Err(error @ StoreError::Damaged { .. }) => self.ledger.damage(&error.to_string()),
                Err(error) => self.ledger.fault(&format!("opening: {error}")),
            }
            self.end_trouble();
        }
        panic!("the store can't be opened");
    }

    pub(crate) fn try_to_open(&mut self) -> Result<(), StoreError> {
        let now = self.clock.clone();
        let clock: stoker_store::Clock = Arc::new(move || now.load(Ordering::SeqCst));
        let options = SqliteOptions {
            clock: clock.clone(),
            steady: clock,
            ..SqliteOptions::default()
        };
        self.store = Some(SqliteStore::open(&self.path, options)?);
        Ok(())
    }

    /// Closes the store as a server does that was asked to end.
    pub(crate) fn close(&mut self) {
        let mut events = Vec::new();
        let closed = self.store().close(&mut events);
        if let Err(error) = closed {
            self.ledger.note(&format!("closing: {error}"));
        }
        for event in events {
            self.take(event);
        }
        self.store = None;
        self.failing = None;
        self.loaded.clear();
        self.end_trouble();
    }

    /// Ends without a word.
    pub(crate) fn crash(&mut self) {
        self.store = None;
        self.failing = None;
        self.is_in_trouble = false;
        self.loaded.clear();
    }

    pub(crate) fn queue(&mut self, name: &str, policy: QueuePolicy) -> QueueNo {
        self.store().open_queue(name, policy).queue
    }

    pub(crate) fn store(&mut self) -> &mut SqliteStore {
        self.store.as_mut().unwrap()
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.load(Ordering::SeqCst)
    }

    pub(crate) fn advance(&mut self, ms: u64) {
        self.clock.fetch_add(ms, Ordering::SeqCst);
        self.settle();
        self.settle();
    }

    pub(crate) fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets, 1)
    }

    pub(crate) fn request(&mut self, request: StoreRequest) {
        self.store().send(request);
    }

    /// Waits for what a ticket is answered, and gets over the trouble that comes meanwhile.
    pub(crate) fn answer(&mut self, ticket: Ticket) -> StoreEvent {
        self.wait("an answer", |hand| hand.answers.remove(&ticket.0))
    }

    pub(crate) fn wait<T>(
        &mut self,
        what: &str,
        mut is_there: impl FnMut(&mut Self) -> Option<T>,
    ) -> T {
        loop {
            self.receive();
            if let Some(it) = is_there(self) {
                return it;
            }
            if self.failing.is_some() && !self.is_in_trouble {
                self.get_over_trouble();
                continue;
            }
            self.sleep(what);
        }
    }

    fn sleep(&mut self, what: &str) {
        let limit = stoker_testkit::limit(PATIENCE);
        let timeout = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        let store = self.store.as_ref().unwrap();
        let wake = store.wake().unwrap();
        let ready = poll(&mut [PollFd::new(&wake, PollFlags::IN)], Some(&timeout)).unwrap();
        assert!(ready > 0, "{what} never came");
    }

    fn receive(&mut self) {
        loop {
            let mut events = Vec::new();
            self.store().flush();
            self.store().receive(&mut events);
            if events.is_empty() {
                return;
            }
            for event in events {
                self.take(event);
            }
        }
    }

    /// A job was told to be there, in this state.
    pub(crate) fn is(&mut self, label: &str, state: State) {
        self.accepted.insert(label.to_owned());
        self.states.insert(label.to_owned(), state);
        self.ledger.is(label, state);
    }

    /// A job was told not to be there.
    pub(crate) fn absent(&mut self, label: &str) {
        self.states.remove(label);
        self.ledger.absent(label);
    }

    /// A job's time is over.
    pub(crate) fn either(&mut self, label: &str) {
        self.states.remove(label);
        self.ledger.either(label);
    }

    pub(crate) fn know(&mut self, label: &str, id: JobId) {
        self.ids.insert(label.to_owned(), id);
    }

    pub(crate) fn id(&self, label: &str) -> JobId {
        self.ids[label]
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path.with_extension("db-wal")
    }

    pub(crate) fn is_well(&self) -> bool {
        self.failing.is_none()
    }

    pub(crate) fn heal(&self) -> &Path {
        &self.heal
    }

    /// From here on the store's calls count.
    pub(crate) fn arm(&self) {
        std::fs::write(self.heal.with_file_name("arm"), "").unwrap();
    }

    pub(crate) fn is_answered(&self, ticket: Ticket) -> bool {
        self.answers.contains_key(&ticket.0)
    }

    /// Waits until all that was asked is done and told.
    pub(crate) fn settle(&mut self) {
        let nothing = Filter {
            key: Some(b"no such tenant"[..].into()),
            ..Filter::default()
        };
        self.query(Query::Count(nothing));
    }

    pub(crate) fn query(&mut self, query: Query) -> Found {
        for _ in 0..TRIES {
            let ticket = self.ticket();
            let query = query.clone();
            self.request(StoreRequest::Query { ticket, query });
            match self.answer(ticket) {
                StoreEvent::Found {
                    found: Ok(found), ..
                } => return found,
                StoreEvent::Found {
                    found: Err(trouble),
                    ..
                } => self.check(&trouble),
                event => panic!("{event:?}"),
            }
            self.end_trouble();
        }
        panic!("{query:?} is never answered");
    }
}
