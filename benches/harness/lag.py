"""How long the server leaves a PING unanswered while 100 workers are killed at once.

One PING is sent each millisecond, on a clock that does not wait for PONGs. The delay consists of the lag of the
server's event loop, the round trip, and whatever keeps the server from a CPU: 100 processes to reap and, with Stoker,
100 new ones to boot. So it is measured twice: normally, and with real-time priority for the server, which leaves only
the work of its own loop. `late` is the delay of the pinging program's own wake-ups, which the machine causes.
"""

import contextlib
import json
import os
import signal
import subprocess
import time

from . import processes
from .brokers import C, Reference, Stoker
from .report import Result

WORKERS = 100
SECONDS, KILL_AFTER = 4, 1.0
BAR_US = 5000


class Table:
    """The result lines of one way to measure."""

    def __init__(self, how, note):
        self.worst = Result(f"PING while {WORKERS} workers are killed, {how}: max", "µs", bar=BAR_US, note=note)
        self.p99 = Result(f"PING while {WORKERS} workers are killed, {how}: p99", "µs")
        self.late = Result("  the pinging program woke up too late: max", "µs")

    def add(self, found, side):
        for result, key in ((self.worst, "max_us"), (self.p99, "p99_us"), (self.late, "late_max_us")):
            (result.stoker if side.name == Stoker.name else result.reference).append(found[key])
        self.worst.details.setdefault(side.name, []).append(found)

    def results(self):
        return [self.worst, self.p99, self.late]


def run(options, folder):
    rounds = max(1, options.pairs // 2)
    options.say(f"loop lag: 2 x {rounds} rounds of {WORKERS} killed workers")
    yield from measure(Table("as it is", "the reference boots no new ones"), False, rounds, options, folder)
    if not processes.may_run_first():
        options.say("loop lag with the broker first: no privilege for real-time priority, skipped")
        return
    yield from measure(Table("broker first", "what its own loop takes"), True, rounds, options, folder)


def measure(table, first, rounds, options, folder):
    for _ in range(rounds):
        options.await_quiet()
        with Reference(folder, WORKERS, pinned=False, mode="each") as broker:
            table.add(killing(broker, first), broker)
        if options.binary:
            with Stoker(folder, [C / "worker", "each"], WORKERS, options.binary) as broker:
                table.add(killing(broker, first), broker)
                processes.wait_for("new workers", broker.ready, seconds=60, every=0.1)
    return table.results()


def killing(broker, first):
    victims = broker.worker_pids()
    if len(victims) != WORKERS:
        raise RuntimeError(f"{broker.name}: {len(victims)} workers instead of {WORKERS}")
    if first:
        processes.run_first(broker.server_pid())
    ping = processes.start(
        [C / "ping", broker.socket, SECONDS], env={"RT": "1"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        time.sleep(KILL_AFTER)
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        out, err = ping.communicate(timeout=SECONDS + 15)
    finally:
        processes.end(ping)
    if not out:
        raise RuntimeError(f"{broker.name}: ping: {err.strip()}")
    return json.loads(out)
