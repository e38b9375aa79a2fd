"""The part of a trial that faults use: to strike when enough tasks are in flight, and to record the effect."""

import contextlib
import time

from harness.processes import wait_for
from harness.wire import WireError
from rig import producers
from rig.kill import MIN_IN_FLIGHT, Kill
from rig.ledger import number_of
from rig.stoker import Down

IN_FLIGHT = MIN_IN_FLIGHT + 15  # tasks in flight that a kill waits for; some may end before it
BUSY_WITHIN = 20.0
FRESH = 0.005  # maximum duration of a count in seconds: on a busy machine many runs end in a few more


class Stage:
    def wait(self, seconds):
        """A pause whose length is part of the fault; it is never used to wait until something is ready."""
        time.sleep(seconds)

    def strike(self, what, busy=True, wait=True, since=None):
        """Records a kill, which the caller makes at once, and waits until enough tasks are in flight. With `since`,
        when a process was stopped, or without `wait` it does not wait, and enough tasks must have been in flight
        already."""
        if busy and wait and since is None:
            self.await_busy()
        kill = Kill(len(self.kills), what, busy, since)
        self.kills.append(kill)
        return kill

    def look_at(self, death):
        """The server is dead: records what was in flight, and what its store knows."""
        death.in_flight = self.ledger.in_flight_at(death.since)
        snapshot = self.stoker.snapshot()
        missing = {} if snapshot.trouble else self.missing_from(snapshot)
        ended = snapshot.look_for(missing)
        death.unfinished, death.version, death.trouble = snapshot.unfinished, snapshot.version, snapshot.trouble
        if snapshot.trouble and not self.options.expect_loss:
            self.wrong.append(f"the store can't be read after '{death.what}': {snapshot.trouble}")
        if snapshot.trouble is None:
            for number, push in missing.items():
                if number not in ended:
                    death.lost.append(push.n)
                    self.wrong.append(f"LOST at kill {death.no} ({death.what}): push {push.n}, job {push.job} ({push.queue})")
        snapshot.discard()

    def missing_from(self, snapshot):
        """Returns the accepted pushes that are not among the snapshot's unfinished jobs, by their numbers in the
        store."""
        missing, now = {}, time.monotonic_ns()
        for push in list(self.books.pushes.values()):
            if push.accepted and push.accepted < now and push.n not in self.ledger.finals:
                number = number_of(push.job)
                if number not in snapshot.unfinished:
                    missing[number] = push
        return missing

    def after_death(self, death):
        """All processes are gone: cuts the power if requested, and records the effect."""
        if self.options.powercut:
            unsynced, lost = self.stoker.cut_power(self.dice)
            self.cuts = [self.cuts[0] + 1, self.cuts[1] + unsynced, self.cuts[2] + lost]
            death.what += f", power cut ({lost} of {unsynced} writes lost)"
        self.look_at(death)
        self.ledger.cut(death)
        death.after = time.monotonic_ns()

    def terminate(self, death):
        """Ends Stoker gracefully."""
        code = self.stoker.terminate()
        if code != 0:
            self.wrong.append(f"exit code {code} after TERM")
        self.after_death(death)

    def up_again(self):
        self.stoker.await_up()
        if self.kills and self.kills[-1].of_server:
            self.recoveries.append((time.monotonic_ns() - self.kills[-1].before) / 1e9)
        self.check_producers()

    def await_busy(self, least=IN_FLIGHT):
        def busy():
            self.check_producers()
            began = time.monotonic()
            return self.ledger.in_flight() >= least and time.monotonic() - began < FRESH

        try:
            wait_for(f"{least} tasks in flight", busy, BUSY_WITHIN, 0.002)
        except TimeoutError as error:
            text = f"{error}; {len(self.ledger.open)} are. {self.stoker.last_words()}"
            # A machine may be slow once. If Stoker does not get busy a second time, the trial ends.
            if self.was_idle or self.options.expect_loss:
                raise Down(text) from None
            self.was_idle = True
            self.wrong.append(text)

    def probe(self, within):
        """Repeats the push of one job until it is accepted."""
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
            self.stoker.call("stoker.queue", {"op": "pause", "queue": "held", "create": True})
            self.paused.append([time.monotonic_ns(), 1 << 63])
        self.is_paused = not self.is_paused

    def check_pause(self):
        held = [queue for queue in self.queues() if queue["name"] == "held"]
        if held and held[0]["paused"] != self.is_paused:
            self.wrong.append(f"a queue's pause was forgotten or invented: {held[0]['paused']}")
            self.is_paused = not self.is_paused
            if not self.is_paused:
                self.paused[-1][1] = self.paused[-1][0]
