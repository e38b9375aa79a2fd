"""Hello jobs through two PHP workers: how fast a full queue is emptied.

The reference sends batches of 64 to two such workers and does nothing else. Raw workers speak the wire protocol without
the SDK; they show which part of the cost is the SDK's.
"""

import json
import subprocess
import time

from . import processes
from .brokers import C, PHP, Stoker
from .report import Result
from .wire import Client

WORKERS, BATCH = 2, 64
BODY = b'{"hello":"world"}'
# Script, label, and half of the reference's result with this script on a quiet VM with 2 CPUs.
VARIANTS = [("hello.php", "SDK", 150_000), ("raw.php", "no SDK", 250_000)]


def run(options, folder):
    for script, label, floor in VARIANTS:
        command = ["php", PHP / script]
        result = Result(f"hello jobs, 2 PHP workers, {label}", "jobs/s", more_is_better=True, floor=floor)
        if script == "hello.php":
            result.ratio_bar = 0.4
        options.say(f"{result.name}: {options.pairs} pairs of {options.jobs:,} jobs")
        for pair in range(options.pairs):
            options.await_quiet()
            steps = [lambda: result.reference.append(reference(command, options.jobs))]
            if options.binary:
                steps.append(lambda: result.stoker.append(stoker(command, options, folder)))
            for step in steps if pair % 2 == 0 else reversed(steps):
                step()
        yield result


def drive(workers, batch, jobs, command, timeout=120):
    driver = processes.start([C / "driver", workers, batch, jobs, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = driver.communicate(timeout=timeout)
        if driver.returncode:
            raise RuntimeError(f"driver: {err.strip() or out.strip()}")
        return json.loads(out)
    finally:
        processes.end(driver)


def reference(command, jobs):
    return drive(WORKERS, BATCH, jobs, command)["jobs_per_s"]


def stoker(command, options, folder):
    with Stoker(folder, command, WORKERS, options.binary) as broker, Client(broker.socket) as client:
        fill_and_run(client, options.jobs // 10)  # warm-up, as in the reference: caches, and what is learned about a name
        return options.jobs / fill_and_run(client, options.jobs)


def fill_and_run(client, jobs, every=0.005):
    """Pushes while the queue is paused; returns the seconds from resume until all jobs are done, polled every `every`
    seconds."""
    client.call("stoker.queue", {"op": "pause", "queue": "bench", "create": True})
    goal = done(client) + jobs
    client.push("bench", jobs, BODY)
    deadline = time.monotonic() + 120
    start = time.monotonic()
    client.call("stoker.queue", {"op": "resume", "queue": "bench"})
    while done(client) < goal:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{goal - done(client)} of {jobs} jobs are not done after 120 s")
        time.sleep(every)
    return time.monotonic() - start


def done(client):
    for queue in client.call("stoker.queue", {"op": "list"})["queues"]:
        if queue["name"] == "bench" and queue.get("kind") == "jobs":
            if queue["failed"]:
                raise RuntimeError(f"{queue['failed']} jobs failed")
            return queue["done"]
    return 0
