"""A series of rounds against one store: start, faults, drain, judgement."""

import collections
import random
import shutil
import subprocess
import time
from pathlib import Path

from harness.processes import wait_for
from rig import draw, producers
from rig.judge import judge
from rig.ledger import Ledger
from rig.stage import Stage
from rig.stoker import Down, Stoker

QUIET = 15.0  # seconds without a new run, although jobs are left, after which the drain ends
DISK = "400m"  # repairing the store takes room for another log


class Trial(Stage):
    def __init__(self, options, no, folder):
        self.options, self.no = options, no
        self.folder = Path(folder)
        self.store_folder = self.folder / "store"
        self.store_folder.mkdir(parents=True)
        self.seed = f"{options.seed}/{no}"
        self.dice = random.Random(self.seed)
        self.drawn = draw.queues(self.seed, options.simulation)
        self.kills, self.wrong, self.paused = [], [], []
        self.is_paused = self.was_idle = False
        self.mounted = False
        self.recoveries = []  # seconds from a death to the next response
        self.migrations = collections.Counter()  # starts that were killed during a migration: cut off, done
        self.cuts = [0, 0, 0]  # power cuts, writes that could be lost, writes that were lost
        self.damaged = None
        self.stuck = set()  # numbers of jobs that are in the store at the end
        self.rounds = 0
        self.done_faults = []
        self.threads = []
        self.stoker = self.ledger = None

    # The course of a trial.

    def run(self, faults, small):
        """Returns the figures and the violations. With `small` the store is on a disk that can fill up."""
        options = self.options
        if small:
            command = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "stoker-campaign", self.store_folder]
            subprocess.run(command, check=True)
            self.mounted = True
        self.ledger = Ledger(self.folder / "runs")
        self.ledger.of_programs = {queue.name for queue in self.drawn if queue.is_of_programs}
        sync, libraries = not options.expect_loss, options.libraries
        self.stoker = Stoker(
            options.binary, self.folder, self.store_folder, sync=sync, libraries=libraries, drawn=self.drawn
        )
        self.books = producers.Books(self.ledger)
        self.flags = producers.Flags()
        try:
            self.be_born()
            self.start_producers()
            for fault in faults:
                self.round(fault)
            return self.finish()
        except Down as error:
            if not (options.expect_loss and self.cuts[0]):
                raise
            # Without sync, SQLite does not promise that the file survives a power cut.
            self.damaged = str(error)
            return self.after_damage()

    def start_producers(self):
        shared = self.seed, self.stoker.socket, self.books, self.flags
        self.threads = [kind(name, *shared) for name, kind in producers.KINDS]
        self.threads.append(draw.Quick("quick", *shared, self.drawn))
        for thread in self.threads:
            thread.start()

    def be_born(self):
        """The first start creates the store, and is killed while it does."""
        self.stoker.start()
        wait_for("the first server", self.stoker.server, 20.0, 0.0005)
        self.wait(self.dice.uniform(0, 0.03))
        death = self.strike("all while the store is made", busy=False)
        self.stoker.kill_all()
        self.after_death(death)
        self.stoker.start()
        self.stoker.await_up()

    def round(self, fault):
        if self.dice.random() < 0.3:
            self.toggle_pause()
        self.wait(self.dice.uniform(0, 0.1))
        self.await_busy()
        before = len(self.kills)
        fault(self)
        self.rounds += 1
        self.check_pause()
        self.done_faults.append(fault.__name__)
        flights = [kill.in_flight for kill in self.kills[before:]]
        self.options.say(f"{self.no}.{self.rounds} {fault.__name__}, in flight {flights or '-'}")

    def finish(self):
        if self.is_paused:
            self.toggle_pause()
        self.flags.stop.set()
        (self.folder / "runs-hurry").touch()
        for thread in self.threads:
            thread.join(60.0)
        self.check_producers()
        if any(thread.is_alive() for thread in self.threads):
            self.wrong.append("a producer is still in doubt a minute after the last fault")
        left = self.drain()
        failed, counts = self.failed(), self.counts()
        code = self.stoker.terminate()
        if code != 0:
            self.wrong.append(f"exit code {code} after the last TERM")
        leftover = self.stoker.everybody()
        if leftover:
            self.wrong.append(f"{len(leftover)} processes were left behind")
        snapshot = self.stoker.snapshot()
        opinion, leaked = snapshot.check()
        snapshot.discard()
        if opinion != "ok":
            self.wrong.append(f"the store is damaged: {opinion}")
        if leaked:
            self.wrong.append(f"{leaked} unique keys are held by no unfinished job")
        self.stuck = set(snapshot.unfinished)
        left = max(left, len(self.stuck))
        if left:
            self.wrong.append(f"{left} jobs were left in the store")
        self.ledger.catch_up()
        figures, wrong = judge(self, failed, counts)
        figures |= {"left_in_store": left, "leaked_unique": leaked, "leftover_processes": len(leftover)}
        return figures, wrong

    def after_damage(self):
        self.flags.abandon.set()
        self.stoker.end()
        self.ledger.catch_up()
        gone = [push for push in self.books.pushes.values() if push.accepted and push.n not in self.ledger.finals]
        figures = {"pushes": len(self.books.pushes), "accepted": self.books.accepted, "lost": len(gone), "damaged": 1}
        return figures, []

    def drain(self):
        """Waits until no job is left, or until nothing happens any more. Returns how many jobs are left."""

        def unfinished():
            return sum(queue[state] for queue in self.queues() for state in ("ready", "running", "delayed", "suspended"))

        runs, moved = -1, time.monotonic()
        while (left := unfinished()) and time.monotonic() < moved + QUIET:
            self.ledger.catch_up()
            if len(self.ledger.runs) != runs:
                runs, moved = len(self.ledger.runs), time.monotonic()
            time.sleep(0.02)
        return left

    def clean_up(self):
        self.flags.abandon.set() if hasattr(self, "flags") else None
        left = self.stoker.end() if self.stoker else []
        for thread in self.threads:
            thread.join(5.0)
        if self.ledger:
            self.ledger.close()
        if self.mounted:
            if self.options.keep_always or self.options.failing:
                shutil.copytree(self.store_folder, self.folder / "store-kept", ignore=shutil.ignore_patterns("filler"))
            self.unmount()
        return left

    def unmount(self):
        for how in ([], ["-l"]):
            if subprocess.run(["umount", *how, self.store_folder], stderr=subprocess.DEVNULL).returncode == 0:
                self.mounted = False
                return

    # Requests to Stoker.

    def queues(self):
        found = self.stoker.call("stoker.queue", {"op": "list"})["queues"]
        return [queue for queue in found if queue["kind"] == "jobs"]

    def counts(self):
        queues = self.queues()
        return {state: sum(queue[state] for queue in queues) for state in ("done", "failed", "cancelled")}

    def failed(self):
        found, after = {}, None
        while True:
            ask = {"op": "list", "state": "failed", "limit": 1000} | ({"after": after} if after else {})
            page = self.stoker.call("stoker.job", ask)
            found |= {job["id"]: job["error"]["class"] for job in page["jobs"]}
            after = page["next"]
            if not after:
                return found
