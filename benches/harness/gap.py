"""The gap from the end of one job to the start of the next: one worker, jobs of 0.5 s, measured by the worker's own
clock.

The article of 2024 used another formula, (wall - n × 0.5 s) / n. It also counts the time by which the sleep itself is
too long, so its result is printed but has no bar.
"""

import time
from pathlib import Path
from statistics import median

from .brokers import PHP, Stoker
from .hello import BODY, done, drive
from .report import Result
from .wire import Client

JOB_SECONDS = 0.5
STORES = [("memory", "in memory", 0.15), ("sqlite", "durable", 1.0)]  # store, label, bar in ms


def run(options, folder):
    rounds = max(1, options.pairs // 4)
    options.say(f"job gap: {rounds} x {options.gap_jobs} jobs of 0.5 s with the reference and with each store")
    results = {}
    for store, label, bar in STORES:
        gaps = Result(f"job gap, 0.5 s jobs, median, {label}", "ms", bar=bar)
        article = Result(f"job gap, formula of the 2024 article, {label}", "ms", note="article: RoadRunner 1.65, Laravel 28.4")
        results[store] = gaps, article
    times = Path(folder, "gap.times")
    for _ in range(rounds):
        wall = reference(times, options.gap_jobs)
        gap = take(times, wall, options.gap_jobs)
        for store, (gaps, article) in results.items():
            gaps.reference.append(gap[0])
            article.reference.append(gap[1])
            if options.binary:
                wall = stoker(times, options, folder, store)
                found = take(times, wall, options.gap_jobs)
                gaps.stoker.append(found[0])
                article.stoker.append(found[1])
    return [result for pair in results.values() for result in pair]


def take(times, wall, jobs):
    """Each line of the file is the gap in ns between two jobs. Returns their median, and the result of the article's
    formula."""
    found = [int(line) / 1e6 for line in times.read_text().split()]
    if len(found) != jobs - 1:
        raise RuntimeError(f"{jobs} jobs, but {len(found)} gaps")
    times.unlink()
    return median(found), (wall - jobs * JOB_SECONDS) / jobs * 1e3


def command(times):
    return ["php", PHP / "gap.php", times]


def reference(times, jobs):
    return drive(1, 1, jobs, command(times), timeout=jobs * JOB_SECONDS + 30)["seconds"]


def stoker(times, options, folder, store):
    jobs = options.gap_jobs
    with Stoker(folder, command(times), 1, options.binary, store=store) as broker, Client(broker.socket) as client:
        client.call("stoker.queue", {"op": "pause", "queue": "bench", "create": True})
        client.push("bench", jobs, BODY)
        start = time.monotonic()
        client.call("stoker.queue", {"op": "resume", "queue": "bench"})
        # Requests disturb the measurement, so none is sent until the last job must be running.
        time.sleep((jobs - 0.5) * JOB_SECONDS)
        while done(client) < jobs:
            if time.monotonic() > start + jobs * JOB_SECONDS + 30:
                raise TimeoutError("the jobs do not end")
            time.sleep(0.001)
        return time.monotonic() - start
