"""Kills, and what is known about each of them afterwards."""

import collections
import os
import signal
import time

from harness.processes import wait_for
from rig.stoker import SLOTS, children, kill

# The minimum number of tasks in flight at a kill: tasks that a worker has begun (its own ledger line says so) and not
# ended. Prefetched tasks do not count, because only Stoker knows about them.
MIN_IN_FLIGHT = 50
# A full disk accepts no pushes, so the number only falls while the kill is prepared.
MIN_IN_FLIGHT_ON_FULL_DISK = 10
LOOK_BACK = 50_000  # number of recent runs that are searched for the last ones of killed workers
REPORTED_WITHIN = 500_000_000  # nanoseconds until the adapter of a program has reported its end
QUICK = 3  # server deaths after which an angel delays the next start by seconds


class Kill:
    """A moment at which runs were interrupted: what was in flight, and which outcomes the store had not received."""

    def __init__(self, no, what, demanding, since=None):
        self.no, self.what = no, what
        self.before = time.monotonic_ns()
        self.since = since or self.before  # when the server was stopped or killed; it received no outcomes after that
        self.demanding = demanding  # false in the middle of a start or a stop, when fewer tasks can run
        self.after = None
        self.graceful = False
        self.hits = 1  # how many times the kill can interrupt the same job
        self.of_server = True
        self.in_flight = 0
        self.unfinished = None  # number -> attempt, as read from the store afterwards
        self.version = None  # version of the schema of the store
        self.within = None  # if `unfinished` is not known: runs that ended within this time before the kill count
        self.last_runs = None  # only for killed workers: the runs whose answers may not have been written
        self.lost = []
        self.trouble = None

    @property
    def is_weak(self):
        least = MIN_IN_FLIGHT_ON_FULL_DISK if "disk full" in self.what else MIN_IN_FLIGHT
        return self.demanding and self.in_flight < least


def kill_server(trial, what, **how):
    stoker = trial.stoker
    victim = wait_for("a server", stoker.server, 20.0, 0.002)
    old = stoker.workers()
    death = trial.strike(what, **how)
    # The angel is stopped until the store has been read; nothing else depends on it meanwhile.
    os.kill(stoker.angel.pid, signal.SIGSTOP)
    try:
        kill([victim])
        stoker.await_gone([victim])
        trial.look_at(death)
        # Adapters may have started programs since.
        old = {*old, *stoker.everybody()} - {stoker.angel.pid}
    finally:
        resumed = time.monotonic_ns()
        os.kill(stoker.angel.pid, signal.SIGCONT)
    stoker.deaths += 1
    stoker.await_gone(old, what="workers of a killed server")
    trial.ledger.cut(death, old, resumed)
    death.after = time.monotonic_ns()


def kill_everything(trial, what, **how):
    order = trial.dice.choice([None, trial.dice.shuffle, lambda pids: pids.reverse()])
    pids = trial.stoker.tree()
    if order:
        order(pids)
    death = trial.strike(what, **how)
    # A job can be interrupted twice: its worker dies, the server assigns it to another worker, and that worker or the
    # server dies too.
    death.hits = 2
    trial.stoker.kill_all(pids)
    trial.after_death(death)
    return death


def kill_either(trial, name, **how):
    """Kills the server, or everything with it; starts Stoker again if nothing is left to do so."""
    if trial.stoker.deaths >= QUICK or trial.dice.random() < 0.5:
        kill_everything(trial, f"all, {name}", **how)
        trial.stoker.start()
    else:
        kill_server(trial, f"server, {name}", **how)


def last_runs(ledger, victims):
    """Returns the tags of the runs whose answers the victims may not have written. A worker writes each answer before
    it begins its next task, so for a worker with one slot only its last run counts."""
    found = collections.defaultdict(list)
    for run in reversed(ledger.runs[-LOOK_BACK:]):
        if run.pid in victims and len(found[run.pid]) < SLOTS:
            found[run.pid].append(run)
    tags = set()
    for runs in found.values():
        is_wide = any(after.began < (run.ended or 1 << 63) for after, run in zip(runs, runs[1:]))
        tags |= {run.tag for run in (runs if is_wide else runs[:1])}
    return tags


def unreported(ledger, death):
    """Returns the tags of the runs of programs that ended so late that their adapter may not have reported it."""
    recent = [run for run in ledger.runs[-LOOK_BACK:] if (run.ended or 1 << 63) > death.before - REPORTED_WITHIN]
    return {run.tag for run in recent if ledger.about[run.n][0] in ledger.of_programs}


def kill_workers(trial):
    stoker, ledger = trial.stoker, trial.ledger
    there = wait_for("workers", stoker.workers, 20.0, 0.002)
    victims = set(trial.dice.sample(there, min(len(there), trial.dice.randint(1, 8))))
    death = trial.strike("workers")
    death.of_server = False
    # A stopped adapter starts no more programs. Those that run end with it.
    kill(victims, signal.SIGSTOP)
    victims |= {child for victim in victims for child in children(victim)}
    kill(victims)
    stoker.await_gone(victims, what="killed workers")
    death.in_flight = ledger.in_flight_at(death.since)
    death.last_runs = last_runs(ledger, victims) | unreported(ledger, death)
    ledger.cut(death, victims)
    death.after = time.monotonic_ns()
