"""Reads what the workers recorded about their runs, and what is in the store."""

import collections
import shutil
import sqlite3
import struct
import threading
import uuid
from pathlib import Path


def is_dead(pid):
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat[stat.rindex(")") + 2] in "ZX"


class Run:
    """One run of a job, as its worker recorded it."""

    __slots__ = ("tag", "pid", "n", "job", "number", "attempt", "crashes", "began", "acked", "ended", "outcome", "cut")

    def __init__(self, tag, began, job, n, attempt, crashes):
        self.tag, self.began, self.job = tag, began, job
        self.n, self.attempt, self.crashes = n, attempt, crashes
        self.pid = int(tag.split(".", 1)[0])
        self.number = number_of(job)
        self.acked = self.ended = self.outcome = self.cut = None


class Ledger:
    """Follows the file that all workers append to."""

    def __init__(self, path):
        self.path = Path(path)
        self.path.touch()
        self.file = open(path, "rb")
        self.rest = b""
        self.lock = threading.Lock()
        self.runs = []  # in the order in which they were written
        self.open = {}  # by tag; neither ended nor interrupted
        self.by_tag = {}
        self.first = {}  # pid -> when its first run began
        self.life = {}  # pid of a worker -> number of the kill that ended its server
        self.done = set()  # numbers of pushes whose jobs are done
        self.finals = set()  # those done, and those whose last allowed run failed
        self.finals_of = collections.Counter()  # by queue
        self.about = {}  # number of a push -> its queue, and how many runs its job may have
        self.of_programs = set()  # queues whose jobs are run by programs that an adapter starts

    def close(self):
        self.file.close()

    def catch_up(self):
        with self.lock:
            lines = (self.rest + self.file.read()).split(b"\n")
            self.rest = lines.pop()
            for line in lines:
                self._take(line.decode().split())

    def _take(self, words):
        if words[0] == "S":
            _, tag, began, job, n, attempt, crashes = words
            run = Run(tag, int(began), job, int(n), int(attempt), int(crashes))
            self.runs.append(run)
            self.open[tag] = self.by_tag[tag] = run
            self.first.setdefault(run.pid, run.began)
        elif words[0] == "A":
            # The job is done, and its worker has read the confirmation.
            _, tag, acked = words
            run = self.by_tag[tag]
            run.acked = int(acked)
            self.done.add(run.n)
            self._final(run)
        else:
            _, tag, ended, outcome = words
            run = self.by_tag[tag]
            run.ended, run.outcome = int(ended), outcome
            self.open.pop(tag, None)
            if outcome == "done":
                self.done.add(run.n)
            if outcome == "done" or run.attempt + 1 >= self.about[run.n][1]:
                self._final(run)

    def _final(self, run):
        if run.n not in self.finals:
            self.finals.add(run.n)
            self.finals_of[self.about[run.n][0]] += 1

    def in_flight(self):
        self.catch_up()
        return len(self.open)

    def in_flight_at(self, when):
        """Returns how many runs had begun and not ended at `when`."""
        self.catch_up()
        with self.lock:
            began = [run for run in self.runs[-3000:] if run.began <= when]
            return sum((run.ended or when + 1) > when and (run.cut is None or run.cut.before >= when) for run in began)

    def cut(self, kill, pids=None, until=None):
        """Marks the open runs of dead processes (without `pids`: of all) as interrupted, because they will never
        end. Runs that began before `until` (without it: before the kill) are those of the server that was killed."""
        self.catch_up()
        with self.lock:
            gone = [run for run in self.open.values() if pids is None or run.pid in pids or is_dead(run.pid)]
            for run in gone:
                run.cut = kill
                del self.open[run.tag]
            # `pids` may lack processes that started just before the kill.
            pids = None if pids is None else pids | {run.pid for run in gone}
            if kill.of_server:
                for pid, began in self.first.items():
                    if pid not in self.life and (pids is None or pid in pids or began < (until or kill.before)):
                        self.life[pid] = kill.no


def number_of(job):
    """Returns a job's number in the store from its public id (crates/store/src/id.rs)."""
    value = uuid.UUID(job).int
    high, low = value >> 64, value & (1 << 64) - 1
    return high >> 16 << 15 | (high & 0xFFF) << 3 | low >> 59 & 7


class Snapshot:
    """The content of a store that no process has open, read from a copy."""

    def __init__(self, store, folder):
        self.unfinished = {}  # number -> how many runs its code ended
        self.ended = {}  # number -> state
        self.running = set()  # numbers of the jobs recorded as running, for which the next server counts a crash
        self.version = 0  # of the schema
        self.trouble = None
        copy = Path(folder) / "copy.db"
        for suffix in ("", "-wal"):
            source, target = Path(f"{store}{suffix}"), Path(f"{copy}{suffix}")
            target.unlink(missing_ok=True)
            if source.exists():
                shutil.copyfile(source, target)
        Path(f"{copy}-shm").unlink(missing_ok=True)
        if not copy.exists():
            return
        self.copy = copy
        try:
            with self._open() as db:
                (self.version,) = db.execute("PRAGMA user_version").fetchone()
                if db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'jobs'").fetchone()[0]:
                    self.unfinished = dict(db.execute("SELECT id, attempt FROM jobs"))
                    for (ids,) in db.execute("SELECT ids FROM running"):
                        self.running = {number for (number,) in struct.iter_unpack("<q", ids)}
        except sqlite3.DatabaseError as error:
            self.trouble = str(error)

    def _open(self):
        db = sqlite3.connect(self.copy)
        db.text_factory = bytes
        return db

    def look_for(self, numbers):
        """Returns the states of the given jobs that have ended. Sets `trouble` if the table can't be read."""
        found = {}
        if not hasattr(self, "copy"):
            return found
        try:
            with self._open() as db:
                for number in numbers:
                    for (state,) in db.execute("SELECT state FROM ended WHERE id = ?", [number]):
                        found[number] = state
        except sqlite3.DatabaseError as error:
            self.trouble = str(error)
        return found

    def check(self):
        """Returns the result of SQLite's integrity check, and the number of unique keys that no unfinished job
        holds."""
        leaked = "SELECT count(*) FROM uniques WHERE until IS NULL AND job NOT IN (SELECT id FROM jobs)"
        try:
            with self._open() as db:
                (opinion,) = db.execute("PRAGMA integrity_check").fetchone()
                (leaked,) = db.execute(leaked).fetchone()
        except sqlite3.DatabaseError as error:
            return str(error), 0
        return opinion.decode(), leaked

    def discard(self):
        if hasattr(self, "copy"):
            for suffix in ("", "-wal", "-shm"):
                Path(f"{self.copy}{suffix}").unlink(missing_ok=True)

