"""Faults of Stoker's processes, one function each. Stoker serves again at the end of each function."""

import os
import signal
import time

from harness.processes import wait_for
from rig.kill import QUICK, kill_either, kill_everything, kill_server, kill_workers
from rig.stoker import kill


def server(trial):
    """kill -9 of the server; the angel starts another one."""
    if trial.stoker.deaths >= QUICK:
        return everything(trial)
    kill_server(trial, "server")
    trial.up_again()


def angel(trial):
    """kill -9 of the angel: all processes that it had started must end by themselves."""
    stoker = trial.stoker
    at_once = trial.dice.random() < 0.5
    old = [pid for pid in stoker.everybody() if pid != stoker.angel.pid]
    death = trial.strike("angel, restarted at once" if at_once else "angel")
    kill([stoker.angel.pid])
    stoker.angel.wait()
    if at_once:
        # The server may still commit outcomes of its workers, and the store can't be read in between.
        death.in_flight = trial.ledger.in_flight_at(death.since)
        death.within = 2_000_000_000
        stoker.start()
        stoker.await_gone(old, 5.0, "what a killed angel had started")
    else:
        stoker.await_gone(old, 5.0, "what a killed angel had started")
        trial.look_at(death)
        stoker.start()
    trial.ledger.cut(death, set(old))
    death.after = time.monotonic_ns()
    trial.up_again()


def everything(trial):
    """kill -9 of the whole tree."""
    kill_everything(trial, "all")
    trial.stoker.start()
    trial.up_again()


def workers(trial):
    """kill -9 of some workers."""
    kill_workers(trial)
    trial.up_again()


def workers_then_server(trial):
    """kill -9 of some workers, and of the server before it has handled their deaths."""
    if trial.stoker.deaths >= QUICK:
        return everything(trial)
    kill_workers(trial)
    trial.wait(trial.dice.uniform(0, 0.05))
    kill_server(trial, "server after workers")
    trial.up_again()


def recovery(trial):
    """kill -9 of the server, and of its successors a few milliseconds after their start."""
    if trial.stoker.deaths + 2 > QUICK:
        return everything_again(trial)
    kill_server(trial, "server")
    for _ in range(trial.dice.randint(1, 2)):
        wait_for("the next server", trial.stoker.server, 20.0, 0.0005)
        trial.wait(trial.dice.uniform(0, 0.06))
        kill_server(trial, "server in recovery", busy=False)
    trial.up_again()


def everything_again(trial):
    """kill -9 of the whole tree, repeated in the middle of starting."""
    kill_everything(trial, "all")
    for _ in range(trial.dice.randint(1, 3)):
        trial.stoker.start()
        wait_for("the next server", trial.stoker.server, 20.0, 0.0005)
        trial.wait(trial.dice.uniform(0, 0.08))
        kill_everything(trial, "all in recovery", busy=False)
    trial.stoker.start()
    trial.up_again()


def stopped_server(trial):
    """SIGSTOP of the server for a while; then it continues, or is killed while it is stopped."""
    victim = trial.stoker.server()
    is_killed = trial.dice.random() < 0.5
    trial.await_busy()
    since = time.monotonic_ns()
    os.kill(victim, signal.SIGSTOP)
    # Workers go on until their tasks have ended, so a kill in the middle of that must come soon.
    trial.wait(trial.dice.uniform(0, 0.02) if is_killed else trial.dice.uniform(0.05, 0.5))
    if is_killed:
        kill_either(trial, "stopped", since=since)
    else:
        os.kill(victim, signal.SIGCONT)
    trial.up_again()


def stopped_workers(trial):
    """SIGSTOP of workers for a while; after that, some workers may be killed."""
    there = trial.stoker.workers()
    some = trial.dice.sample(there, min(len(there), 12))
    kill(some, signal.SIGSTOP)
    trial.wait(trial.dice.uniform(0.05, 0.5))
    kill(some, signal.SIGCONT)
    if trial.dice.random() < 0.5:
        kill_workers(trial)
    trial.up_again()


def term(trial):
    """A graceful stop with TERM: running tasks finish, and no job is harmed."""
    death = trial.strike("TERM")
    death.graceful = True
    trial.terminate(death)
    trial.stoker.start()
    trial.up_again()


def term_then_kill(trial):
    """TERM, and kill -9 of everything before the drain is done."""
    trial.stoker.angel.send_signal(signal.SIGTERM)
    trial.wait(trial.dice.uniform(0, 0.25))
    kill_everything(trial, "all while draining", busy=False)
    trial.stoker.start()
    trial.up_again()


def reload_then_kill(trial):
    """HUP replaces all workers; the server is killed in the middle of the reload."""
    trial.stoker.angel.send_signal(signal.SIGHUP)
    trial.wait(trial.dice.uniform(0.02, 0.4))
    server(trial)


def power_cut(trial):
    """kill -9 of everything; changes that no completed fsync covers may be lost."""
    everything(trial)


def term_and_power_cut(trial):
    term(trial)
