"""Starting with millions of waiting jobs: the first million belongs to one tenant, the others to a thousand tenants.

The jobs are pushed once, through a server without workers, and its file is kept. Then Stoker is started on it
repeatedly, to measure the time until its socket answers, the time until the first job runs, the memory, and whether the
thousand tenants, whose jobs are all behind the million, get their share immediately.

Shares are measured in a start of their own, with workers that have already run other jobs: the first job of a PHP
process takes tens of milliseconds, which are charged to its tenant until all others have had as much.
"""

import tempfile
import time
from collections import Counter
from pathlib import Path

from . import processes
from .brokers import Stoker
from .clocked import Clocked, body
from .report import Result
from .wire import Client, tenant

TENANTS, WORKERS = 1000, 2
WATCHED = 20_000  # jobs after the start whose tenants are counted: 20 per tenant if shares are equal
WARMING, OTHER = 200, TENANTS + 1  # jobs of another queue that run first, and the number in their bodies
QUEUES = {"other": {}}
BIG = 0  # the number of the first tenant
JOB_US = 500  # jobs without any duration would run faster than a store can find the jobs of other tenants


def run(options, folder):
    if not options.binary:
        return
    waiting = options.startup_jobs
    home = Path(tempfile.mkdtemp(dir=folder))
    options.say(f"startup: pushing {waiting:,} jobs, once")
    with Stoker(folder, [], 0, options.binary, store="sqlite", home=home) as server, Client(server.socket, timeout=120) as client:
        start = time.monotonic()
        first = max(1, waiting // 5)
        client.push("bench", first, body(BIG, JOB_US), tenant("big"))
        client.push_all(("bench", body(1 + number % TENANTS, JOB_US), tenant(f"t{number % TENANTS}")) for number in range(waiting - first))
        rate = waiting / (time.monotonic() - start)
        full = memory(server)
    size = (home / "stoker.db").stat().st_size / 1e6

    names = [
        (f"start with {waiting:,} waiting: socket answers", "ms", None),
        (f"start with {waiting:,} waiting: first job runs", "ms", None),
        (f"start with {waiting:,} waiting: anonymous memory of the server, 1st job", "MB", None),
        (f"start with {waiting:,} waiting: RSS of the server, 1st job", "MB", None),
        (f"start with {waiting:,} waiting: anonymous memory, {WATCHED:,} jobs later", "MB", None),
        ("right after the start: the big tenant's part of jobs is off by", "×", 1.5),
        (f"right after the start: tenants without a job among the first {WATCHED:,}", "", 0),
    ]
    results = [Result(name, unit, bar=bar) for name, unit, bar in names]
    rounds = max(1, options.pairs // 2)
    options.say(f"startup: {rounds} starts with {waiting:,} jobs waiting, {size:,.0f} MB")
    for _ in range(rounds):
        options.await_quiet()
        values, details = start_again(home, folder, options, waiting)
        for result, value in zip(results, values):
            result.stoker.append(value)
        results[-1].details.setdefault("starts", []).append(details)
    results[0].note = f"file {size:,.0f} MB, pushed at {rate:,.0f}/s, then anonymous {full[0]:.1f} MB"
    spread = results[-1].details["starts"][-1]
    results[-2].note = f"it had {spread['big']} jobs"
    results[-1].note = f"of {TENANTS}; jobs of one: least {spread['least']}, most {spread['most']}, all alike {spread['alike']:.0f}"
    yield from results


def start_again(home, folder, options, waiting):
    start = time.monotonic()
    server = Clocked(options, folder, 0, store="sqlite", queues=QUEUES, home=home, configured=WORKERS)
    with server:
        answers = time.monotonic() - start
        processes.wait_for("the first job", server.ran, seconds=120, every=0.001)
        runs = (server.records()[0][1] / 1e9) - start
        anonymous, resident = memory(server.broker)
        with Client(server.socket) as client:
            client.call("stoker.queue", {"op": "pause", "queue": "bench", "create": True})
    server = Clocked(options, folder, 0, store="sqlite", queues=QUEUES, home=home, configured=WORKERS)
    with server, Client(server.socket) as client:
        client.push("other", WARMING, body(OTHER, JOB_US))
        server.wait(WARMING, 60)
        client.call("stoker.queue", {"op": "resume", "queue": "bench"})
        server.wait(WARMING + min(WATCHED, waiting), 120)
        later, _ = memory(server.broker)
        records = [record for record in server.records() if record[0] != OTHER][:WATCHED]
    jobs = Counter(number for number, _, _ in records)
    small = [jobs[number] for number in range(1, TENANTS + 1)]
    details = {"big": jobs[BIG], "least": min(small), "most": max(small), "alike": len(records) / (TENANTS + 1)}
    share = jobs[BIG] / len(records) * (TENANTS + 1)
    off = max(share, 1 / share) if share else float("inf")
    return (answers * 1e3, runs * 1e3, anonymous, resident, later, off, small.count(0)), details


def memory(server):
    return [kb / 1024 for kb in processes.memory_kb([server.server_pid()])]
