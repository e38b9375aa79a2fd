"""Durable jobs against jobs in memory, end to end: the same program, the same workers, another store."""

import time
from statistics import median

from .brokers import PHP, Stoker
from .disk import commit_ms, sync_ms
from .hello import BODY, WORKERS, done, fill_and_run
from .report import Result
from .wire import Client

RATIO_BAR = 0.5
FLOOR = 60_000  # jobs per second in memory; a lower result means that something disturbs the measurement


def run(options, folder):
    if not options.binary:
        return
    bars = {"ratio_bar": RATIO_BAR, "floor": FLOOR}
    both = Result("durable : memory, jobs pushed while 2 PHP workers run", "jobs/s", more_is_better=True, **bars)
    full = Result("durable : memory, jobs from a full queue, 2 PHP workers", "jobs/s", more_is_better=True, **bars)
    push = Result("durable : memory, pushes, 1,000 on their way", "jobs/s", more_is_better=True)
    alone = Result("durable : memory, pushes, one at a time", "jobs/s", more_is_better=True)
    results = [both, full, push, alone]
    options.say(f"durable: {options.pairs} pairs of {options.jobs:,} jobs")
    disk = []
    for pair in range(options.pairs):
        options.await_quiet()
        disk.append((sync_ms(folder)[0], commit_ms(folder)[0]))
        for store in ("memory", "sqlite") if pair % 2 == 0 else ("sqlite", "memory"):
            for result, value in zip(results, measure(store, options, folder)):
                (result.reference if store == "memory" else result.stoker).append(value)
    sync, commit = (median(column) for column in zip(*disk))
    alone.note = f"a commit of bare SQLite: {commit:.2f} ms, fdatasync alone: {sync:.2f} ms"
    yield from results


def measure(store, options, folder):
    jobs = options.jobs
    command = ["php", PHP / "hello.php"]
    with Stoker(folder, command, WORKERS, options.binary, store=store) as broker, Client(broker.socket) as client:
        # Single pushes come first, while the server is not busy with earlier jobs.
        few = max(1, jobs // 200)
        start = time.monotonic()
        for _ in range(few):
            client.push_one("bench", BODY)
        alone = few / (time.monotonic() - start)
        fill_and_run(client, jobs // 10)
        both = jobs / push_and_run(client, jobs)
        full = jobs / fill_and_run(client, jobs)
        client.call("stoker.queue", {"op": "pause", "queue": "bench", "create": True})
        start = time.monotonic()
        client.push("bench", jobs, BODY)
        push = jobs / (time.monotonic() - start)
        return both, full, push, alone


def push_and_run(client, jobs):
    """Returns the seconds from the first push until the last job is done."""
    goal = done(client) + jobs
    start = time.monotonic()
    client.push("bench", jobs, BODY)
    while done(client) < goal:
        if time.monotonic() > start + 120:
            raise TimeoutError("the jobs do not end")
        time.sleep(0.005)
    return time.monotonic() - start
