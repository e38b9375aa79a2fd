"""What is done to Stoker, one function a fault. Each leaves it serving again."""

import contextlib
import os
import signal
import time

from harness.processes import wait_for
from rig.stoker import Down, WORKERS, kill

FULL_WITHIN = 30.0
QUICK = 3  # deaths of servers after which an angel makes the next one wait for seconds


class Kill:
    """A moment at which runs were cut off: what was in flight, and what the store had not yet been told."""

    def __init__(self, no, what):
        self.no, self.what = no, what
        self.before = time.monotonic_ns()
        self.after = None
        self.graceful = False
        self.of_server = True
        self.in_flight = 0
        self.unfinished = None  # number -> attempt, as the store knew it afterwards
        self.within = None  # where that is not known: runs that ended within this time before
        self.last_runs = None  # of killed workers: those whose answers may not have been written
        self.lost = []
        self.trouble = None


def server(trial):
    """kill -9 of the server; the angel starts another one."""
    if trial.stoker.deaths >= QUICK:
        return everything(trial)
    kill_server(trial, "server")
    trial.up_again()


def killed_as_it_stands(trial):
    """The same for one that was stopped, and so can't get busy any more."""
    if trial.stoker.deaths >= QUICK:
        kill_everything(trial, "all, server stopped", busy=False)
        trial.stoker.start()
    else:
        kill_server(trial, "stopped server", busy=False)
    trial.up_again()


def kill_server(trial, what, busy=True):
    """In the middle of a recovery (not `busy`) there may be nothing that runs yet."""
    stoker = trial.stoker
    victim = wait_for("a server", stoker.server, 20.0, 0.002)
    old = stoker.workers()
    if busy:
        trial.await_busy()
    death = trial.kill(what)
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


def angel(trial):
    """kill -9 of the angel: all that it had started has to end by itself."""
    stoker = trial.stoker
    at_once = trial.dice.random() < 0.5
    old = [pid for pid in stoker.everybody() if pid != stoker.angel.pid]
    trial.await_busy()
    death = trial.kill("angel, restarted at once" if at_once else "angel")
    kill([stoker.angel.pid])
    stoker.angel.wait()
    if at_once:
        # The server may go on committing what workers had answered; we can't look in between.
        death.in_flight = trial.ledger.in_flight_at(death.before)
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


def kill_everything(trial, what, busy=True):
    order = trial.dice.choice([None, trial.dice.shuffle, lambda pids: pids.reverse()])
    if busy:
        trial.await_busy()
    death = trial.kill(what)
    trial.stoker.kill_all(order)
    trial.after_death(death)
    return death


def workers(trial):
    """kill -9 of some workers."""
    kill_workers(trial)
    trial.up_again()


def kill_workers(trial):
    stoker, ledger = trial.stoker, trial.ledger
    there = wait_for("workers", stoker.workers, 20.0, 0.002)
    trial.await_busy()
    victims = set(trial.dice.sample(there, min(len(there), trial.dice.randint(1, 8))))
    death = trial.kill("workers")
    death.of_server = False
    kill(victims)
    stoker.await_gone(victims, what="killed workers")
    death.in_flight = ledger.in_flight_at(death.before)
    since = death.before - 1_000_000_000
    death.last_runs = {run.tag for run in ledger.runs[-2000:] if run.pid in victims and (run.ended or since) >= since}
    ledger.cut(death, victims)
    death.after = time.monotonic_ns()


def workers_then_server(trial):
    """kill -9 of some workers, and of the server before it is done with that."""
    if trial.stoker.deaths >= QUICK:
        return everything(trial)
    kill_workers(trial)
    trial.wait(trial.dice.uniform(0, 0.05))
    kill_server(trial, "server after workers", busy=False)
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
    os.kill(victim, signal.SIGSTOP)
    # Workers go on to the end of what they have; for a kill in the middle of it there is no time to lose.
    trial.wait(trial.dice.uniform(0, 0.02) if is_killed else trial.dice.uniform(0.05, 0.5))
    if is_killed:
        return killed_as_it_stands(trial)
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
    trial.await_busy()
    death = trial.kill("TERM")
    death.graceful = True
    code = trial.stoker.terminate()
    if code != 0:
        trial.wrong.append(f"exit code {code} after TERM")
    trial.after_death(death)
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


def full_disk(trial):
    """The disk fills up, and is freed: pushes are refused meanwhile, and work goes on afterwards by itself."""
    with filled(trial):
        before = trial.stoker.server()
    if trial.stoker.server() != before or before is None:
        trial.wrong.append("the server ended because its disk was full")
    freed(trial)


def killed_on_full_disk(trial):
    """The disk is full, and all is killed: it comes back at the latest when there is room again."""
    with filled(trial):
        kill_everything(trial, "all, disk full", busy=False)
        trial.stoker.start()
        trial.wait(trial.dice.uniform(0.05, 0.5))
    trial.stoker.await_up()
    freed(trial)


@contextlib.contextmanager
def filled(trial):
    refused = trial.books.full
    filler = trial.store_folder / "filler"
    trial.flags.flood.set()
    try:
        with open(filler, "wb", buffering=0) as handle:
            deadline = time.monotonic() + FULL_WITHIN
            while trial.books.full < refused + 20:
                fill(handle)
                trial.check_producers()
                if time.monotonic() > deadline:
                    trial.wrong.append(f"no push was refused within {FULL_WITHIN:g} s of a full disk")
                    break
                trial.wait(0.005)
        trial.wait(trial.dice.uniform(0, 0.6))
        yield
    finally:
        trial.flags.flood.clear()
        filler.unlink(missing_ok=True)


def freed(trial):
    try:
        trial.probe(20.0)
    except TimeoutError as error:
        trial.wrong.append(f"{error} after the disk was freed")
    trial.up_again()


def fill(handle):
    for size in (1 << 20, 1 << 12):
        with contextlib.suppress(OSError):
            while True:
                handle.write(b"\0" * size)


def power_cut(trial):
    """kill -9 of everything, and what no fsync had returned for may be gone."""
    everything(trial)


def term_and_power_cut(trial):
    term(trial)


ANYWHERE = [server, server, angel, angel, workers, workers, workers_then_server, everything, everything, recovery]
ANYWHERE += [recovery, everything_again, stopped_server, stopped_workers, term, term, term_then_kill, reload_then_kill]
SMALL_DISK = [server, everything, workers, recovery, term, full_disk, full_disk, full_disk, killed_on_full_disk]
POWER = [power_cut] * 6 + [term_and_power_cut, everything_again]
__all__ = ["ANYWHERE", "SMALL_DISK", "POWER", "Kill", "Down", "WORKERS"]
