//! Tests of the store alone, over a disk on which selected calls fail.

mod reading;
mod retention;
mod twins;
mod writing;

use crate::storing::FILE;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stoker_os::sim::vfs::{Call, Errno, Fault, Kind};
use stoker_os::sim::{self, Disk};
use stoker_os::steady;
use stoker_store::{
    Change, Changed, Driver, Found, Job, JobId, NewJob, Part, Pushed, Query, QueueNo, QueuePolicy,
    Selection, SqliteOptions, SqliteStore, State, StoreError, StoreEvent, StoreRequest, Ticket,
    Trouble, View,
};

const PARTS: [Part; 3] = [Part::Writer, Part::Reader, Part::WalCheckpointer];
/// The time within which the store retries everything that has failed.
const RETRY_TIME: Duration = Duration::from_secs(70);

/// The calls of one kind. `fails` decides by the index of a call, counted from 0, whether it fails.
struct Failing {
    kind: Kind,
    seen: u32,
    fails: Box<dyn Fn(u32) -> bool + Send>,
}

struct TestStore {
    disk: Disk,
    store: Option<SqliteStore>,
    queue: QueueNo,
    tickets: u64,
    events: Vec<StoreEvent>,
}

impl TestStore {
    fn new() -> Self {
        sim::reset(1_800_000_000_000);
        let disk = Disk::new(1);
        sim::set_disk(Some(disk.clone()));
        let mut test_store = Self {
            disk,
            store: None,
            queue: QueueNo(0),
            tickets: 0,
            events: Vec::new(),
        };
        test_store.open().expect("the store can be created");
        test_store
    }

    fn open(&mut self) -> Result<(), StoreError> {
        self.reopen()?;
        self.queue = self
            .store()
            .open_queue("mails", QueuePolicy::default())
            .queue;
        Ok(())
    }

    /// Opens the file once more, without any queue.
    fn reopen(&mut self) -> Result<(), StoreError> {
        self.store = None;
        let options = SqliteOptions {
            // A small cache, so that what was read once does not stay in memory.
            cache_kib: 16,
            ..SqliteOptions::default()
        };
        self.store = Some(SqliteStore::open(Path::new(FILE), options)?);
        Ok(())
    }

    fn store(&mut self) -> &mut SqliteStore {
        self.store.as_mut().expect("the store is open")
    }

    /// From now on, calls of this kind on the store's files fail if `fails` returns true for their index.
    fn fail(&self, kind: Kind, fails: impl Fn(u32) -> bool + Send + 'static) {
        let failing = Arc::new(Mutex::new(Failing {
            kind,
            seen: 0,
            fails: Box::new(fails),
        }));
        self.disk.set_faults(move |call: &Call<'_>| {
            let mut failing = failing.lock().expect("no thread panics with the lock");
            if call.kind != failing.kind {
                return None;
            }
            failing.seen += 1;
            (failing.fails)(failing.seen - 1).then_some(Fault::Error(Errno::IO))
        });
    }

    /// The store does all the work that is due.
    fn work(&mut self) {
        self.store().flush();
        loop {
            let due = |store: &SqliteStore, part: &Part| {
                store.time_to_work(*part) == Some(Duration::ZERO)
            };
            let store = self.store.as_mut().expect("the store is open");
            let next = PARTS.iter().find(|part| due(store, part));
            if let Some(part) = next {
                store.work(*part);
            }
            let mut events = Vec::new();
            store.receive(&mut events);
            if next.is_none() && events.is_empty() {
                return;
            }
            self.events.extend(events);
            self.store().flush();
        }
    }

    /// The store works until it has had time to retry everything that failed.
    fn wait(&mut self) {
        let until = steady() + RETRY_TIME;
        while steady() < until {
            self.work();
            sim::advance(steady() + Duration::from_millis(250));
        }
        self.work();
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets, 1)
    }

    fn send(&mut self, request: StoreRequest) {
        self.store().send(request);
        self.work();
    }

    /// Requests a push. The answer is then in `events`.
    fn push(&mut self, body: &[u8]) -> Ticket {
        let ticket = self.ticket();
        let job = NewJob {
            queue: self.queue,
            bytes: body.into(),
            ..NewJob::default()
        };
        self.send(StoreRequest::Push {
            ticket,
            room: true,
            job: Box::new(job),
        });
        ticket
    }

    fn answer(&self, of: Ticket) -> Option<&Pushed> {
        self.events.iter().find_map(|event| match event {
            StoreEvent::Pushed { ticket, pushed } if *ticket == of => Some(pushed),
            _ => None,
        })
    }

    fn is_accepted(&self, of: Ticket) -> bool {
        matches!(self.answer(of), Some(Pushed::Accepted { .. }))
    }

    /// Requests an operator's change of jobs that the scheduler has released for it.
    fn change_loaded(&mut self, jobs: Vec<JobId>, change: Change) -> Ticket {
        let ticket = self.ticket();
        self.send(StoreRequest::Change {
            ticket,
            which: Selection::Loaded(jobs),
            change,
        });
        ticket
    }

    fn changed(&self, of: Ticket) -> Option<&Result<Changed, Trouble>> {
        self.events.iter().find_map(|event| match event {
            StoreEvent::Changed { ticket, result } if *ticket == of => Some(result),
            _ => None,
        })
    }

    fn found_job(&self, of: Ticket) -> Option<View> {
        self.events.iter().find_map(|event| match event {
            StoreEvent::Found {
                ticket,
                found: Ok(Found::One(view)),
            } if *ticket == of => view.as_deref().cloned(),
            _ => None,
        })
    }

    fn state(&mut self, job: JobId) -> Option<State> {
        let ticket = self.ticket();
        let query = Query::One(job);
        self.send(StoreRequest::Query { ticket, query });
        self.found_job(ticket).map(|view| view.state)
    }

    /// The jobs that the store has handed to the scheduler.
    fn loaded_jobs(&self) -> Vec<&Job> {
        let jobs = self.events.iter().flat_map(|event| match event {
            StoreEvent::Pushed {
                pushed: Pushed::Accepted { job: Some(job), .. },
                ..
            } => vec![&**job],
            StoreEvent::Refilled { jobs, .. } => jobs.iter().collect(),
            StoreEvent::RefilledLanes { lanes, .. } => {
                lanes.iter().flat_map(|lane| &lane.jobs).collect()
            }
            _ => Vec::new(),
        });
        jobs.collect()
    }
}
