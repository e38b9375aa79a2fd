"""A "recorded" day: 120 queues with different weights, rates and job lengths, replayed at a higher speed.

No real recording may be published, so a seeded generator draws the day: a few queues have most of the jobs, many have
few, and one has almost none; there are office hours from eight to six, batches at night, and bursts. In the busiest
hours more work arrives than the workers can do, and then the weights decide.

The fair share of each queue is what a fluid server would have given it: in each slice of the day, the workers' real
busy time is divided by weight among the queues that have work, and no queue gets more than its work. A fluid server can
stop in the middle of a job and a worker can't, so the results are per hour, not per slice. `misplaced` is the part of
an hour's busy time that went to the wrong queues.
"""

import gc
import math
import random
import time
from array import array

from .clocked import Clocked, body, quantile
from .report import Result
from .wire import Client

QUEUES, HOURS, SLICES, WORKERS = 120, 24, 1440, 16
SEED = 4
WEIGHTS = (1, 1, 1, 2, 3, 5, 8)
LOAD = 0.75  # share of the total capacity over the day; the busiest hours reach about 1.5
OVERHEAD_US = 250  # what a job costs a worker in addition to its sleep
BAR_PERCENT = 5.0


class Queue:
    def __init__(self, number, draw):
        self.number, self.name = number, f"q{number:03}"
        self.weight = draw.choice(WEIGHTS)
        self.rate = 1 / (number + 1) ** 1.1  # Zipf: q000 has a fifth of all jobs
        self.microseconds = math.exp(draw.gauss(0, 1.2))  # relative, until all lengths are known
        self.at_night = draw.random() < 0.25
        self.bursts = [draw.uniform(0, HOURS) for _ in range(draw.choice((0, 0, 1, 3)))]

    def intensity(self, hour):
        base = 0.15 + 0.85 * math.exp(-(((hour - 13) / 4) ** 2))
        if self.at_night:
            base = 0.1 + 1.5 * math.exp(-(((hour - 2) / 1.5) ** 2))
        return base + sum(6 for burst in self.bursts if burst <= hour < burst + 0.3)


def record(jobs, seconds):
    """Returns the queues and the sorted arrivals (seconds, queue number). The same arguments give the same result."""
    draw = random.Random(SEED)
    queues = [Queue(number, draw) for number in range(QUEUES)]
    queues[-1].rate, queues[-1].weight, queues[-1].bursts = 0, 1, []
    total = sum(queue.rate for queue in queues)
    arrivals = []
    for queue in queues:
        # Even the rarest queue has twelve jobs a day, whatever the total is.
        count = max(12, round(jobs * queue.rate / total))
        steps = [queue.intensity((slice + 0.5) * HOURS / SLICES) for slice in range(SLICES)]
        for at in draw.choices(range(SLICES), steps, k=count):
            arrivals.append(((at + draw.random()) / SLICES * seconds, queue.number))
    arrivals.sort()
    # The number of jobs per queue is known now, so their lengths are scaled to make the total work match LOAD.
    counts = [0] * QUEUES
    for _, number in arrivals:
        counts[number] += 1
    budget = LOAD * WORKERS * seconds * 1e6 - OVERHEAD_US * len(arrivals)
    scale = budget / sum(queue.microseconds * counts[queue.number] for queue in queues)
    if scale <= 0:
        raise ValueError(f"{len(arrivals)} jobs are too many for {seconds} s: more than {WORKERS} workers can do")
    for queue in queues:
        queue.microseconds = max(1, round(queue.microseconds * scale))
    return queues, arrivals


def run(options, folder):
    if not options.binary:
        return
    seconds = options.day_seconds
    options.say(f"day: {options.day_jobs:,} jobs of {QUEUES} queues, a day in {seconds} s")
    queues, arrivals = record(options.day_jobs, seconds)
    settings = {queue.name: {"weight": queue.weight} for queue in queues}
    with Clocked(options, folder, WORKERS, queues=settings, store="sqlite") as server, Client(server.socket) as client:
        pushed, late = replay(client, queues, arrivals)
        server.wait(len(arrivals), seconds * 3 + 60)
        records = server.records()
    if len(records) != len(arrivals):
        raise RuntimeError(f"{len(arrivals)} jobs were pushed, {len(records)} were run")
    if late > seconds / HOURS * 1e3 / 10:
        raise RuntimeError(f"the producer came {late:.0f} ms too late: this machine can't replay the day at this speed")
    yield from judge(queues, arrivals, pushed, late, records, seconds)


def replay(client, queues, arrivals):
    """Pushes each job when it is due. Returns the push times in ns, and the largest delay in ms."""
    pushed, late, at = array("q", bytes(8 * len(arrivals))), 0, 0
    gc.disable()  # a pause of the producer must not count against the server
    try:
        start = time.monotonic_ns()
        while at < len(arrivals):
            now = time.monotonic_ns()
            passed, first = (now - start) / 1e9, at
            while at < len(arrivals) and arrivals[at][0] <= passed and at - first < 2_000:
                pushed[at] = now
                at += 1
            if at > first:
                late = max(late, passed - arrivals[first][0])
                client.push_all(
                    (queues[arrivals[i][1]].name, body(i, queues[arrivals[i][1]].microseconds), b"") for i in range(first, at)
                )
            if at < len(arrivals):
                time.sleep(max(0.0, min(0.005, arrivals[at][0] - (time.monotonic_ns() - start) / 1e9)))
    finally:
        gc.enable()
    return pushed, late * 1e3


def judge(queues, arrivals, pushed, late, records, seconds):
    begin = pushed[0]
    slice_ns = seconds * 1e9 / SLICES
    slices = int((max(end for _, _, end in records) - begin) / slice_ns) + 1
    came = [[0.0] * QUEUES for _ in range(slices)]  # the work in ns that arrived in each slice, and that was done in it
    had = [[0.0] * QUEUES for _ in range(slices)]
    waits = [[] for _ in range(QUEUES)]
    busy = 0
    for number, start, end in records:
        queue = arrivals[number][1]
        came[min(slices - 1, int((pushed[number] - begin) / slice_ns))][queue] += end - start
        waits[queue].append((start - pushed[number]) / 1e6)
        busy += end - start
        while start < end:  # a job that spans several slices is split among them
            at = int((start - begin) / slice_ns)
            until = min(end, math.ceil(begin + (at + 1) * slice_ns))
            had[min(slices - 1, at)][queue] += until - start
            start = max(until, start + 1)
    wanted, contended = fluid(came, had, [queue.weight for queue in queues])
    hour, misplaced = SLICES // HOURS, []
    for first in range(0, slices, hour):
        # Without contention every queue got all it wanted, so only contended hours count.
        if sum(contended[first : first + hour]) * 2 < hour:
            continue
        mine = [sum(column) for column in zip(*had[first : first + hour])]
        fair = [sum(column) for column in zip(*wanted[first : first + hour])]
        misplaced.append(sum(abs(a - b) for a, b in zip(mine, fair)) / 2 / sum(mine) * 100)

    load = f"{len(records):,} jobs, workers busy {busy / (slices * slice_ns * WORKERS):.0%}, producer late by {late:.0f} ms"
    worst = Result("recorded day: busy time misplaced in the worst contended hour", "%", bar=BAR_PERCENT, note=load)
    if misplaced:
        worst.stoker.append(max(misplaced))
    else:
        worst.note += "; no hour was contended"
    worst.details = {"misplaced_by_hour": misplaced, "weights": [queue.weight for queue in queues]}
    yield worst
    rarest = min(range(QUEUES), key=lambda queue: len(waits[queue]))
    longest = max(queue.microseconds for queue in queues) / 1e3
    result = Result("recorded day: worst wait of the rarest queue", "ms", stoker=[max(waits[rarest])])
    everybody = quantile([wait for of_queue in waits for wait in of_queue], 0.99)
    result.note = f"{len(waits[rarest])} jobs, median {quantile(waits[rarest], 0.5):.1f}; longest job {longest:.0f}"
    result.note += f"; p99 of all queues {everybody:.0f}"
    result.details = {"waits_ms": sorted(waits[rarest])}
    yield result


def fluid(came, had, weights):
    """Returns each queue's share in each slice under a fluid server, and in which slices work had to wait."""
    backlog, wanted, contended = [0.0] * QUEUES, [], []
    for arrived, done in zip(came, had):
        backlog = [a + b for a, b in zip(backlog, arrived)]
        left, given = sum(done), [0.0] * QUEUES
        hungry = [queue for queue in range(QUEUES) if backlog[queue] > 0]
        while hungry and left > 1:
            part = left / sum(weights[queue] for queue in hungry)
            sated = [queue for queue in hungry if backlog[queue] - given[queue] <= part * weights[queue]]
            for queue in sated or hungry:
                more = backlog[queue] - given[queue] if sated else part * weights[queue]
                given[queue] += more
                left -= more
            hungry = [queue for queue in hungry if queue not in sated] if sated else []
        backlog = [a - b for a, b in zip(backlog, given)]
        wanted.append(given)
        contended.append(sum(backlog) > sum(done))  # at the end of the slice, more work waits than the slice could do
    return wanted, contended
