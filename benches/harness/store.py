"""The store against a bare SQLite loop that writes the same rows. Both are in an example program of the store's
crate."""

import json
import os
import subprocess

from . import processes
from .brokers import BENCHES
from .report import Result

ROOT = BENCHES.parent
EXAMPLE = "crates/store/examples/store-bench.rs"
RATIO_BAR = 0.7
FLOORS = {1: 400, 64: 15_000, 512: 25_000}  # job lives per second of the bare loop, by number of jobs per commit
SECONDS = 600


def run(options, folder):
    if not (ROOT / EXAMPLE).exists():
        options.say(f"store: no {EXAMPLE}, skipped")
        return
    # With several CPUs, requests and events cross between threads on different CPUs and wake them; the bare loop is one
    # thread.
    for where, cpu in (("", None), (", all on one core", max(os.sched_getaffinity(0)))):
        options.say(f"store: its own bench against a bare loop over SQLite{where}")
        yield from (result(line, where) for line in measure(folder, cpu=cpu))


def result(line, where):
    group = line["group"]
    return Result(
        f"store, lives of jobs, {group} in a commit, against bare SQLite{where}",
        "jobs/s",
        stoker=[line["store"]],
        reference=[line["bare"]],
        more_is_better=True,
        floor=FLOORS.get(group),
        ratio_bar=RATIO_BAR,
        note=f"median of pairs: {line['ratio']:.2f}×",
        details=line,
    )


def measure(*arguments, cpu=None):
    command = ["cargo", "run", "--quiet", "--release", "-p", "stoker-store", "--example", "store-bench", "--", *arguments]
    bench = processes.start(command, cwd=ROOT, env=dict(os.environ), stdout=subprocess.PIPE, cpu=cpu)
    try:
        out, _ = bench.communicate(timeout=SECONDS)
    finally:
        processes.end(bench)
    if bench.returncode:
        raise RuntimeError(f"{EXAMPLE} ended with {bench.returncode}")
    return json.loads(out)
