//! The store alone, over a disk that fails at the calls that a test names.

mod reading;
mod writing;

use crate::storing::FILE;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stoker_os::sim::vfs::{Call, Errno, Fault, Kind};
use stoker_os::sim::{self, Disk};
use stoker_os::steady;
use stoker_store::{
    Ask, Change, Changed, Driver, Found, Job, JobId, Keep, Look, NewJob, Part, Pushed, QueueNo,
    SqliteOptions, SqliteStore, State, StoreError, Ticket, Told, Trouble, Which,
};

const PARTS: [Part; 3] = [Part::Writer, Part::Reader, Part::Folder];
/// Within so long the store has tried again what failed.
const LONGEST: Duration = Duration::from_secs(70);

/// Calls of one sort that fail: the first is number 0.
struct Failing {
    kind: Kind,
    seen: u32,
    fails: Box<dyn Fn(u32) -> bool + Send>,
}

struct Alone {
    disk: Disk,
    store: Option<SqliteStore>,
    queue: QueueNo,
    tickets: u64,
    told: Vec<Told>,
}

impl Alone {
    fn new() -> Self {
        sim::reset(1_800_000_000_000);
        let disk = Disk::new(1);
        sim::set_disk(Some(disk.clone()));
        let mut alone = Self {
            disk,
            store: None,
            queue: QueueNo(0),
            tickets: 0,
            told: Vec::new(),
        };
        alone.open().expect("it is made");
        alone
    }

    fn open(&mut self) -> Result<(), StoreError> {
        self.store = None;
        let options = SqliteOptions {
            // Nothing that was read once is in memory for long.
            cache_kib: 16,
            ..SqliteOptions::default()
        };
        let mut store = SqliteStore::open(Path::new(FILE), options)?;
        self.queue = store.open_queue("mails", Keep::default()).queue;
        self.store = Some(store);
        Ok(())
    }

    fn store(&mut self) -> &mut SqliteStore {
        self.store.as_mut().expect("it is open")
    }

    /// From now on these calls on the store's files fail.
    fn fail(&self, kind: Kind, fails: impl Fn(u32) -> bool + Send + 'static) {
        let failing = Arc::new(Mutex::new(Failing {
            kind,
            seen: 0,
            fails: Box::new(fails),
        }));
        self.disk.set_faults(move |call: &Call<'_>| {
            let mut failing = failing.lock().expect("nobody panics here");
            if call.kind != failing.kind {
                return None;
            }
            failing.seen += 1;
            (failing.fails)(failing.seen - 1).then_some(Fault::Error(Errno::IO))
        });
    }

    /// The store does all that it has to do by now.
    fn work(&mut self) {
        self.store().flush();
        loop {
            let due = |store: &SqliteStore, part: &Part| {
                store.time_to_work(*part) == Some(Duration::ZERO)
            };
            let store = self.store.as_mut().expect("it is open");
            let next = PARTS.iter().find(|part| due(store, part));
            if let Some(part) = next {
                store.work(*part);
            }
            let mut told = Vec::new();
            store.hear(&mut told);
            if next.is_none() && told.is_empty() {
                return;
            }
            self.told.extend(told);
            self.store().flush();
        }
    }

    /// The same until it has had time to try again what failed.
    fn wait(&mut self) {
        let until = steady() + LONGEST;
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

    fn ask(&mut self, ask: Ask) {
        self.store().ask(ask);
        self.work();
    }

    /// Asks for a push. What it is answered stands in `told`.
    fn push(&mut self, body: &[u8]) -> Ticket {
        let ticket = self.ticket();
        let job = NewJob {
            queue: self.queue,
            bytes: body.into(),
            ..NewJob::default()
        };
        self.ask(Ask::Push {
            ticket,
            room: true,
            job: Box::new(job),
        });
        ticket
    }

    fn answer(&self, of: Ticket) -> Option<&Pushed> {
        self.told.iter().find_map(|told| match told {
            Told::Pushed { ticket, pushed } if *ticket == of => Some(pushed),
            _ => None,
        })
    }

    fn is_accepted(&self, of: Ticket) -> bool {
        matches!(self.answer(of), Some(Pushed::Accepted { .. }))
    }

    /// An operator changes jobs that the scheduler has given back for it.
    fn change_held(&mut self, jobs: Vec<JobId>, change: Change) -> Ticket {
        let ticket = self.ticket();
        self.ask(Ask::Change {
            ticket,
            which: Which::Held(jobs),
            change,
        });
        ticket
    }

    fn changed(&self, of: Ticket) -> Option<&Result<Changed, Trouble>> {
        self.told.iter().find_map(|told| match told {
            Told::Changed { ticket, result } if *ticket == of => Some(result),
            _ => None,
        })
    }

    fn state(&mut self, job: JobId) -> Option<State> {
        let ticket = self.ticket();
        let look = Look::One(job);
        self.ask(Ask::Look { ticket, look });
        self.told.iter().find_map(|told| match told {
            Told::Found {
                ticket: of,
                found: Ok(Found::One(view)),
            } if *of == ticket => view.as_ref().map(|view| view.state),
            _ => None,
        })
    }

    /// Jobs that were handed over.
    fn handed(&self) -> Vec<&Job> {
        let jobs = self.told.iter().flat_map(|told| match told {
            Told::Pushed {
                pushed: Pushed::Accepted { job: Some(job), .. },
                ..
            } => vec![&**job],
            Told::Refilled { jobs, .. } => jobs.iter().collect(),
            Told::RefilledLanes { lanes, .. } => lanes.iter().flat_map(|lane| &lane.jobs).collect(),
            _ => Vec::new(),
        });
        jobs.collect()
    }
}
