//! Serves workers, whose sessions continue on another connection if the first one was lost.

use super::Relay;
use super::connect::{FINISH_TIMEOUT, may_come_back, open};
use super::control::{Control, Stop};
use super::greet::Greeted;
use super::pump::{End, Pump};
use super::server_socket::ServerSocket;
use super::stats::add;
use super::worker::Worker;
use crate::client::Level;
use crate::random::random_hex;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;
use stoker_wire::{Encode, Type, encode};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

/// How long a worker that has connected again waits for its earlier connection to be given up.
const TAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of sessions that are remembered after they ended in the middle of a task.
const MAX_ENDED: usize = 1_000;

/// The sessions of all workers.
#[derive(Default)]
pub(super) struct Sessions {
    by_id: RefCell<HashMap<String, Rc<Seat>>>,
    /// Sessions that have ended in the middle of tasks, with the ids of these, the latest last.
    ended: RefCell<VecDeque<(String, Vec<u32>)>>,
}

/// The place of a session, which outlives a lost connection for a while.
struct Seat {
    /// The token of the worker; only the same one may resume the session.
    token: String,
    /// The connection that serves the worker now.
    control: RefCell<Option<Rc<Control>>>,
    /// Everything that continues, while there is no connection.
    parked: RefCell<Option<Parked>>,
    /// The session has ended and can't be taken.
    has_ended: Cell<bool>,
    /// Notified when the session was parked, taken or has ended.
    changed: Notify,
}

struct Parked {
    worker: Worker,
    server: ServerSocket,
    pump: Pump,
}

pub(super) async fn serve_worker(relay: &Rc<Relay>, mut greeted: Greeted) {
    let Some((seat, mut served)) = begin(relay, &mut greeted).await else {
        return;
    };
    *seat.control.borrow_mut() = Some(greeted.control.clone());
    let (peer, control) = (&mut greeted.peer, &greeted.control);
    let run = served.pump.run(
        peer,
        &mut served.server,
        &mut served.worker,
        control,
        &relay.scratch,
    );
    let end = run.await;
    *seat.control.borrow_mut() = None;
    let comes_back = may_come_back(&end) && served.worker.can_be_resumed();
    if !comes_back {
        relay.sessions.remove(served.worker.id());
        seat.has_ended.set(true);
        seat.changed.notify_waiters();
        return finish(served, &mut greeted, &end).await;
    }
    drop(greeted);
    served.pump.forget_peer();
    park(relay, &seat, served).await;
}

/// Resumes the session that the worker names, or begins a new one.
async fn begin(relay: &Rc<Relay>, greeted: &mut Greeted) -> Option<(Rc<Seat>, Parked)> {
    if let Some(id) = greeted.hello.session.clone() {
        if let Some(resumed) = resume(relay, greeted, &id).await {
            add(&relay.stats.resumed, 1);
            return Some(resumed);
        }
        let late = relay.sessions.late_answers(&id, &greeted.hello.held);
        add(&relay.stats.late, late as u64);
        if late > 0 {
            let text = format!(
                "a worker at {} came back after its session had ended: its answers to {late} task(s) are refused",
                greeted.address
            );
            relay.client.log(Level::Warn, text);
        }
    }
    let id = random_hex::<16>().ok()?;
    let mut worker = Worker::new(id.clone(), relay.settings.resume_timeout);
    let (pump, server) = open(relay, greeted, &mut worker).await?;
    let seat = Rc::new(Seat {
        token: greeted.control.name.clone(),
        control: RefCell::default(),
        parked: RefCell::default(),
        has_ended: Cell::new(false),
        changed: Notify::new(),
    });
    relay.sessions.by_id.borrow_mut().insert(id, seat.clone());
    Some((
        seat,
        Parked {
            worker,
            server,
            pump,
        },
    ))
}

async fn resume(relay: &Relay, greeted: &mut Greeted, id: &str) -> Option<(Rc<Seat>, Parked)> {
    let seat = relay.sessions.by_id.borrow().get(id).cloned()?;
    if seat.token != greeted.control.name {
        return None;
    }
    let mut parked = seat.take().await?;
    let Some(welcome) = parked.worker.resume(&greeted.hello.held) else {
        // Dropped here: the server takes it for the death of the worker.
        relay.sessions.remove(id);
        return None;
    };
    parked.pump.out.to_peer = welcome;
    let rest = std::mem::take(&mut greeted.rest);
    let passed =
        super::pump::Passed::on_peer_bytes(&mut parked.worker, &rest, &mut parked.pump.out);
    if passed.is_err() {
        relay.sessions.remove(id);
        return None;
    }
    Some((seat, parked))
}

impl Seat {
    /// Takes the session over, from its connection if that is not known to be lost yet.
    async fn take(&self) -> Option<Parked> {
        let until = Instant::now() + TAKE_TIMEOUT;
        loop {
            let changed = self.changed.notified();
            if let Some(parked) = self.parked.borrow_mut().take() {
                self.changed.notify_waiters();
                return Some(parked);
            }
            if self.has_ended.get() {
                return None;
            }
            if let Some(control) = self.control.borrow().as_ref() {
                control.stop(Stop::Resumed);
            }
            timeout_at(until, changed).await.ok()?;
        }
    }
}

/// Keeps the session of a worker whose connection was lost until it comes back, or until the time for that is over.
async fn park(relay: &Rc<Relay>, seat: &Rc<Seat>, served: Parked) {
    let id = served.worker.id().to_owned();
    let until = Instant::now() + relay.settings.resume_timeout;
    *seat.parked.borrow_mut() = Some(served);
    seat.changed.notify_waiters();
    loop {
        let changed = seat.changed.notified();
        if seat.parked.borrow().is_none() {
            return;
        }
        if timeout_at(until, changed).await.is_err() {
            break;
        }
    }
    let Some(served) = seat.parked.borrow_mut().take() else {
        return;
    };
    relay.sessions.remove(&id);
    relay
        .sessions
        .remember(&id, served.worker.session().open_ids());
    add(&relay.stats.expired, 1);
    let text = format!(
        "{} lost its connection in the middle of a task and did not come back within {:?} ([listen] resume_timeout)",
        served.worker.name(),
        relay.settings.resume_timeout
    );
    relay.client.log(Level::Warn, text);
}

/// Ends a session whose worker does not come back.
async fn finish(mut served: Parked, greeted: &mut Greeted, end: &End) {
    let session = served.worker.session();
    if may_come_back(end) && session.unanswered() == 0 && !session.is_leaving() {
        // It ran no task: those that are on their way return to their queue at no cost.
        encode(&mut served.pump.out.to_server, Encode::new(Type::Goaway, 0));
    }
    let finished = served.pump.finish_server(&mut served.server);
    timeout(FINISH_TIMEOUT, finished).await.ok();
    served.pump.explain(end, &served.worker);
    drop(served.server);
    if *end != End::Peer {
        let finished = served.pump.finish_peer(&mut greeted.peer);
        timeout(FINISH_TIMEOUT, finished).await.ok();
    }
}

impl Sessions {
    fn remove(&self, id: &str) {
        self.by_id.borrow_mut().remove(id);
    }

    /// Remembers the tasks of a session that has ended without their answers.
    fn remember(&self, id: &str, open: Vec<u32>) {
        let mut ended = self.ended.borrow_mut();
        if ended.len() >= MAX_ENDED {
            ended.pop_front();
        }
        ended.push_back((id.to_owned(), open));
    }

    /// The number of answers that a worker holds and that come too late, because its session has ended.
    fn late_answers(&self, id: &str, held: &[u32]) -> usize {
        let ended = self.ended.borrow();
        let open = ended.iter().find(|(other, _)| other == id);
        open.map_or(0, |(_, open)| {
            held.iter().filter(|id| open.contains(id)).count()
        })
    }
}
