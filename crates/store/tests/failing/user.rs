//! Uses a store like a server, and handles every kind of trouble.

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

/// How often a request that fails is repeated. The trouble ends after the first attempt.
pub(crate) const MAX_TRIES: u32 = 5;

/// How long any operation may take, seconds.
const TIMEOUT_S: f64 = 20.0;

pub(crate) struct StoreUser {
    path: PathBuf,
    store: Option<SqliteStore>,
    clock: Arc<AtomicU64>,
    pub(crate) ledger: Ledger,
    /// The file whose creation ends the trouble.
    heal_file: PathBuf,
    tickets: u64,
    answers: BTreeMap<u64, StoreEvent>,
    /// Tickets whose outcome was in doubt for a while.
    in_doubt: BTreeSet<u64>,
    /// The trouble, if the store has reported that it can't write.
    failing: Option<Trouble>,
    is_in_trouble: bool,
    /// The store has reported that something could not be read, and will retry it.
    was_damaged: bool,
    probes: u32,
    /// The loaded jobs, by their labels.
    loaded: BTreeMap<String, JobId>,
    /// The last reported state of each accepted job, by label.
    states: BTreeMap<String, State>,
    accepted: BTreeSet<String>,
    ids: BTreeMap<String, JobId>,
    /// Whether there are more lanes; set when that is reported.
    lanes: Option<bool>,
}

impl StoreUser {
    pub(crate) fn new(path: &Path, heal_file: &Path, ledger: Ledger) -> Self {
        Self {
            path: path.to_owned(),
            store: None,
            clock: Arc::new(AtomicU64::new(START)),
            ledger,
            heal_file: heal_file.to_owned(),
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

    /// Opens the store. A failure must be caused by the disk, and opening must succeed once the disk works.
    pub(crate) fn open(&mut self) {
        for _ in 0..MAX_TRIES {
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

    /// Closes the store like a server that shuts down.
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

    /// Drops the store without closing it.
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

    /// Waits for the answer to a ticket, and handles trouble meanwhile.
    pub(crate) fn answer(&mut self, ticket: Ticket) -> StoreEvent {
        self.wait("an answer", |user| user.answers.remove(&ticket.0))
    }

    pub(crate) fn wait<T>(
        &mut self,
        what: &str,
        mut find: impl FnMut(&mut Self) -> Option<T>,
    ) -> T {
        loop {
            self.receive();
            if let Some(it) = find(self) {
                return it;
            }
            if self.failing.is_some() && !self.is_in_trouble {
                self.recover_from_trouble();
                continue;
            }
            self.sleep(what);
        }
    }

    fn sleep(&mut self, what: &str) {
        let limit = stoker_testkit::limit(TIMEOUT_S);
        let timeout = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        let store = self.store.as_ref().unwrap();
        let wake = store.wake_fd().unwrap();
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

    /// Records that a job was reported to be in this state.
    pub(crate) fn is(&mut self, label: &str, state: State) {
        self.accepted.insert(label.to_owned());
        self.states.insert(label.to_owned(), state);
        self.ledger.is(label, state);
    }

    /// Records that a job was reported not to exist.
    pub(crate) fn absent(&mut self, label: &str) {
        self.states.remove(label);
        self.ledger.absent(label);
    }

    /// Records that a job has expired, so it may or may not exist.
    pub(crate) fn either(&mut self, label: &str) {
        self.states.remove(label);
        self.ledger.either(label);
    }

    pub(crate) fn record_id(&mut self, label: &str, id: JobId) {
        self.ids.insert(label.to_owned(), id);
    }

    pub(crate) fn id(&self, label: &str) -> JobId {
        self.ids[label]
    }

    pub(crate) fn wal_path(&self) -> PathBuf {
        self.path.with_extension("db-wal")
    }

    pub(crate) fn is_working(&self) -> bool {
        self.failing.is_none()
    }

    pub(crate) fn heal_file(&self) -> &Path {
        &self.heal_file
    }

    /// From here on, the store's system calls are counted.
    pub(crate) fn arm(&self) {
        std::fs::write(self.heal_file.with_file_name("arm"), "").unwrap();
    }

    pub(crate) fn is_answered(&self, ticket: Ticket) -> bool {
        self.answers.contains_key(&ticket.0)
    }

    /// Waits until all requests have been carried out and their events received.
    pub(crate) fn settle(&mut self) {
        let nothing = Filter {
            key: Some(b"no such tenant"[..].into()),
            ..Filter::default()
        };
        self.query(Query::Count(nothing));
    }

    pub(crate) fn query(&mut self, query: Query) -> Found {
        for _ in 0..MAX_TRIES {
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
