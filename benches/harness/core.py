"""The micro benchmarks of the Rust core. Their program prints one JSON object per line: {"case", "ns_per_step",
"allocations_per_step"}."""

import json
import subprocess

from . import processes
from .brokers import TARGET
from .report import Result

PROGRAM = "examples/core-bench"
SECONDS = 300


def run(options, folder):
    program = TARGET / "release" / PROGRAM
    if not program.exists():
        options.say(f"core: no {PROGRAM}, skipped")
        return []
    options.say("core: its own micro benches")
    bench = processes.start([program], cwd=folder, stdout=subprocess.PIPE)
    try:
        out, _ = bench.communicate(timeout=SECONDS)
    finally:
        processes.end(bench)
    if bench.returncode:
        raise RuntimeError(f"{PROGRAM} ended with {bench.returncode}")
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return [to_result(line) for line in lines]


def to_result(line):
    name = f"core: {line['case']}, {line['allocations_per_step']:.3f} allocations"
    return Result(name, "ns/step", stoker=[line["ns_per_step"]], details=line)
