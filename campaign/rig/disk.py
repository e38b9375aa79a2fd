"""Faults of the disk under the store: it is full, or it fails. Afterwards the server must recover by itself."""

import contextlib
import signal
import time

from harness.processes import wait_for
from rig.kill import MIN_IN_FLIGHT, kill_either
from rig.preload import FOREVER
from rig.stage import IN_FLIGHT
from rig.stoker import kill

FULL_WITHIN = 30.0
FAILS_WITHIN = 10.0
SERVES_WITHIN = 20.0
# New jobs are rejected as soon as the disk fails, so the number of jobs in flight only falls: it must be higher before.
# If too few are left for a kill, the disk recovers and fails again.
MANY = IN_FLIGHT + 8
TRIES = 16
STEPS = 40  # calls that the repair of the store makes, and a few calls after it


def full_disk(trial):
    """The disk fills up and is freed: pushes are rejected meanwhile, and the server recovers by itself."""
    with the_same_server(trial, "its disk was full"), filled(trial):
        trial.wait(trial.dice.uniform(0, 0.6))
    serves(trial, "the disk was freed")


def killed_on_full_disk(trial):
    """The disk is full and everything is killed: the server must serve again at the latest when there is room."""
    kill_amid(trial, filled, "disk full")
    serves(trial, "the disk was freed")


def failing_disk(trial):
    """Syncs, writes or both fail, all of them or some, for a while; no process is killed."""
    with the_same_server(trial, "its disk failed"), failing(trial):
        trial.wait(trial.dice.uniform(0.02, 0.6))
    serves(trial, "the disk was well again")


def killed_on_failing_disk(trial):
    """Like `failing_disk`, with a kill in the middle and a start on a disk that still fails."""
    kill_amid(trial, failing, "disk failing")
    serves(trial, "the disk was well again")


def killed_while_mending(trial):
    """After a failed sync the log is rewritten and all files are reopened: the server is killed before any of these
    calls."""
    disk = trial.stoker.disk
    for try_ in range(TRIES):
        victim = trial.stoker.server()
        trial.await_busy(MANY)
        disk.stop_at(trial.dice.randint(1, STEPS), counting=0)
        with failing(trial, times=trial.dice.choice([1, 1, 1, 2])):
            since = await_stop(trial)
        if since and trial.ledger.in_flight_at(since) >= MIN_IN_FLIGHT or try_ == TRIES - 1:
            break
        kill([victim], signal.SIGCONT)
    kill_either(trial, "mending", since=since)
    trial.stoker.await_up()
    serves(trial, "the disk was well again")


def kill_amid(trial, trouble, name):
    for try_ in range(TRIES):
        trial.await_busy(MANY)
        with trouble(trial):
            trial.wait(trial.dice.uniform(0, 0.02))
            # A stopped server receives no outcomes, so the kill finds what is counted now.
            victim, since = trial.stoker.server(), time.monotonic_ns()
            kill([victim], signal.SIGSTOP)
            if trial.ledger.in_flight_at(since) >= MIN_IN_FLIGHT or try_ == TRIES - 1:
                kill_either(trial, name, since=since)
                trial.wait(trial.dice.uniform(0, 0.3))
                break
            kill([victim], signal.SIGCONT)
    trial.stoker.await_up()


def await_stop(trial):
    """Waits until the server has stopped itself. Returns the time, or None if it did not stop."""
    control = trial.stoker.disk.control
    with contextlib.suppress(TimeoutError):
        wait_for("the call to stop at", lambda: control.stopped_at, FAILS_WITHIN, 0.001)
    if not control.stopped_at:
        trial.wrong.append(f"the server made {control.calls} calls of its store in {FAILS_WITHIN:g} s")
    return control.stopped_at or None


@contextlib.contextmanager
def failing(trial, times=FOREVER):
    disk, dice = trial.stoker.disk, trial.dice
    how = dice.choice(["syncs", "syncs", "writes", "both"])
    share = dice.choice([1000, 1000, 300, 50]) if times == FOREVER else 1000
    before = disk.failures
    disk.fail(syncs=share if how != "writes" else 0, writes=share if how != "syncs" else 0, times=times)
    try:
        try:
            wait_for("something to fail on the disk", lambda: disk.failures > before, FAILS_WITHIN, 0.001)
        except TimeoutError as error:
            trial.wrong.append(str(error))
        yield
    finally:
        disk.heal()


@contextlib.contextmanager
def filled(trial):
    refused = trial.books.full
    filler = trial.store_folder / "filler"
    try:
        with open(filler, "wb", buffering=0) as handle:
            fill(handle)
            trial.flags.flood.set()
            deadline = time.monotonic() + FULL_WITHIN
            while trial.books.full < refused + 20:
                fill(handle)
                trial.check_producers()
                if time.monotonic() > deadline:
                    trial.wrong.append(f"no push was refused within {FULL_WITHIN:g} s of a full disk")
                    break
                trial.wait(0.005)
        yield
    finally:
        trial.flags.flood.clear()
        filler.unlink(missing_ok=True)


def fill(handle):
    for size in (1 << 20, 1 << 12):
        with contextlib.suppress(OSError):
            while True:
                handle.write(b"\0" * size)


@contextlib.contextmanager
def the_same_server(trial, what):
    before = trial.stoker.server()
    yield
    if before is None or trial.stoker.server() != before:
        trial.wrong.append(f"the server ended because {what}")


def serves(trial, since):
    try:
        trial.probe(SERVES_WITHIN)
    except TimeoutError as error:
        trial.wrong.append(f"{error} after {since}")
    trial.up_again()
