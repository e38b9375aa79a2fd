"""The cost of a call for the server: CPU time of all its threads, and system calls, per request.

On both sides the server has CPU 0 to itself, and clients and workers share CPU 1. Clients are closed loops that wait
for their requests in flight, so the server's CPU time around them belongs to exactly the requests they count.
"""

import json
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass

from . import processes
from .brokers import C, OTHER_CPU, Reference, Stoker
from .report import Result

MESSAGE_BODY = 98  # with header and name 128 bytes, as in the notes


@dataclass
class Shape:
    clients: int
    depth: int
    workers: int
    window: int  # of the reference. With 1, calls are not idempotent, so Stoker must not prefetch either
    floor_us: float  # twice the values of the notes (26.7, 9.7, 0.49 µs); a slower reference is disturbed
    ratio_bar: float
    syscall_bar: float | None

    @property
    def idempotent(self):
        return int(self.window > 1)

    def __str__(self):
        return f"{self.clients}x{self.depth}, {self.workers} workers"


SHAPES = [
    Shape(1, 1, 1, 1, 55.0, 1.3, 6.2),
    Shape(4, 16, 8, 1, 20.0, 1.5, None),
    Shape(8, 64, 4, 32, 1.0, 2.0, 0.3),
]


def run(options, folder):
    for shape in SHAPES:
        options.say(f"rpc {shape}: {options.pairs} pairs")
        yield from run_shape(shape, options, folder)


def run_shape(shape, options, folder):
    cost = Result(f"rpc {shape}: broker CPU", "µs/request", floor=shape.floor_us, ratio_bar=shape.ratio_bar)
    calls = Result(f"rpc {shape}: system calls", "/request", bar=shape.syscall_bar)
    sides = [Reference(folder, shape.workers, shape.window)]
    if options.binary:
        command = ["env", f"PIN={OTHER_CPU}", f"IDEMPOTENT={shape.idempotent}", C / "worker", "batch"]
        idempotent = ["echo"] if shape.idempotent else []
        sides.append(Stoker(folder, command, shape.workers, options.binary, pinned=True, idempotent=idempotent))
    with sides[0]:
        if len(sides) == 1:
            measure(sides, shape, options, cost, calls)
        else:
            with sides[1]:
                measure(sides, shape, options, cost, calls)
    return [cost, calls]


def measure(sides, shape, options, cost, calls):
    rates = {}
    for side in sides:
        load(side, shape, 1)  # warm-up: a server may have to learn how long a method takes before it prefetches
    for pair in range(options.pairs):
        options.await_quiet()
        # The order alternates, so that a trend of the machine favours neither side.
        for side in sides if pair % 2 == 0 else reversed(sides):
            microseconds, rate = cpu_per_request(side, shape, options.seconds)
            column(cost, side).append(microseconds)
            rates.setdefault(side.name, []).append(rate)
    cost.details["requests_per_s"] = rates
    cost.note = ", ".join(f"{name} {sorted(r)[len(r) // 2] / 1000:.0f}k/s" for name, r in rates.items())
    for side in sides:
        syscalls, how = syscalls_per_request(side, shape)
        column(calls, side).append(syscalls)
        calls.details[side.name] = how
        calls.note = how["tool"]


def column(result, side):
    return result.stoker if side.name == Stoker.name else result.reference


def load(side, shape, seconds):
    """Runs the clients; returns (answered requests, sum of the clients' requests per second)."""
    command = [C / "client", side.socket, shape.depth, seconds, "bench.echo", MESSAGE_BODY, shape.idempotent]
    clients = [
        processes.start(command, env={"PIN": str(OTHER_CPU)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(shape.clients)
    ]
    answered, rate, faults = 0, 0.0, []
    for client in clients:
        try:
            out, err = client.communicate(timeout=seconds + 30)
        except subprocess.TimeoutExpired:
            faults.append("a client hangs")
            continue
        if client.returncode:
            faults.append(err.strip() or f"a client ended with {client.returncode}: {out.strip()}")
            continue
        found = json.loads(out)
        answered += found["answered"]
        rate += found["answered"] / found["seconds"]
    if faults:
        for client in clients:
            processes.end(client)
        raise RuntimeError(f"{side.name}: {faults[0]}")
    return answered, rate


def cpu_per_request(side, shape, seconds):
    pids = side.pids()
    before = processes.cpu_seconds(pids)
    answered, rate = load(side, shape, seconds)
    return (processes.cpu_seconds(pids) - before) * 1e6 / answered, rate


def syscalls_per_request(side, shape):
    """perf counts without slowing the server; strace, used where perf is missing, slows it, and a slow server batches
    more. So system calls are never counted during a timed run."""
    pids = ",".join(str(pid) for pid in side.pids())
    for tool in (Perf(pids), Strace(pids)):
        if not shutil.which(tool.name):
            continue
        answered, total = tool.count(lambda: load(side, shape, 2)[0])
        if total is not None:
            return total / answered, {"tool": tool.name, "total": total, "answered": answered}
    return None, {"tool": "neither perf nor strace"}


class Counter:
    """A tool that attaches to processes and, when interrupted, reports the number of their system calls."""

    def __init__(self, pids):
        self.pids = pids

    def count(self, what):
        """Returns (result of what(), system calls meanwhile). The latter is None if the tool does not work here."""
        tool = processes.start(self.command(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            time.sleep(0.5)  # both tools need a moment to attach to all threads, and do not report when they have
            answered = what()
            tool.send_signal(signal.SIGINT)
            _, report = tool.communicate(timeout=15)
            return answered, self.total(report)
        finally:
            processes.end(tool)


class Perf(Counter):
    name = "perf"

    def command(self):
        return ["perf", "stat", "-x,", "-e", "raw_syscalls:sys_enter", "-p", self.pids]

    def total(self, report):
        for line in report.splitlines():
            value, *rest = line.split(",")
            if "raw_syscalls:sys_enter" in rest and value.isdigit():
                return int(value)
        return None


class Strace(Counter):
    name = "strace"

    def command(self):
        return ["strace", "-c", "-f", *(part for pid in self.pids.split(",") for part in ("-p", pid))]

    def total(self, report):
        for line in report.splitlines():
            if line.endswith(" total"):
                return int(line.split()[3])
        return None
