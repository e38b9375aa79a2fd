"""Durable jobs against beanstalkd with -f0, which like Stoker answers a push after syncing it to disk: pushed and run
by two PHP workers, and run from a full queue. The beanstalkd worker deletes a job and reserves the next in one write."""

import contextlib
import shutil
import socket
import subprocess
import time
from pathlib import Path

from . import processes
from .brokers import PHP, Stoker
from .durable import push_and_run
from .hello import BODY, WORKERS, fill_and_run
from .report import Result
from .wire import Client

PATIENCE = 120


def run(options, folder):
    if not shutil.which("beanstalkd"):
        options.say("beanstalkd: needs the package of that name, skipped")
        return
    results = [
        Result(f"jobs {how}, 2 PHP workers, against beanstalkd -f0", "jobs/s", more_is_better=True, ratio_bar=1)
        for how in ("pushed while workers run", "from a full queue")
    ]
    pairs = max(1, options.pairs // 2)
    options.say(f"beanstalkd: {pairs} pairs of {options.beanstalkd_jobs:,} jobs")
    for pair in range(pairs):
        options.await_quiet()
        steps = [(beanstalkd, "reference")] + ([(stoker, "stoker")] if options.binary else [])
        for measure, side in steps if pair % 2 == 0 else reversed(steps):
            for result, value in zip(results, measure(options, Path(folder, f"{side}{pair}"))):
                getattr(result, side).append(value)
    yield from results


def stoker(options, folder):
    """Uses ten times as many jobs, because the run would otherwise be too short."""
    folder.mkdir()
    jobs = options.beanstalkd_jobs * 10
    command = ["php", PHP / "hello.php"]
    with Stoker(folder, command, WORKERS, options.binary, store="sqlite") as broker, Client(broker.socket) as client:
        fill_and_run(client, jobs // 10 + 1)
        return jobs / push_and_run(client, jobs), jobs / fill_and_run(client, jobs)


def beanstalkd(options, folder):
    folder.mkdir()
    jobs, path, workers = options.beanstalkd_jobs, folder / "beanstalkd.sock", []
    server = processes.start(["beanstalkd", "-b", folder, "-f0", "-l", f"unix:{path}"], stderr=subprocess.DEVNULL)
    try:
        processes.wait_for("beanstalkd", path.exists)
        with contextlib.closing(Tube(path)) as tube:
            workers += [processes.start(["php", PHP / "beanstalkd.php", path]) for _ in range(WORKERS)]
            processes.wait_for("its workers", lambda: tube.stat("current-waiting") == WORKERS)
            tube.put(jobs // 10 + 1)
            tube.wait(jobs // 10 + 1)
            start = time.monotonic()
            tube.put(jobs)
            tube.wait(jobs // 10 + 1 + jobs)
            both = jobs / (time.monotonic() - start)
            tube.ask(b"pause-tube default 3600\r\n")
            tube.put(jobs)
            start = time.monotonic()
            tube.ask(b"pause-tube default 0\r\n")
            tube.wait(jobs // 10 + 1 + 2 * jobs)
            return both, jobs / (time.monotonic() - start)
    finally:
        for process in (*workers, server):
            processes.end(process)


class Tube:
    """A connection that pushes jobs and reads statistics."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        self.socket.connect(str(path))
        self.file = self.socket.makefile("rb")

    def close(self):
        self.file.close()
        self.socket.close()

    def put(self, count):
        """Keeps as many pushes in flight as Client.push does."""
        one, size, on_their_way = b"put 0 0 600 %d\r\n%s\r\n" % (len(BODY), BODY), 500, 0
        while count or on_their_way:
            batch = min(size, count)
            self.socket.sendall(one * batch)
            self._read(on_their_way)
            count, on_their_way = count - batch, batch

    def _read(self, answers):
        for _ in range(answers):
            if not (line := self.file.readline()).startswith(b"INSERTED"):
                raise RuntimeError(f"beanstalkd: {line!r}")

    def ask(self, command):
        self.socket.sendall(command)
        return self.file.readline()

    def stat(self, key):
        size = int(self.ask(b"stats\r\n").split()[1])
        for line in self.file.read(size + 2).decode().splitlines():
            if line.startswith(f"{key}: "):
                return int(line.split()[1])
        raise RuntimeError(f"beanstalkd counts no {key}")

    def wait(self, deleted):
        deadline = time.monotonic() + PATIENCE
        while self.stat("cmd-delete") < deleted:
            if time.monotonic() > deadline:
                raise TimeoutError("beanstalkd's jobs do not end")
            time.sleep(0.005)
