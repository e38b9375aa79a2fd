//! The connections of clients. Those that take too long are closed.

use super::Gateway;
use super::stats::add;
use super::watch::{Activity, Limits};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

/// The longest and the shortest time between two checks of all connections.
const MAX_INTERVAL: Duration = Duration::from_secs(1);
const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// If all connections are in use, idle ones are closed to make room: at most one in this many of all connections at a time.
const ROOM_SHARE: usize = 100;

/// The connections, by ascending numbers.
pub(crate) struct Connections {
    all: RefCell<HashMap<u64, (Rc<Activity>, AbortHandle)>>,
    next: Cell<u64>,
    /// The time of the last check, which connections use to record their activity.
    now: Rc<Cell<Instant>>,
    is_checking: Cell<bool>,
    limit: usize,
}

impl Connections {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            all: RefCell::default(),
            next: Cell::new(0),
            now: Rc::new(Cell::new(Instant::now())),
            is_checking: Cell::new(false),
            limit,
        }
    }

    /// The maximum number of connections.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn len(&self) -> usize {
        self.all.borrow().len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.limit
    }

    /// Whether no client waits for an answer, or for the rest of one.
    pub(crate) fn is_idle(&self) -> bool {
        self.all.borrow().values().all(|(watch, _)| watch.is_idle())
    }

    pub(crate) fn watch(&self) -> Rc<Activity> {
        Activity::new(self.now.clone())
    }

    pub(crate) fn new_number(&self) -> u64 {
        let number = self.next.get();
        self.next.set(number + 1);
        number
    }

    pub(crate) fn add(&self, number: u64, watch: Rc<Activity>, handle: AbortHandle) {
        self.all.borrow_mut().insert(number, (watch, handle));
    }

    pub(crate) fn remove(&self, number: u64) {
        self.all.borrow_mut().remove(&number);
    }

    /// Closes connections whose clients are slow to read their answers, those with the largest ones first, until `excess`
    /// bytes are released. Returns their number. Without this, a few such clients could use up the memory for all.
    fn end_slow_readers(&self, mut excess: usize) -> u64 {
        let all = self.all.borrow();
        let slow = all.values();
        let slow = slow.filter_map(|(watch, handle)| Some((watch.slow_bytes()?, handle)));
        let mut slow: Vec<_> = slow.collect();
        slow.sort_unstable_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let mut ended = 0;
        for (bytes, handle) in slow {
            if excess == 0 {
                break;
            }
            handle.abort();
            excess = excess.saturating_sub(bytes);
            ended += 1;
        }
        ended
    }

    /// Closes connections that wait for a request, those that have waited longest first.
    pub(crate) fn make_room(&self) {
        let all = self.all.borrow();
        let idle = all.values();
        let idle = idle.filter_map(|(watch, handle)| Some((watch.spare_since()?, handle)));
        let mut idle: Vec<_> = idle.collect();
        idle.sort_unstable_by_key(|(since, _)| *since);
        let count = (self.limit / ROOM_SHARE).max(1);
        idle.iter()
            .take(count)
            .for_each(|(_, handle)| handle.abort());
    }

    /// Closes the connections for which `is_over` is true, and returns their number.
    fn end(&self, is_over: impl Fn(&Activity) -> bool) -> u64 {
        let all = self.all.borrow();
        let over = all.values().filter(|(watch, _)| is_over(watch));
        over.map(|(_, handle)| handle.abort()).count() as u64
    }
}

/// Starts to check the connections, unless that is done already. It continues while there are connections.
pub(crate) fn start_checking(gateway: &Rc<Gateway>) {
    let connections = &gateway.connections;
    if connections.is_checking.replace(true) {
        return;
    }
    connections.now.set(Instant::now());
    let gateway = gateway.clone();
    tokio::task::spawn_local(async move {
        check_connections(&gateway).await;
        gateway.connections.is_checking.set(false);
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
    let pause = (shortest / 4).clamp(MIN_INTERVAL, MAX_INTERVAL);
    let connections = &gateway.connections;
    while connections.len() > 0 {
        sleep(pause).await;
        let before = connections.now.replace(Instant::now());
        let overdue = connections.end(|watch| watch.is_overdue(limits));
        let slow = connections.end_slow_readers(gateway.budget.excess());
        add(&gateway.stats.timed_out, overdue + slow);
        if gateway.client.is_draining() {
            gateway.draining.notify_waiters();
            connections.end(|watch| watch.is_idle_since(before));
        }
    }
}
