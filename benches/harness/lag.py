"""How long the broker leaves a PING unanswered while 100 workers are killed at once.

One PING each millisecond, on a clock that does not wait for PONGs. The answer takes the lag of the broker's loop and
one way there and back; a machine with few CPUs adds what it takes to bury 100 processes and, with Stoker, to boot 100
new ones. So `late`, how much too late the pinging program itself woke up, is reported beside it.
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


def run(options, folder):
    rounds = max(1, options.pairs // 2)
    options.say(f"loop lag: {rounds} rounds of {WORKERS} killed workers")
    worst = Result(f"PING while {WORKERS} workers are killed: max", "µs", bar=BAR_US)
    p99 = Result(f"PING while {WORKERS} workers are killed: p99", "µs")
    late = Result("  the pinging program woke up too late: max", "µs", note="what the machine adds")
    for _ in range(rounds):
        with Reference(folder, WORKERS, pinned=False, mode="each") as broker:
            record(killing(broker), broker, worst, p99, late)
        if options.binary:
            with Stoker(folder, [C / "worker", "each"], WORKERS, options.binary) as broker:
                record(killing(broker), broker, worst, p99, late)
                start = time.monotonic()
                processes.wait_for("new workers", broker.ready, seconds=60, every=0.1)
                worst.details.setdefault("ready_again_s", []).append(SECONDS - KILL_AFTER + time.monotonic() - start)
    worst.note = "bar: loop lag, of which this is an upper bound"
    return [worst, p99, late]


def record(found, side, worst, p99, late):
    for result, key in ((worst, "max_us"), (p99, "p99_us"), (late, "late_max_us")):
        (result.stoker if side.name == Stoker.name else result.reference).append(found[key])
    worst.details.setdefault(side.name, []).append(found)


def killing(broker):
    victims = broker.worker_pids()
    if len(victims) != WORKERS:
        raise RuntimeError(f"{broker.name}: {len(victims)} workers instead of {WORKERS}")
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
