"""A row of rounds against one store: start, trouble, drain, judgement."""

import contextlib
import random
import shutil
import subprocess
import time
from pathlib import Path

from harness.processes import wait_for
from harness.wire import WireError
from rig import faults, producers
from rig.judge import judge
from rig.ledger import Ledger, number_of
from rig.stoker import Down, Stoker

IN_FLIGHT = 55  # tasks in flight that a kill waits for; some may end before it strikes
BUSY_WITHIN = 30.0
QUIET = 15.0  # seconds in which no run begins although jobs are left
DISK = "160m"


class Trial:
    def __init__(self, options, no, folder):
        self.options, self.no = options, no
        self.folder = Path(folder)
        self.store_folder = self.folder / "store"
        self.store_folder.mkdir(parents=True)
        self.seed = f"{options.seed}/{no}"
        self.dice = random.Random(self.seed)
        self.kills, self.wrong, self.paused = [], [], []
        self.is_paused = False
        self.mounted = False
        self.recoveries = []  # seconds from a death to the next answer
        self.cuts = [0, 0, 0]  # power cuts, writes that could be lost, writes that were
        self.damaged = None
        self.stuck = set()  # numbers of jobs that stand in the store at the end
        self.rounds = 0
        self.done_faults = []
        self.threads = []
        self.stoker = self.ledger = None

    # The course of it.

    def run(self, deck, rounds):
        """Returns figures and what went wrong. Deals its faults from the deck."""
        options, small = self.options, deck.small
        if small:
            command = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "stoker-campaign", self.store_folder]
            subprocess.run(command, check=True)
            self.mounted = True
        self.ledger = Ledger(self.folder / "runs")
        power = {"cut_log": self.store_folder / "unsynced", "library": options.library} if options.powercut else {}
        self.stoker = Stoker(options.binary, self.folder, self.store_folder, sync=not options.expect_loss, **power)
        self.books = producers.Books(self.ledger)
        self.flags = producers.Flags()
        try:
            self.be_born()
            self.threads, self.flags = producers.start(self.seed, self.stoker.socket, self.books)
            for _ in range(rounds):
                self.round(deck.deal())
            return self.finish()
        except Down as error:
            if not (options.expect_loss and self.cuts[0]):
                raise
            # Without sync SQLite does not promise that a power cut leaves the file whole.
            self.damaged = str(error)
            return self.after_damage()

    def be_born(self):
        """The first start makes the store; it is killed while it does."""
        self.stoker.start()
        wait_for("the first server", self.stoker.server, 20.0, 0.0005)
        self.wait(self.dice.uniform(0, 0.03))
        death = self.kill("all while the store is made")
        self.stoker.kill_all()
        self.after_death(death)
        self.stoker.start()
        self.stoker.await_up()

    def round(self, fault):
        self.await_busy()
        if self.dice.random() < 0.3:
            self.toggle_pause()
        self.wait(self.dice.uniform(0, 0.15))
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
            self.wrong.append(f"{leaked} unique keys are held by nobody")
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
        """Waits until nothing is left to do. Returns how many jobs are."""

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

    # What faults need.

    def wait(self, seconds):
        """A pause whose length belongs to the fault; nobody waits here for something to be ready."""
        time.sleep(seconds)

    def kill(self, what):
        kill = faults.Kill(len(self.kills), what)
        self.kills.append(kill)
        return kill

    def look_at(self, death):
        """The server is dead: what was in flight, and what its store knows."""
        death.in_flight = self.ledger.in_flight_at(death.before)
        snapshot = self.stoker.snapshot()
        death.unfinished, death.trouble = snapshot.unfinished, snapshot.trouble
        if snapshot.trouble and not self.options.expect_loss:
            self.wrong.append(f"the store can't be read after '{death.what}': {snapshot.trouble}")
        if snapshot.trouble is None:
            missing = {}
            for push in list(self.books.pushes.values()):
                if push.accepted and push.accepted < time.monotonic_ns() and push.n not in self.ledger.finals:
                    number = number_of(push.job)
                    if number not in snapshot.unfinished:
                        missing[number] = push
            ended = snapshot.look_for(missing)
            for number, push in missing.items():
                if number not in ended:
                    death.lost.append(push.n)
                    self.wrong.append(f"LOST at kill {death.no} ({death.what}): push {push.n}, job {push.job} ({push.queue})")
        snapshot.discard()

    def after_death(self, death):
        """All processes are gone."""
        if self.options.powercut:
            unsynced, lost = self.stoker.cut_power(self.dice)
            self.cuts = [self.cuts[0] + 1, self.cuts[1] + unsynced, self.cuts[2] + lost]
            death.what += f", power cut ({lost} of {unsynced} writes lost)"
        self.look_at(death)
        self.ledger.cut(death)
        death.after = time.monotonic_ns()

    def up_again(self):
        self.stoker.await_up()
        if self.kills and self.kills[-1].of_server:
            self.recoveries.append((time.monotonic_ns() - self.kills[-1].before) / 1e9)
        self.check_producers()

    def await_busy(self):
        def busy():
            self.check_producers()
            return self.ledger.in_flight() >= IN_FLIGHT

        try:
            wait_for(f"{IN_FLIGHT} tasks in flight", busy, BUSY_WITHIN, 0.004)
        except TimeoutError as error:
            raise Down(f"{error}; {len(self.ledger.open)} are. {self.stoker.last_words()}") from None

    def probe(self, within):
        """Pushes one job again and again until it is accepted."""
        push = self.books.number(lambda n: producers.Push(n, "plain", ms=5, idempotent=True))
        push.sent = time.monotonic_ns()

        def accepted():
            with contextlib.suppress(OSError, WireError), self.stoker.client() as client:
                client.socket.sendall(push.frame(1, 0))
                push.job = client._answer("stoker.push").decode()
                return True
            return False

        wait_for("a push to be accepted", accepted, within, 0.01)
        push.accepted = time.monotonic_ns()
        push.ids.add(push.job)
        with self.books.lock:
            self.books.accepted += 1
            self.books.accepted_of[push.queue] += 1

    def check_producers(self):
        for thread in self.threads:
            if thread.failure:
                raise thread.failure

    def toggle_pause(self):
        if self.is_paused:
            until = time.monotonic_ns()
            self.stoker.call("stoker.queue", {"op": "resume", "queue": "held"})
            self.paused[-1][1] = until
        else:
            self.stoker.call("stoker.queue", {"op": "pause", "queue": "held"})
            self.paused.append([time.monotonic_ns(), 1 << 63])
        self.is_paused = not self.is_paused

    def check_pause(self):
        held = [queue for queue in self.queues() if queue["name"] == "held"]
        if held and held[0]["paused"] != self.is_paused:
            self.wrong.append(f"a queue's pause was forgotten or invented: {held[0]['paused']}")
            self.is_paused = not self.is_paused
            if not self.is_paused:
                self.paused[-1][1] = self.paused[-1][0]

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
