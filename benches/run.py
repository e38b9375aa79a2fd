#!/usr/bin/env python3
"""Measures the performance bars: Stoker against references in C, against itself without a disk, and against others.

    benches/run.py [--pairs N] [--only NAME]... [--seconds S]

Needs gcc, make and php; perf or strace to count system calls; Stoker itself (`cargo build --release`); and the programs
that it is compared with. Bars whose packages are missing are skipped with a message. Without Stoker it measures only
the references. Prints a table and writes it, with every single measurement, to target/bench.json. The exit code is 1 if
a bar was missed or could not be measured.
"""

import argparse
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

if sys.version_info < (3, 11):
    sys.exit("benches/run.py needs Python 3.11 or newer")

from harness import (  # noqa: E402 (after the version check)
    beanstalkd,
    brokers,
    core,
    day,
    disk,
    durable,
    flood,
    gap,
    hello,
    http,
    idle,
    isolation,
    lag,
    laravel,
    lives,
    pickup,
    processes,
    report,
    remote,
    rpc,
    share,
    sites,
    startup,
    store,
)

BARS = {
    "rpc": rpc,
    "hello": hello,
    "http": http,
    "gap": gap,
    "idle": idle,
    "lag": lag,
    "lives": lives,
    "isolation": isolation,
    "core": core,
    "store": store,
    "durable": durable,
    "pickup": pickup,
    "share": share,
    "flood": flood,
    "day": day,
    "startup": startup,
    "laravel": laravel,
    "beanstalkd": beanstalkd,
    "remote": remote,
    "sites": sites,
}
BUSY = 0.3  # CPUs busy with other work; above this, results get a warning


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=positive, default=8, help="interleaved pairs of each bar (8)")
    parser.add_argument("--only", action="append", choices=BARS, help="this bar; may be given again")
    parser.add_argument("--seconds", type=positive, default=3, help="length of one run of rpc, http, remote, isolation and sites (3)")
    parser.add_argument("--jobs", type=positive, default=100_000, help="hello jobs of one run (100,000)")
    parser.add_argument("--gap-jobs", type=positive, default=20, help="0.5 s jobs of one run (20)")
    parser.add_argument("--idle-seconds", type=positive, default=60, help="how long to watch an idle broker (60)")
    parser.add_argument("--pickup-jobs", type=positive, default=1000, help="single jobs of the pickup bar (1,000)")
    parser.add_argument("--share-seconds", type=positive, default=60, help="how long queues compete (60)")
    parser.add_argument("--flood-seconds", type=positive, default=30, help="length of a flood (30)")
    parser.add_argument("--day-jobs", type=positive, default=400_000, help="jobs of the recorded day (400,000; it had 4,000,000)")
    parser.add_argument("--day-seconds", type=positive, default=60, help="how long the day is replayed (60)")
    parser.add_argument("--laravel-jobs", type=positive, default=5000, help="jobs of queue:work; Stoker gets ten times as many (5,000)")
    parser.add_argument("--startup-jobs", type=positive, default=5_000_000, help="jobs waiting at the start (5,000,000)")
    parser.add_argument("--beanstalkd-jobs", type=positive, default=5000, help="jobs of one run with beanstalkd (5,000)")
    parser.add_argument("--folder", type=Path, help="directory for the stores that are measured (default: that for temporary files)")
    parser.add_argument("--patience", type=int, default=0, help="seconds to wait for a quiet machine, in each bar (0)")
    parser.add_argument("--stoker", type=Path, default=brokers.TARGET / "release" / "stoker", help="the binary")
    parser.add_argument("--references", action="store_true", help="measure the references alone")
    parser.add_argument("--out", type=Path, default=brokers.TARGET / "bench.json", help="where to write the figures")
    found = parser.parse_args()
    found.binary = None if found.references or not found.stoker.exists() else found.stoker.resolve()
    found.patience_left = 0
    found.await_quiet = lambda: wait_for_quiet(found) if found.patience else None
    found.say = lambda text: print(f"… {text}", file=sys.stderr, flush=True)
    return found


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def machine():
    return {
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "arch": platform.machine(),
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def wait_for_quiet(found):
    """Waits before each pair until the machine is quiet or the bar's patience is used up. Returns the remaining
    load."""
    while (load := other_load()) > BUSY and found.patience_left > 0:
        time.sleep(2)
        found.patience_left -= 3
    if load > BUSY:
        found.say(f"warning: other programs keep {load:.1f} CPUs busy")
    return round(load, 2)


def other_load(seconds=1.0):
    """Returns how many CPUs are busy while this program does nothing."""

    def busy():
        fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return sum(fields) - fields[3] - fields[4]  # all except idle and iowait

    before = busy()
    time.sleep(seconds)
    return (busy() - before) / os.sysconf("SC_CLK_TCK") / seconds


def run_bar(name, found):
    """Runs one bar; a failure must not lose the results of the others. Returns the results, and the error if there was
    one."""
    results = []
    with tempfile.TemporaryDirectory(prefix="stoker-bench-", dir=found.folder, ignore_cleanup_errors=True) as folder:
        try:
            for result in BARS[name].run(found, folder):
                results.append(result)
        except Exception as error:  # any error belongs in the report
            traceback.print_exc()
            return results, f"{name}: {error}"
    return results, None


def main():
    found = options()
    processes.adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the `finally` below is reached
    if not shutil.which("php"):
        sys.exit("benches/run.py needs php")
    if disk.is_memory(found.folder or tempfile.gettempdir()):
        found.say("warning: this folder is in memory, so syncing costs nothing: set --folder to a directory on a disk")
    results, failures, about = [], [], machine() | {"other_load_cpus": {}}
    try:
        brokers.build()
        if not found.binary:
            found.say("no Stoker: the references alone")
        for name in found.only or BARS:
            found.patience_left = found.patience
            about["other_load_cpus"][name] = wait_for_quiet(found)
            measured, failure = run_bar(name, found)
            results += measured
            failures += [failure] if failure else []
    finally:
        processes.end_all()
        # Also when interrupted: finished measurements are reported.
        print(report.table(results))
        for failure in failures:
            print(f"NOT MEASURED {failure}")
        report.write(found.out, results, about | {"failures": failures})
    return 1 if failures or any(result.verdict() in ("MISSED", "refused") for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
