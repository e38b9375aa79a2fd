"""One process per task: `exec` against a bare loop of fork, exec and wait on the same CPUs; and what a worker that
takes one task costs angel and server in addition to starting and reaping its process, which the bare loop pays too.
"""

import json
import subprocess

from . import processes
from .brokers import C, Stoker
from .hello import fill_and_run
from .report import Result
from .wire import Client

AT_ONCE = 2
LIVES = 2000


def run(options, folder):
    if not options.binary:
        return []
    options.say(f"lives: {options.pairs} pairs of {LIVES:,} processes")
    programs = Result("exec of /bin/true", "tasks/s", more_is_better=True, ratio_bar=0.6)
    lives = Result("one-task worker: CPU of angel and server beyond a bare loop's", "µs/life", bar=50.0)
    parts = {part: Result(f"one-task worker: CPU of the {part} alone", "µs/life") for part in ("angel", "server")}
    for pair in range(options.pairs):
        options.await_quiet()
        steps = [lambda: bare(programs, ["/bin/true"]), lambda: executed(programs, options, folder)]
        for step in steps if pair % 2 == 0 else reversed(steps):
            step()
        spent, spawning = lived(options.binary, folder), spawned(["/bin/true"])["cpu_us"]
        lives.stoker.append(sum(spent.values()) - spawning)
        for part, result in parts.items():
            result.stoker.append(spent[part])
    return [programs, lives, *parts.values()]


def bare(programs, command):
    programs.reference.append(spawned(command)["per_s"])


def spawned(command):
    done = subprocess.run([C / "spawn", str(AT_ONCE), str(LIVES), *command], check=True, capture_output=True, timeout=120)
    return json.loads(done.stdout)


def executed(programs, options, folder):
    with Stoker(folder, ["/bin/true"], 1, options.binary, strategy="exec", configured=AT_ONCE) as broker:
        with Client(broker.socket) as client:
            fill_and_run(client, LIVES // 10)
            programs.stoker.append(LIVES / fill_and_run(client, LIVES))


def lived(binary, folder):
    """Returns the CPU time of angel and of server per life, in microseconds."""
    with Stoker(folder, [C / "worker", "each"], AT_ONCE, binary, strategy="spare") as broker:
        with Client(broker.socket) as client:
            fill_and_run(client, LIVES // 10)
            parts = dict(zip(("angel", "server"), broker.pids()))
            before = {part: processes.cpu_seconds([pid]) for part, pid in parts.items()}
            # Each poll costs the server time too.
            fill_and_run(client, LIVES, every=0.05)
            return {part: (processes.cpu_seconds([pid]) - before[part]) * 1e6 / LIVES for part, pid in parts.items()}
