"""A flood on one queue must not starve another queue, whichever of the two has the higher weight.

Two queues share four workers; one has nine times the weight of the other. One is flooded with enough jobs to keep all
workers busy to the end; the other gets a small job now and then, less than its share. Such a job waits until one of the
flood's jobs ends, because running jobs are not interrupted, and until its own queue has a share.
"""

import random
import time
from statistics import median

from .clocked import Clocked, body, quantile
from .report import Result
from .wire import Client

WORKERS = 4
WEIGHTS = {"high": 9, "low": 1}
FLOOD_US, SMALL_US = 20_000, 2_000
EVERY = 0.05  # average seconds between small jobs; they need 0.04 workers, a tenth of the share of the low queue
FIRST_SMALL = 1_000_000_000


def run(options, folder):
    if not options.binary:
        return
    options.say(f"flood: {options.flood_seconds} s in each direction")
    for flooded, other in (("low", "high"), ("high", "low")):
        yield measure(flooded, other, options, folder)


def measure(flooded, other, options, folder):
    seconds, moments = options.flood_seconds, random.Random(2)
    queues = {name: {"weight": weight} for name, weight in WEIGHTS.items()}
    with Clocked(options, folder, WORKERS, queues=queues, store="sqlite") as server, Client(server.socket) as client:
        count = int(1.3 * (seconds + 2) * WORKERS * 1e6 / FLOOD_US)
        client.push_all((flooded, body(number, FLOOD_US), b"") for number in range(count))
        time.sleep(1)
        safe, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(moments.uniform(0, 2 * EVERY))
            safe.append(client.push_one(other, body(FIRST_SMALL + len(safe), SMALL_US))[1])
        server.wait_for_small(len(safe), FIRST_SMALL)
        records = server.records()
    waits, flood, small = {}, [], []
    for number, start, stop in records:
        if number < FIRST_SMALL:
            flood.append((stop - start) / 1e6)
        else:
            waits[number - FIRST_SMALL] = max(0.0, (start - safe[number - FIRST_SMALL]) / 1e6)
            small.append((stop - start) / 1e6)
    if len(flood) >= count:
        raise RuntimeError("the flood ran dry")
    # The number of workers that the other queue is entitled to. Below one worker, its own jobs take proportionally
    # longer.
    share = WORKERS * WEIGHTS[other] / sum(WEIGHTS.values())
    bar = quantile(flood, 0.99) + quantile(small, 0.99) / min(1.0, share)
    result = Result(f"flood on the {flooded} queue: p99 wait on the {other} one", "ms", bar=round(bar, 1))
    result.stoker.append(quantile(list(waits.values()), 0.99))
    result.note = f"p50 {median(waits.values()):.1f}, max {max(waits.values()):.1f}, of {len(waits)}"
    result.note += f"; a job of the flood: p99 {quantile(flood, 0.99):.1f}"
    result.details = {"waits_ms": sorted(waits.values()), "flood_jobs": len(flood)}
    return result
