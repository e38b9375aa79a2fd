"""What a call over HTTP costs: the gateway beside hyper alone, under the same load, and what slow clients cost.

Clients have one CPU, all that serves the other. A bare hyper answers at once; behind the gateway two PHP workers do.
The time of one connection is printed without a bar: hyper alone calls nobody.
"""

import json
import os
import resource
import subprocess
from pathlib import Path

from . import processes
from .brokers import BENCHES, OTHER_CPU, TARGET
from .report import Result

PROGRAM = TARGET / "release" / "examples" / "http-bench"
SLOW = 10_000


def run(options, folder):
    if not PROGRAM.exists():
        raise RuntimeError(f"there is no {PROGRAM}: cargo build --release -p stoker-gateway --example http-bench")
    options.say(f"http: {options.pairs} pairs at 64 connections, and at one")
    cost = Result("http: CPU of the gateway beside bare hyper, 64 connections", "µs/request", ratio_bar=2.0)
    idle = Result("http: p50 of one connection", "µs")
    memory = Result(f"http: memory of {SLOW:,} slow or silent clients", "MB", bar=150.0)
    with Bare() as bare, Gateway(folder, options.binary) as gateway:
        for _ in range(options.pairs):
            for side, costs, times in ((bare, cost.reference, idle.reference), (gateway, cost.stoker, idle.stoker)):
                costs.append(loaded(side, 64, options.seconds)["cpu_us"])
                times.append(loaded(side, 1, 1)["p50_us"])
        memory.stoker.append(slow(gateway))
    return [cost, idle, memory]


def loaded(side, connections, seconds):
    before = processes.cpu_seconds([side.pid()])
    command = ["taskset", "-c", str(OTHER_CPU), PROGRAM, "load", side.address, side.token, str(connections), str(seconds)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=60 + seconds).stdout)
    spent = processes.cpu_seconds([side.pid()]) - before
    found["cpu_us"] = spent * 1e6 / found["requests"]
    return found


def slow(side):
    """Megabytes that the gateway takes beyond what it took before."""
    pid = side.pid()
    _, before = processes.memory_kb([pid])
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with subprocess.Popen([PROGRAM, "slow", side.address, str(SLOW)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as clients:
        if clients.stdout.readline() != b"ready\n":
            raise RuntimeError("the slow clients could not connect")
        processes.wait_for("the gateway to accept all", lambda: len(os.listdir(f"/proc/{pid}/fd")) > SLOW)
        _, after = processes.memory_kb([pid])
        clients.stdin.close()
    return (after - before) / 1e3


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
