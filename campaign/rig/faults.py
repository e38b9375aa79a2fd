"""What is done to Stoker's processes, one function a fault. Each leaves it serving again."""

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
    """kill -9 of the angel: all that it had started has to end by itself."""
    stoker = trial.stoker
    at_once = trial.dice.random() < 0.5
    old = [pid for pid in stoker.everybody() if pid != stoker.angel.pid]
    death = trial.strike("angel, restarted at once" if at_once else "angel")
    kill([stoker.angel.pid])
    stoker.angel.wait()
    if at_once:
        # The server may go on committing what workers had answered; we can't look in between.
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
    """kill -9 of some workers, and of the server before it is done with that."""
    if trial.stoker.deaths >= QUICK:
        return everything(trial)
    kill_workers(trial)
    trial.wait(trial.dice.uniform(0, 0.05))
    kill_server(trial, "server after workers")
    trial.up_again()


def recovery(trial):
    """kill -9 of the server, and again of the next ones a few milliseconds after they were born."""
    if trial.stoker.deaths + 2 > QUICK:
        return everything_again(trial)
    kill_server(trial, "server")
    for _ in range(trial.dice.randint(1, 2)):
        wait_for("the next server", trial.stoker.server, 20.0, 0.0005)
        trial.wait(trial.dice.uniform(0, 0.06))
        kill_server(trial, "server in recovery", busy=False)
    trial.up_again()


def everything_again(trial):
    """kill -9 of the whole tree, again and again in the middle of starting."""
    kill_everything(trial, "all")
    for _ in range(trial.dice.randint(1, 3)):
        trial.stoker.start()
        wait_for("the next server", trial.stoker.server, 20.0, 0.0005)
        trial.wait(trial.dice.uniform(0, 0.08))
        kill_everything(trial, "all in recovery", busy=False)
    trial.stoker.start()
    trial.up_again()


def stopped_server(trial):
    """SIGSTOP of the server for a while; then it goes on, or is killed as it stands."""
    victim = trial.stoker.server()
    is_killed = trial.dice.random() < 0.5
    trial.await_busy()
    since = time.monotonic_ns()
    os.kill(victim, signal.SIGSTOP)
    # Workers go on to the end of what they have; for a kill in the middle of it there is no time to lose.
    trial.wait(trial.dice.uniform(0, 0.02) if is_killed else trial.dice.uniform(0.05, 0.5))
    if is_killed:
        kill_either(trial, "stopped", since=since)
    else:
        os.kill(victim, signal.SIGCONT)
    trial.up_again()


def stopped_workers(trial):
    """SIGSTOP of workers for a while; some are killed as they stand."""
    there = trial.stoker.workers()
    some = trial.dice.sample(there, min(len(there), 12))
    kill(some, signal.SIGSTOP)
    trial.wait(trial.dice.uniform(0.05, 0.5))
    kill(some, signal.SIGCONT)
    if trial.dice.random() < 0.5:
        kill_workers(trial)
    trial.up_again()


def term(trial):
    """TERM: what runs ends well, and no job is the worse for it."""
    death = trial.strike("TERM")
    death.graceful = True
    trial.terminate(death)
    trial.stoker.start()
    trial.up_again()


def term_then_kill(trial):
    """TERM, and kill -9 of everything before that is done."""
    trial.stoker.angel.send_signal(signal.SIGTERM)
    trial.wait(trial.dice.uniform(0, 0.25))
    kill_everything(trial, "all while draining", busy=False)
    trial.stoker.start()
    trial.up_again()


def reload_then_kill(trial):
    """HUP replaces all workers; the server is killed in the middle of that."""
    trial.stoker.angel.send_signal(signal.SIGHUP)
    trial.wait(trial.dice.uniform(0.02, 0.4))
    server(trial)


def power_cut(trial):
    """kill -9 of everything, and what no fsync had returned for may be gone."""
    everything(trial)


def term_and_power_cut(trial):
    term(trial)
