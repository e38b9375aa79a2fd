#!/usr/bin/env python3
"""Compares the CPU time of angel and server per task between two builds of Stoker.

    benches/compare.py OLD NEW [--rounds N] [--jobs N] [--seconds S] [--only NAME]

Each round measures OLD once and NEW twice, in turn. NEW/OLD is the result; NEW/NEW compares a build with itself and
shows the noise of the machine. The interval is the 95 % confidence interval of the median. The exit code is 1 if the
interval of NEW/OLD is above the bar, 1.03.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
from math import comb
from pathlib import Path
from statistics import median

from harness import brokers, disk, hello, lives, processes, rpc
from harness.brokers import PHP, Stoker
from harness.wire import Client

BAR = 1.03
LEAST_ROUNDS = 6  # fewer measurements have no 95 % interval


def jobs_cost(store):
    def measure(binary, options, folder):
        command = ["php", PHP / "hello.php"]
        with Stoker(folder, command, hello.WORKERS, binary, store=store) as broker, Client(broker.socket) as client:
            hello.fill_and_run(client, options.jobs // 10)
            before = processes.cpu_seconds(broker.pids())
            hello.fill_and_run(client, options.jobs)
            return (processes.cpu_seconds(broker.pids()) - before) * 1e6 / options.jobs

    return measure


def call_cost(binary, options, folder):
    shape = rpc.SHAPES[-1]  # prefetched: mostly the cost of the call itself, and least of the work of the kernel
    command = ["env", f"PIN={brokers.OTHER_CPU}", f"IDEMPOTENT={shape.idempotent}", brokers.C / "worker", "batch"]
    with Stoker(folder, command, shape.workers, binary, pinned=True) as broker:
        rpc.load(broker, shape, 1)
        return rpc.cpu_per_request(broker, shape, options.seconds)[0]


def life_cost(binary, _, folder):
    return sum(lives.lived(binary, folder).values())


WORKLOADS = {"hello": jobs_cost("memory"), "durable": jobs_cost("sqlite"), "rpc": call_cost, "lives": life_cost}


def interval(figures):
    """Returns the order statistics between which the median lies with a probability of at least 95 %."""
    figures, count = sorted(figures), len(figures)
    outside, rank = 0.0, 0
    while rank < (count - 1) // 2 and outside + comb(count, rank) / 2**count <= 0.025:
        outside += comb(count, rank) / 2**count
        rank += 1
    rank = max(rank - 1, 0)
    return figures[rank], figures[count - 1 - rank]


def compare(name, options, folder):
    measure = WORKLOADS[name]
    sides = [("old", options.old), ("new", options.new), ("again", options.new)]
    figures = {side: [] for side, _ in sides}
    for round_ in range(options.rounds):
        turn = round_ % len(sides)
        for side, binary in sides[turn:] + sides[:turn]:
            with tempfile.TemporaryDirectory(dir=folder) as home:
                figures[side].append(measure(binary, options, home))
    both = [(new + again) / 2 / old for old, new, again in zip(*figures.values())]
    null = [again / new for new, again in zip(figures["new"], figures["again"])]
    return figures, both, null


def line(label, ratios):
    low, high = interval(ratios)
    return f"  {label:<8} {median(ratios):6.3f}   {low:.3f} to {high:.3f}"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=100_000, help="jobs of one run (100,000)")
    parser.add_argument("--seconds", type=int, default=3, help="length of one rpc run (3)")
    parser.add_argument("--only", action="append", choices=WORKLOADS)
    parser.add_argument("--folder", type=Path, help="directory for the stores (default: that for temporary files)")
    options = parser.parse_args()
    if options.rounds < LEAST_ROUNDS:
        parser.error(f"--rounds must be at least {LEAST_ROUNDS}")
    for binary in (options.old, options.new):
        if not os.access(binary, os.X_OK):
            parser.error(f"{binary} is not a program")
    options.old, options.new = options.old.resolve(), options.new.resolve()
    return options


def main():
    options = arguments()
    processes.adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if not shutil.which("php"):
        sys.exit("benches/compare.py needs php")
    if disk.is_memory(options.folder or tempfile.gettempdir()):
        print("warning: this folder is in memory: set --folder to a directory on a disk", file=sys.stderr)
    missed = False
    try:
        brokers.build()
        with tempfile.TemporaryDirectory(prefix="stoker-compare-", dir=options.folder) as folder:
            for name in options.only or WORKLOADS:
                figures, both, null = compare(name, options, folder)
                cost = {side: median(of) for side, of in figures.items()}
                print(f"{name}: {cost['old']:.3f} µs a task before, {cost['new']:.3f} µs now ({options.rounds} rounds)")
                print(line("new/old", both))
                print(line("new/new", null), flush=True)
                missed |= interval(both)[0] > BAR
    finally:
        processes.end_all()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
