//! All connections of clients, and the end of those that take too long.

use super::Gateway;
use super::stats::add;
use super::watch::{Limits, Watch};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

/// How often notes are looked through, at the least and at the most.
const SELDOM: Duration = Duration::from_secs(1);
const OFTEN: Duration = Duration::from_millis(10);

/// Connections by a number that counts up.
pub(crate) struct Connections {
    all: RefCell<HashMap<u64, (Rc<Watch>, AbortHandle)>>,
    next: Cell<u64>,
    /// The time of the last look, by which connections note what happens to them.
    now: Rc<Cell<Instant>>,
    is_looking: Cell<bool>,
    limit: usize,
}

impl Connections {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            all: RefCell::default(),
            next: Cell::new(0),
            now: Rc::new(Cell::new(Instant::now())),
            is_looking: Cell::new(false),
            limit,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.borrow().len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.limit
    }

    /// Whether nobody waits for an answer, or for the rest of one.
    pub(crate) fn is_idle(&self) -> bool {
        self.all.borrow().values().all(|(watch, _)| watch.is_idle())
    }

    pub(crate) fn watch(&self) -> Rc<Watch> {
        Watch::new(self.now.clone())
    }

    pub(crate) fn new_number(&self) -> u64 {
        let number = self.next.get();
        self.next.set(number + 1);
        number
    }

    pub(crate) fn add(&self, number: u64, watch: Rc<Watch>, handle: AbortHandle) {
        self.all.borrow_mut().insert(number, (watch, handle));
    }

    pub(crate) fn remove(&self, number: u64) {
        self.all.borrow_mut().remove(&number);
    }

    /// Ends those for which `is_over` says so, and returns how many.
    fn end(&self, is_over: impl Fn(&Watch) -> bool) -> u64 {
        let all = self.all.borrow();
        let over = all.values().filter(|(watch, _)| is_over(watch));
        over.map(|(_, handle)| handle.abort()).count() as u64
    }
}

/// Begins to look through the notes, if nobody does. It goes on as long as there are connections.
pub(crate) fn start_watching(gateway: &Rc<Gateway>) {
    let connections = &gateway.connections;
    if connections.is_looking.replace(true) {
        return;
    }
    connections.now.set(Instant::now());
    let gateway = gateway.clone();
    tokio::task::spawn_local(async move {
        check_connections(&gateway).await;
        gateway.connections.is_looking.set(false);
    });
}

async fn check_connections(gateway: &Gateway) {
    let settings = &gateway.settings;
    let limits = Limits {
        header: settings.header_timeout,
        idle: settings.idle_timeout,
        write: settings.write_timeout,
    };
    let shortest = limits.header.min(limits.idle).min(limits.write);
    let pause = (shortest / 4).clamp(OFTEN, SELDOM);
    let connections = &gateway.connections;
    while connections.len() > 0 {
        sleep(pause).await;
        let before = connections.now.replace(Instant::now());
        let overdue = connections.end(|watch| watch.is_overdue(limits));
        add(&gateway.stats.timed_out, overdue);
        if gateway.client.is_draining() {
            connections.end(|watch| watch.is_idle_since(before));
        }
    }
}
