"""Kills, and what is known of each afterwards."""

import collections
import os
import signal
import time

from harness.processes import wait_for
from rig.stoker import SLOTS, kill

# Tasks in flight that a kill has to find: those that a worker has begun (its own line says so) and not ended. What was
# handed to a worker and not begun would count as well; nobody but Stoker knows of it, so it does not.
AT_LEAST = 50
# On a full disk no push is accepted any more, so the number only falls while the kill is prepared.
AT_LEAST_ON_FULL_DISK = 10
LOOK_BACK = 50_000  # runs among which the last ones of killed workers are looked for
QUICK = 3  # deaths of servers after which an angel makes the next one wait for seconds


class Kill:
    """A moment at which runs were cut off: what was in flight, and what the store had not yet been told."""

    def __init__(self, no, what, demanding, since=None):
        self.no, self.what = no, what
        self.before = time.monotonic_ns()
        self.since = since or self.before  # from then on the server heard of no end: when it was stopped, or killed
        self.demanding = demanding  # not so in the middle of a start or an end, when not so much can run
        self.after = None
        self.graceful = False
        self.hits = 1  # times that it can cut off the same job
        self.of_server = True
        self.in_flight = 0
        self.unfinished = None  # number -> attempt, as the store knew it afterwards
        self.version = None  # of its schema
        self.within = None  # where that is not known: runs that ended within this time before
        self.last_runs = None  # of killed workers: those whose answers may not have been written
        self.lost = []
        self.trouble = None

    @property
    def is_weak(self):
        least = AT_LEAST_ON_FULL_DISK if "disk full" in self.what else AT_LEAST
        return self.demanding and self.in_flight < least


def kill_server(trial, what, **how):
    stoker = trial.stoker
    victim = wait_for("a server", stoker.server, 20.0, 0.002)
    old = stoker.workers()
    death = trial.strike(what, **how)
    # The angel waits until we have seen what the store knows; nothing else depends on it meanwhile.
    os.kill(stoker.angel.pid, signal.SIGSTOP)
    try:
        kill([victim])
        stoker.await_gone([victim])
        trial.look_at(death)
    finally:
        os.kill(stoker.angel.pid, signal.SIGCONT)
    stoker.deaths += 1
    stoker.await_gone(old, what="workers of a killed server")
    trial.ledger.cut(death, set(old))
    death.after = time.monotonic_ns()


def kill_everything(trial, what, **how):
    order = trial.dice.choice([None, trial.dice.shuffle, lambda pids: pids.reverse()])
    pids = trial.stoker.tree()
    if order:
        order(pids)
    death = trial.strike(what, **how)
    # Its worker may go first, and the server lend it to another one before that, or the server, goes as well.
    death.hits = 2
    trial.stoker.kill_all(pids)
    trial.after_death(death)
    return death


def kill_either(trial, name, **how):
    """The server, or everything with it; what stays down is started."""
    if trial.stoker.deaths >= QUICK or trial.dice.random() < 0.5:
        kill_everything(trial, f"all, {name}", **how)
        trial.stoker.start()
    else:
        kill_server(trial, f"server, {name}", **how)


def last_runs(ledger, victims):
    """Tags of the runs whose answers the victims may not have written. A worker writes each answer before it begins its
    next task, so of one with one slot that is its last run."""
    found = collections.defaultdict(list)
    for run in reversed(ledger.runs[-LOOK_BACK:]):
        if run.pid in victims and len(found[run.pid]) < SLOTS:
            found[run.pid].append(run)
    tags = set()
    for runs in found.values():
        is_wide = any(after.began < (run.ended or 1 << 63) for after, run in zip(runs, runs[1:]))
        tags |= {run.tag for run in (runs if is_wide else runs[:1])}
    return tags


def kill_workers(trial):
    stoker, ledger = trial.stoker, trial.ledger
    there = wait_for("workers", stoker.workers, 20.0, 0.002)
    victims = set(trial.dice.sample(there, min(len(there), trial.dice.randint(1, 8))))
    death = trial.strike("workers")
    death.of_server = False
    kill(victims)
    stoker.await_gone(victims, what="killed workers")
    death.in_flight = ledger.in_flight_at(death.since)
    death.last_runs = last_runs(ledger, victims)
    ledger.cut(death, victims)
    death.after = time.monotonic_ns()
