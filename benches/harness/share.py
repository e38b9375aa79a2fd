"""Fairness over a minute: queues that always have work, with jobs of very different lengths, get busy time by
weight."""

import time
from collections import Counter

from .clocked import Clocked, body
from .report import Result
from .wire import Client

WORKERS = 4
WEIGHTS = {"six": 6, "three": 3, "one": 1}
# Long enough that a worker's own clock, which excludes its communication with the server, is accurate within 1 %.
MICROSECONDS = {"six": 5_000, "three": 20_000, "one": 100_000}
BAR_PERCENT = 5.0
SETTLE_SECONDS = 2  # the queue that is resumed first has all workers at first


def run(options, folder):
    if not options.binary:
        return
    seconds = options.share_seconds
    options.say(f"share: {seconds} s of queues weighted {' : '.join(str(weight) for weight in WEIGHTS.values())}")
    result = Result(f"busy time of always full queues, {seconds} s: worst deviation from weight", "%", bar=BAR_PERCENT)
    queues = {name: {"weight": weight} for name, weight in WEIGHTS.items()}
    with Clocked(options, folder, WORKERS, queues=queues, store="sqlite") as server, Client(server.socket) as client:
        for name in WEIGHTS:
            client.call("stoker.queue", {"op": "pause", "queue": name, "create": True})
        names = list(WEIGHTS)
        for at, name in enumerate(names):
            # One and a half times what the queue's share needs: no queue may run empty.
            share = WEIGHTS[name] / sum(WEIGHTS.values()) * WORKERS
            count = int(1.5 * share * (seconds + SETTLE_SECONDS) * 1e6 / MICROSECONDS[name]) + 10
            client.push_all((name, body(at, MICROSECONDS[name]), b"") for _ in range(count))
        # The first queue in the list must not get a worker before the others compete for one.
        for name in reversed(names):
            client.call("stoker.queue", {"op": "resume", "queue": name})
        time.sleep(SETTLE_SECONDS)
        begin = time.monotonic_ns()
        time.sleep(seconds)
        end = time.monotonic_ns()
        time.sleep(1)  # the jobs that ran then have written their records by now
        records = server.records()
    busy, jobs = [0] * len(names), Counter()
    for at, started, ended in records:
        # A job that crosses the border counts with the part inside.
        if (within := min(ended, end) - max(started, begin)) > 0:
            busy[at] += within
            jobs[names[at]] += 1
    shares = {name: busy[at] / sum(busy) for at, name in enumerate(names)}
    wanted = {name: WEIGHTS[name] / sum(WEIGHTS.values()) for name in names}
    result.stoker.append(max(abs(shares[name] / wanted[name] - 1) for name in names) * 100)
    result.note = ", ".join(f"{name} {shares[name]:.1%} of {wanted[name]:.0%}" for name in names)
    result.details = {"shares": shares, "jobs": dict(jobs)}
    yield result

