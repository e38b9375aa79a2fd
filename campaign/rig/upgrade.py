"""Kills during starts that upgrade a store of an older version."""

import contextlib
import re
import sqlite3
from pathlib import Path

from harness.processes import wait_for
from rig.kill import kill_everything

# Downgrades a store of the current version, with its jobs.
DOWNGRADE = Path(__file__).with_name("downgrade.sql")
STEPS = 500  # calls that a start makes to the store until it has migrated, and some more
STOPS_WITHIN = 0.5


def migration(trial):
    """Stops Stoker by TERM or kill -9 and downgrades the store; then kills some starts, and lets one succeed."""
    if trial.dice.random() < 0.5:
        death = trial.strike("TERM")
        death.graceful = True
        trial.terminate(death)
    else:
        kill_everything(trial, "all")
    script, left = DOWNGRADE.read_text(), None
    old = int(re.search(r"user_version = (\d+)", script)[1])
    for _ in range(trial.dice.randint(2, 5)):
        # The next start must repair what a killed start has left of a migration, so no other program opens the file
        # before it.
        if left != old:
            downgrade(trial.stoker.store, script)
        left = kill_start(trial)
        trial.migrations["cut off" if left == old else "done"] += 1
    trial.stoker.start()
    trial.up_again()
    if version(trial.stoker.store) <= old:
        trial.wrong.append(f"the store is still of version {old}")


def downgrade(store, script):
    with contextlib.closing(sqlite3.connect(store)) as db:
        db.executescript(script)


def version(store):
    with contextlib.closing(sqlite3.connect(store)) as db:
        return db.execute("PRAGMA user_version").fetchone()[0]


def kill_start(trial):
    """Kills a start after a random time, or before a random call of the store. Returns the store's version after
    that."""
    stoker, dice = trial.stoker, trial.dice
    by_call = stoker.disk and dice.random() < 0.7
    if by_call:
        stoker.disk.stop_at(int(STEPS ** dice.random()), counting=1)
    stoker.start()
    wait_for("the next server", stoker.server, 20.0, 0.0005)
    if by_call:
        with contextlib.suppress(TimeoutError):
            wait_for("the call to stop at", lambda: stoker.disk.control.stopped_at, STOPS_WITHIN, 0.0005)
        stoker.disk.heal()
    else:
        trial.wait(dice.uniform(0, 0.03))
    return kill_everything(trial, "all in migration", busy=False).version
