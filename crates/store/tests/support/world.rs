//! An engine under test, with clocks that the test controls.

#![allow(dead_code, reason = "no test uses all of it")]

use rustix::event::{PollFd, PollFlags, poll};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stoker_store::{
    Change, Changed, Clock, Counts, Driver, Ending, Filter, Found, Job, JobError, JobId,
    MemoryStore, NewJob, Pushed, Query, QueueNo, QueuePolicy, RunCounters, Selection,
    SqliteOptions, SqliteStore, StoreEvent, StoreRequest, Ticket, Trouble, View,
};

/// The time at which every test starts.
pub(crate) const START: u64 = 1_800_000_000_000;

/// An engine, clocks that the test controls, and the events received.
pub(crate) struct World {
    path: Option<PathBuf>,
    clock: Arc<AtomicU64>,
    /// Milliseconds since the start by the steady clock, which `set_clock` does not change.
    passed: Arc<AtomicU64>,
    driver: Option<Box<dyn Driver>>,
    pub(crate) events: Vec<StoreEvent>,
    tickets: u64,
}

impl World {
    pub(crate) fn memory() -> Self {
        Self::new(None)
    }

    pub(crate) fn sqlite() -> Self {
        Self::at(new_dir().join("jobs.db"))
    }

    /// A store on disk at this path. Dropping the world deletes its directory.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self::new(Some(path))
    }

    fn new(path: Option<PathBuf>) -> Self {
        let clock = Arc::new(AtomicU64::new(START));
        let passed = Arc::new(AtomicU64::new(0));
        let mut world = Self {
            path,
            clock,
            passed,
            driver: None,
            events: Vec::new(),
            tickets: 0,
        };
        world.driver = Some(world.open());
        world
    }

    fn open(&self) -> Box<dyn Driver> {
        let now = self.clock.clone();
        let clock: Clock = Arc::new(move || now.load(Ordering::SeqCst));
        let passed = self.passed.clone();
        let steady: Clock = Arc::new(move || START + passed.load(Ordering::SeqCst));
        match &self.path {
            None => Box::new(MemoryStore::new(clock, steady, 64 << 20)),
            Some(path) => {
                let options = SqliteOptions {
                    clock,
                    steady,
                    sync: false,
                    ..SqliteOptions::default()
                };
                Box::new(SqliteStore::open(path, options).unwrap())
            }
        }
    }

    pub(crate) fn driver(&mut self) -> &mut dyn Driver {
        self.driver.as_deref_mut().unwrap()
    }

    /// Whether jobs survive a restart of the engine.
    pub(crate) fn is_durable(&mut self) -> bool {
        self.driver().capabilities().durable
    }

    pub(crate) fn path(&self) -> &PathBuf {
        self.path.as_ref().unwrap()
    }

    /// Closes the store and opens it again.
    pub(crate) fn reopen(&mut self) {
        let mut events = Vec::new();
        self.driver().close(&mut events).unwrap();
        self.events.append(&mut events);
        self.crash();
    }

    /// Drops the store without closing it, and opens it again.
    pub(crate) fn crash(&mut self) {
        drop(self.driver.take());
        self.events.clear();
        self.driver = Some(self.open());
    }

    pub(crate) fn restart(&mut self) {
        self.driver = Some(self.open());
    }

    pub(crate) fn stop(&mut self) {
        drop(self.driver.take());
    }

    /// The time of the steady clock.
    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn steady(&self) -> u64 {
        START + self.passed.load(Ordering::SeqCst)
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.load(Ordering::SeqCst)
    }

    /// Sets the wall clock forward or back by this many milliseconds.
    #[allow(dead_code, reason = "not every test sets it")]
    pub(crate) fn set_clock(&mut self, by: i64) {
        let now = self.now().saturating_add_signed(by);
        self.clock.store(now, Ordering::SeqCst);
        self.settle();
    }

    pub(crate) fn advance(&mut self, ms: u64) {
        self.clock.fetch_add(ms, Ordering::SeqCst);
        self.passed.fetch_add(ms, Ordering::SeqCst);
        self.settle();
    }

    pub(crate) fn queue(&mut self, name: &str) -> QueueNo {
        self.queue_with(name, QueuePolicy::default())
    }

    pub(crate) fn queue_with(&mut self, name: &str, policy: QueuePolicy) -> QueueNo {
        self.driver().open_queue(name, policy).queue
    }

    pub(crate) fn send(&mut self, request: StoreRequest) {
        self.driver().send(request);
    }

    pub(crate) fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets, 7)
    }

    /// Waits until all requests have been carried out and their events received. A query is answered after
    /// all earlier requests, so its answer comes last.
    pub(crate) fn settle(&mut self) {
        let ticket = self.ticket();
        let nothing = Filter {
            key: Some(b"no such tenant"[..].into()),
            ..Filter::default()
        };
        self.send(StoreRequest::Query {
            ticket,
            query: Query::Count(nothing),
        });
        self.wait(|event| matches!(event, StoreEvent::Found { ticket: of, .. } if *of == ticket));
        self.events.retain(
            |event| !matches!(event, StoreEvent::Found { ticket: of, .. } if *of == ticket),
        );
    }

    /// Receives events until one matches, and returns it.
    pub(crate) fn wait(&mut self, matches: impl Fn(&StoreEvent) -> bool) -> StoreEvent {
        self.driver().flush();
        loop {
            let mut events = std::mem::take(&mut self.events);
            self.driver().receive(&mut events);
            self.events = events;
            if let Some(it) = self.events.iter().find(|event| matches(event)) {
                return it.clone();
            }
            let wake = self.driver.as_ref().unwrap().wake_fd();
            let wake = wake.expect("an engine that tells at once has told");
            let patience = rustix::event::Timespec {
                tv_sec: 60,
                tv_nsec: 0,
            };
            let ready = poll(&mut [PollFd::new(&wake, PollFlags::IN)], Some(&patience)).unwrap();
            assert!(ready > 0, "it never came; told: {:?}", self.events);
        }
    }

    /// Pushes a job while the scheduler has room.
    pub(crate) fn push(&mut self, job: NewJob) -> Pushed {
        self.push_to(true, job)
    }

    pub(crate) fn push_to(&mut self, room: bool, job: NewJob) -> Pushed {
        let ticket = self.ticket();
        self.send(StoreRequest::Push {
            ticket,
            room,
            job: Box::new(job),
        });
        let event = self
            .wait(|event| matches!(event, StoreEvent::Pushed { ticket: of, .. } if *of == ticket));
        match event {
            StoreEvent::Pushed { pushed, .. } => pushed,
            other => panic!("{other:?}"),
        }
    }

    /// Pushes a job that must be accepted, and returns its id.
    pub(crate) fn add(&mut self, job: NewJob) -> JobId {
        self.accept(job).0
    }

    /// Pushes a job that must be accepted. Also returns the job if it was handed over.
    pub(crate) fn accept(&mut self, job: NewJob) -> (JobId, Option<Job>) {
        match self.push(job) {
            Pushed::Accepted { id, job } => (id, job.map(|job| *job)),
            other => panic!("{other:?}"),
        }
    }

    /// Pushes a job that must be handed over at once.
    pub(crate) fn load(&mut self, job: NewJob) -> Job {
        self.accept(job).1.expect("handed over")
    }

    pub(crate) fn refill(
        &mut self,
        queue: QueueNo,
        key: &[u8],
        limit: usize,
    ) -> (Vec<JobId>, bool) {
        let (jobs, more) = self.refill_jobs(queue, 0, key, limit);
        (jobs.iter().map(|job| job.id).collect(), more)
    }

    pub(crate) fn refill_jobs(
        &mut self,
        queue: QueueNo,
        class: u8,
        key: &[u8],
        limit: usize,
    ) -> (Vec<Job>, bool) {
        self.settle();
        self.events
            .retain(|event| !matches!(event, StoreEvent::Refilled { .. }));
        self.send(StoreRequest::Refill {
            queue,
            class,
            key: key.into(),
            limit,
        });
        match self.wait(|event| matches!(event, StoreEvent::Refilled { .. })) {
            StoreEvent::Refilled { jobs, more, .. } => (jobs, more),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn refill_lanes(
        &mut self,
        queue: QueueNo,
        lanes: usize,
        limit: usize,
    ) -> (Vec<stoker_store::Lane>, bool) {
        self.settle();
        self.events
            .retain(|event| !matches!(event, StoreEvent::RefilledLanes { .. }));
        self.send(StoreRequest::RefillLanes {
            queue,
            lanes,
            limit,
        });
        match self.wait(|event| matches!(event, StoreEvent::RefilledLanes { .. })) {
            StoreEvent::RefilledLanes { lanes, more, .. } => (lanes, more),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn end(&mut self, job: JobId, ending: Ending) {
        self.end_run(
            job,
            RunCounters {
                attempt: 1,
                ran_us: 1_000,
                ..RunCounters::default()
            },
            ending,
        );
    }

    pub(crate) fn end_run(&mut self, job: JobId, counters: RunCounters, ending: Ending) {
        let event = self.try_to_end(job, counters, ending);
        assert!(matches!(event, StoreEvent::Completed { .. }), "{event:?}");
    }

    /// Ends a job, and returns the event that reports whether its end was written.
    pub(crate) fn try_to_end(
        &mut self,
        job: JobId,
        counters: RunCounters,
        ending: Ending,
    ) -> StoreEvent {
        let ticket = self.ticket();
        self.send(StoreRequest::End {
            job,
            counters,
            ending,
            ticket: Some(ticket),
            output: None,
        });
        let event = self.wait(|event| {
            matches!(event, StoreEvent::Completed { ticket: of } | StoreEvent::EndNotWritten { ticket: of } if *of == ticket)
        });
        self.settle();
        event
    }

    pub(crate) fn done(&mut self, job: JobId) {
        self.end(job, Ending::Done { result: None });
    }

    pub(crate) fn fail(&mut self, job: JobId) {
        let error = self.error("boom");
        self.end(job, Ending::Failed(error));
    }

    pub(crate) fn error(&self, message: &str) -> JobError {
        JobError {
            class: "App\\Boom".to_owned(),
            message: message.to_owned(),
            place: Some("app/Job.php:7".to_owned()),
            at_ms: self.now(),
        }
    }

    pub(crate) fn retry(&mut self, job: JobId, due_ms: u64, park: bool) {
        let error = self.error("not now");
        let counters = RunCounters {
            attempt: 1,
            exceptions: 1,
            ran_us: 1_000,
            ..RunCounters::default()
        };
        self.send(StoreRequest::Retry {
            job,
            counters,
            due_ms,
            error,
            output: None,
            park,
        });
        self.settle();
    }

    pub(crate) fn change(&mut self, which: Selection, change: Change) -> Result<Changed, Trouble> {
        let ticket = self.ticket();
        self.send(StoreRequest::Change {
            ticket,
            which,
            change,
        });
        match self
            .wait(|event| matches!(event, StoreEvent::Changed { ticket: of, .. } if *of == ticket))
        {
            StoreEvent::Changed { result, .. } => result,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn query(&mut self, query: Query) -> Found {
        let ticket = self.ticket();
        self.send(StoreRequest::Query { ticket, query });
        match self
            .wait(|event| matches!(event, StoreEvent::Found { ticket: of, .. } if *of == ticket))
        {
            StoreEvent::Found { found, .. } => found.unwrap(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn view(&mut self, job: JobId) -> Option<View> {
        match self.query(Query::One(job)) {
            Found::One(view) => view.map(|view| *view),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn state(&mut self, job: JobId) -> Option<stoker_store::State> {
        self.view(job).map(|view| view.state)
    }

    pub(crate) fn list(&mut self, filter: Filter) -> Vec<JobId> {
        match self.query(Query::List {
            filter,
            after: None,
            limit: 1_000,
            newest: false,
            whole: false,
        }) {
            Found::List { jobs, .. } => jobs.iter().map(|view| view.id).collect(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn count(&mut self, filter: Filter) -> u64 {
        match self.query(Query::Count(filter)) {
            Found::Count(count) => count,
            other => panic!("{other:?}"),
        }
    }

    /// The counts of a queue that were reported last.
    pub(crate) fn counts(&mut self, queue: QueueNo) -> Counts {
        self.settle();
        let counts = self.events.iter().rev().find_map(|event| match event {
            StoreEvent::Counts { queue: of, counts } if *of == queue => Some(*counts),
            _ => None,
        });
        counts.expect("counts are told")
    }

    /// The lanes whose backlog was reported since the previous call.
    pub(crate) fn backlogs(&mut self) -> Vec<(u8, Vec<u8>)> {
        self.settle();
        let mut lanes = Vec::new();
        self.events.retain(|event| match event {
            StoreEvent::Backlog { class, key, .. } => {
                lanes.push((*class, key.to_vec()));
                false
            }
            _ => true,
        });
        lanes
    }

    /// Advances the clocks until a condition holds that the engine reaches gradually.
    pub(crate) fn until(&mut self, what: &str, holds: impl Fn(&mut Self) -> bool) {
        for _ in 0..10_000 {
            if holds(self) {
                return;
            }
            // Some background work waits for a certain time.
            self.advance(100);
        }
        panic!("never: {what}");
    }
}

/// Creates an empty directory.
pub(crate) fn new_dir() -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("stoker-store-{}-{count}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop();
        if let Some(dir) = self.path.as_ref().and_then(|path| path.parent()) {
            drop(std::fs::remove_dir_all(dir));
        }
    }
}

/// A job without special options.
pub(crate) fn job(queue: QueueNo) -> NewJob {
    NewJob {
        queue,
        codec: 1,
        bytes: b"metabody"[..].into(),
        meta_len: 4,
        ..NewJob::default()
    }
}

/// A job with a key.
pub(crate) fn job_of(queue: QueueNo, key: &[u8]) -> NewJob {
    NewJob {
        key: key.into(),
        ..job(queue)
    }
}
