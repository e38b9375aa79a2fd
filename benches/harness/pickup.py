"""How long a job waits for an idle worker: from the acknowledged push to the first line of its handler.

One job at a time, at random moments, on an idle server. The response to a push means that the job is safe. The disk's
time before that is reported separately, and so is the time from sending the push to the handler, which includes the
disk unless the store is in memory.
"""

import random
import struct
import time
from pathlib import Path
from statistics import median

from . import processes
from .brokers import PHP, Stoker
from .clocked import quantile
from .disk import commit_ms, sync_ms
from .hello import BODY
from .report import Result
from .wire import Client

WORKERS = 2
BAR_MS = 2.0


def run(options, folder):
    if not options.binary:
        return
    options.say(f"pickup: {options.pickup_jobs} single jobs, in memory and durable")
    disk = sync_ms(folder)
    memory = measure("memory", options, folder)
    durable = measure("sqlite", options, folder)
    disk = [min(pair) for pair in zip(disk, sync_ms(folder))]
    commit = commit_ms(folder)
    for share, name in ((0.5, "p50"), (0.99, "p99")):
        result = Result(f"pickup from idle, safe to handler start, {name}", "ms", bar=BAR_MS if share > 0.5 else None)
        result.reference, result.stoker = ([quantile(found["safe"], share)] for found in (memory, durable))
        result.note = "reference: in memory"
        yield result
        result = Result(f"pickup from idle, push sent to handler start, {name}", "ms")
        result.reference, result.stoker = ([quantile(found["sent"], share)] for found in (memory, durable))
        result.note = f"a commit of bare SQLite: {commit[share > 0.5]:.2f}, fdatasync alone: {disk[share > 0.5]:.2f}"
        result.details = {"memory": memory, "durable": durable}
        yield result


def measure(store, options, folder):
    times = Path(folder, f"pickup-{store}")
    jobs, moments = options.pickup_jobs, random.Random(1)
    command = ["php", PHP / "pickup.php", times]
    with Stoker(folder, command, WORKERS, options.binary, store=store) as broker, Client(broker.socket) as client:
        for _ in range(20):  # enough for both workers to have run one
            client.push_one("bench", BODY)
        processes.wait_for("the first jobs", lambda: times.stat().st_size == 20 * 8)
        found = {"sent": [], "safe": []}
        for number in range(jobs):
            time.sleep(moments.uniform(0.005, 0.03))
            sent, safe = client.push_one("bench", BODY)
            size = (21 + number) * 8
            processes.wait_for("a job", lambda: times.stat().st_size >= size, every=0.001)
            started = struct.unpack(">Q", times.read_bytes()[-8:])[0]
            found["sent"].append((started - sent) / 1e6)
            # The handler may start before this program has woken up to read the response.
            found["safe"].append(max(0.0, (started - safe) / 1e6))
        found["answered_ms"] = median(a - b for a, b in zip(found["sent"], found["safe"]))
        return found
