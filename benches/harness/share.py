"""Fairness in a real minute: queues that always have work, with jobs of very different lengths, get busy time by weight."""

import time
from collections import Counter

from .clocked import Clocked, body
from .report import Result
from .wire import Client

WORKERS = 4
WEIGHTS = {"six": 6, "three": 3, "one": 1}
MICROSECONDS = {"six": 2_000, "three": 10_000, "one": 100_000}
BAR_PERCENT = 5.0


def run(options, folder):
    if not options.binary:
        return
    seconds = options.share_seconds
    options.say(f"share: {seconds} s of queues weighted {' : '.join(str(weight) for weight in WEIGHTS.values())}")
    result = Result(f"busy time of always full queues, {seconds} s: worst deviation from weight", "%", bar=BAR_PERCENT)
    queues = {name: {"weight": weight} for name, weight in WEIGHTS.items()}
    with Clocked(options, folder, WORKERS, queues=queues, store="sqlite") as server, Client(server.socket) as client:
        for name in WEIGHTS:
            client.call("stoker.queue", {"op": "pause", "queue": name})
        names = list(WEIGHTS)
        for at, name in enumerate(names):
            # Half as much again as its share takes: no queue may run empty.
            share = WEIGHTS[name] / sum(WEIGHTS.values()) * WORKERS
            count = int(1.5 * share * seconds * 1e6 / MICROSECONDS[name]) + 10
            client.push_all((name, body(at, MICROSECONDS[name]), b"") for _ in range(count))
        # The first in the list must not have a worker before the others may want one.
        for name in reversed(names):
            client.call("stoker.queue", {"op": "resume", "queue": name})
        begin = None
        while begin is None or last - begin < seconds * 1e9:
            time.sleep(0.5)
            records = server.records()
            if records:
                begin, last = records[0][1], max(end for _, _, end in records)
        records = [record for record in records if record[2] <= begin + seconds * 1e9]
    busy = [0] * len(names)
    for at, start, end in records:
        busy[at] += end - start
    shares = {name: busy[at] / sum(busy) for at, name in enumerate(names)}
    wanted = {name: WEIGHTS[name] / sum(WEIGHTS.values()) for name in names}
    result.stoker.append(max(abs(shares[name] / wanted[name] - 1) for name in names) * 100)
    result.note = ", ".join(f"{name} {shares[name]:.1%} of {wanted[name]:.0%}" for name in names)
    result.details = {"shares": shares, "jobs": dict(Counter(names[at] for at, _, _ in records))}
    yield result

