"""The cost of a call over HTTP: the gateway against bare hyper under the same load, and the cost of slow clients.

Clients have one CPU, all servers the other. Bare hyper answers immediately; behind the gateway, two PHP workers answer.
A single call is compared with the same call over the wire protocol; the difference is the cost of HTTP. On a virtual
machine whose idle CPUs wake slowly, that is mostly one more exchange between two processes. So the call is also
compared with the sum of a bare hyper exchange and a call over the wire protocol.
"""

import json
import os
import resource
import subprocess
from pathlib import Path

from . import processes
from .brokers import BENCHES, OTHER_CPU, TARGET, C
from .hello import fill_and_run
from .report import Result
from .wire import Client

PROGRAM = TARGET / "release" / "examples" / "http-bench"
SLOW = 10_000


def run(options, folder):
    if not options.binary:
        return []
    if not PROGRAM.exists():
        raise RuntimeError(f"there is no {PROGRAM}: cargo build --release -p stoker-gateway --example http-bench")
    options.say(f"http: {options.pairs} pairs at 64 connections, and at one")
    cost = Result("http: CPU of the gateway beside bare hyper, 64 connections", "µs/request", ratio_bar=2.0)
    idle = Result("http: one call at a time, beyond the same over the wire", "µs", bar=12.0)
    parts = Result("http: one call at a time, beside bare hyper's and the wire's together", "µs", ratio_bar=1.1)
    jobs = Result(f"http: CPU per job beside {SLOW:,} slow or silent clients", "µs/job", ratio_bar=1.05)
    memory = Result(f"http: memory of {SLOW:,} slow or silent clients", "MB", bar=150.0)
    with Bare() as bare, Gateway(folder, options.binary) as gateway:
        for _ in range(options.pairs):
            cost.reference.append(loaded(bare, 64, options.seconds, "hello.greet")["cpu_us"])
            cost.stoker.append(loaded(gateway, 64, options.seconds, "hello.greet")["cpu_us"])
            alone, wire = one_at_a_time(bare, options.seconds), called(gateway, options.seconds)
            call = one_at_a_time(gateway, options.seconds)
            idle.stoker.append(call - wire)
            parts.reference.append(alone + wire)
            parts.stoker.append(call)
        for _ in range(options.pairs):
            jobs.reference.append(per_job(gateway, options.jobs))
            with Slow(gateway) as clients:
                memory.stoker.append(clients.megabytes)
                jobs.stoker.append(per_job(gateway, options.jobs))
    return [cost, idle, parts, memory, jobs]


def one_at_a_time(side, seconds):
    """Returns the median time of one call over HTTP, in microseconds."""
    return loaded(side, 1, seconds, "hello.echo")["p50_us"]


def called(side, seconds):
    """Returns the average time of one call over the wire protocol, in microseconds."""
    command = [C / "client", side.folder / "stoker.sock", "1", str(seconds), "hello.echo", "14"]
    done = subprocess.run(command, check=True, capture_output=True, timeout=60 + seconds, env={**os.environ, "PIN": str(OTHER_CPU)})
    found = json.loads(done.stdout)
    return found["seconds"] * 1e6 / found["answered"]


def per_job(side, jobs):
    """Returns the CPU time of angel, server and gateway per job, in microseconds."""
    pids = [side.process.pid, *(pid for pid in processes.descendants(side.process.pid) if is_stoker(pid))]
    with Client(side.folder / "stoker.sock") as client:
        before = processes.cpu_seconds(pids)
        fill_and_run(client, jobs)
        return (processes.cpu_seconds(pids) - before) * 1e6 / jobs


def is_stoker(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"stoker: ")


def loaded(side, connections, seconds, method):
    before = processes.cpu_seconds([side.pid()])
    command = ["taskset", "-c", str(OTHER_CPU), PROGRAM, "load", side.address, side.token, str(connections), str(seconds), method]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=60 + seconds).stdout)
    spent = processes.cpu_seconds([side.pid()]) - before
    found["cpu_us"] = spent * 1e6 / found["requests"]
    return found


class Slow:
    """Clients that send nothing or never end a header, and the megabytes that the gateway needs for them."""

    def __init__(self, side):
        self.side, self.pid = side, side.pid()

    def __enter__(self):
        _, before = processes.memory_kb([self.pid])
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
        command = [PROGRAM, "slow", self.side.address, str(SLOW)]
        self.clients = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self.clients.stdout.readline() != b"ready\n":
            raise RuntimeError("the slow clients could not connect")
        processes.wait_for("the gateway to accept all", lambda: self.descriptors() > SLOW)
        _, after = processes.memory_kb([self.pid])
        self.megabytes = (after - before) / 1e3
        return self

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def __exit__(self, *_):
        self.clients.stdin.close()
        self.clients.wait(timeout=30)
        processes.wait_for("the gateway to close all", lambda: self.descriptors() < SLOW)


class Bare:
    token = "none"

    def __enter__(self):
        self.process = processes.start([PROGRAM, "bare"], stdout=subprocess.PIPE, cpu=0)
        self.address = self.process.stdout.readline().strip()
        return self

    def __exit__(self, *_):
        processes.end(self.process)

    def pid(self):
        return self.process.pid


class Gateway:
    def __init__(self, folder, binary):
        self.folder, self.binary = Path(folder, "http"), binary

    def __enter__(self):
        self.folder.mkdir()
        worker = json.dumps(["php", str(BENCHES / "php" / "greet.php")])
        config = f'[pool.app]\ncommand = {worker}\nworkers = 2\n[store]\ndriver = "memory"\n'
        config += '[http]\nlisten = ["127.0.0.1:0"]\nheader_timeout = "5m"\nidle_timeout = "5m"\n'
        (self.folder / "stoker.toml").write_text(config)
        self.log = (self.folder / "log").open("w")
        self.process = processes.start([self.binary, "serve"], cwd=self.folder, stderr=self.log, cpu=0)
        processes.wait_for("the gateway", lambda: "is healthy" in self.said() and "listening on" in self.said())
        self.address = self.said().split("listening on http://")[1].split()[0]
        self.token = (self.folder / "stoker.token").read_text().strip()
        return self

    def said(self):
        return (self.folder / "log").read_text()

    def __exit__(self, *_):
        processes.end(self.process)
        self.log.close()

    def pid(self):
        for pid in processes.descendants(self.process.pid):
            if b"stoker: gateway http" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
        raise RuntimeError("there is no gateway")
