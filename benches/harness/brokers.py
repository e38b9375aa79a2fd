"""Stoker and the C reference behind one interface, so that the same programs drive both."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

from . import processes
from .wire import Client, WireError

BENCHES = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", BENCHES.parent / "target"))
C = TARGET / "bench-c"
PHP = BENCHES / "php"
BROKER_CPU, OTHER_CPU = 0, 1


def build():
    subprocess.run(["make", "-s", "-C", str(BENCHES / "c"), f"OUT={C}"], check=True, timeout=120)


class Reference:
    """benches/c/broker.c with C workers that connect to it."""

    name = "C reference"

    def __init__(self, folder, workers, window=1, pinned=True, mode="batch"):
        self.socket = Path(folder, "reference.sock")
        self.worker_count, self.window, self.pinned, self.mode = workers, window, pinned, mode
        self.broker, self.worker_processes = None, []

    def __enter__(self):
        self.broker = processes.start(
            [C / "broker", self.socket, self.window, self.worker_count],
            stdout=subprocess.PIPE,
            cpu=BROKER_CPU if self.pinned else None,
        )
        try:
            processes.wait_for("the reference's socket", self.socket.exists)
            env = {"STOKER_SOCKET": str(self.socket)} | ({"PIN": str(OTHER_CPU)} if self.pinned else {})
            for _ in range(self.worker_count):
                self.worker_processes.append(processes.start([C / "worker", self.mode], env=env))
            if self.broker.stdout.readline() != "ready\n":
                raise RuntimeError("the C reference did not start")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        out = processes.end(self.broker)
        for worker in self.worker_processes:
            processes.end(worker)
        self.own_account = json.loads(out) if out else None

    def pids(self):
        return [self.broker.pid]

    def server_pid(self):
        return self.broker.pid

    def worker_pids(self):
        return [worker.pid for worker in self.worker_processes]


class Stoker:
    """`stoker serve` with one pool whose workers it spawns.

    Jobs are in memory unless `store` says otherwise, because the C reference does not store anything either. `queues`
    are further sections of the configuration, `{name: {key: value}}`. `home` is a folder to reuse, including its jobs;
    without it each start gets a new, empty one. Entering the context waits for `workers` workers; `configured` is the
    number in the pool's configuration if it differs, and `strategy` is the pool's strategy.
    """

    name = "Stoker"

    def __init__(
        self,
        folder,
        command,
        workers,
        binary,
        *,
        pinned=False,
        idempotent=("echo",),
        store="memory",
        queues=None,
        env=None,
        home=None,
        configured=None,
        strategy="loop",
    ):
        self.folder = Path(home or tempfile.mkdtemp(dir=folder))
        self.binary, self.pinned, self.worker_count = binary, pinned, workers
        self.socket = self.folder / "stoker.sock"
        self.log = self.folder / "stoker.log"
        self.config = self.folder / "stoker.toml"
        settings = config(command, configured or workers, idempotent, queues or {}, strategy) if command is not None else IDLE_CONFIG
        self.config.write_text(f'{settings}\n[store]\ndriver = "{store}"\n')
        self.env = env or {}
        self.process = None

    def __enter__(self):
        log = open(self.log, "a", encoding="utf-8")
        with log:
            self.process = processes.start(
                [self.binary, "serve", "-c", self.config],
                env={"STOKER_SOCKET": str(self.socket), **self.env},
                cwd=self.folder,
                stdout=log,
                stderr=log,
                cpu=BROKER_CPU if self.pinned else None,
            )
        try:
            processes.wait_for("stoker's socket", self._answers, seconds=60, every=0.002)
            if self.worker_count:
                processes.wait_for("stoker's workers", self.ready, seconds=30)
            if self.pinned:
                processes.pin(self.pids(), BROKER_CPU)
        except BaseException as error:
            self.__exit__()
            raise RuntimeError(f"{error}; its log ends: {self.log_tail()}") from error
        return self

    def __exit__(self, *_):
        processes.end(self.process)

    def _answers(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"stoker ended with {self.process.returncode}")
        try:
            Client(self.socket).socket.close()
        except (OSError, WireError):
            return False
        return True

    def log_tail(self):
        return self.log.read_text(errors="replace")[-1500:]

    def pids(self):
        """Angel and server: the process that was started, and its child that runs the same program."""
        angel = self.process.pid
        program = os.readlink(f"/proc/{angel}/exe")
        parents = processes.parents()
        return [angel] + [pid for pid, parent in parents.items() if parent == angel and _program(pid) == program]

    def server_pid(self):
        return self.pids()[-1]

    def workers(self):
        with Client(self.socket) as client:
            return client.call("stoker.worker", {"op": "list"})

    def ready(self):
        return sum(int(pool["ready"]) for pool in self.workers()["pools"]) >= self.worker_count

    def worker_pids(self):
        return [int(worker["pid"]) for worker in self.workers()["workers"] if worker.get("pid")]


# A pool that has no worker while there is no work, so that only angel and server remain.
IDLE_CONFIG = """[pool.bench]
command = ["false"]
workers = { min = 0, max = 1 }
"""


def config(command, workers, idempotent, queues, strategy):
    parts = ", ".join(json.dumps(str(part)) for part in command)  # TOML's basic strings are close enough to JSON's
    # Without a command, workers would have to connect by themselves, and none does.
    # `loop` is the default. It is not written, so that builds without the key `strategy` can be compared too.
    line = "" if strategy == "loop" else f'strategy = "{strategy}"\n'
    spawned = f"command = [{parts}]\nworkers = {workers}\n{line}" if command else ""
    return f"""[pool.bench]
{spawned}
{"".join(section(name, keys) for name, keys in ({"bench": {}} | queues).items())}
[service.bench]
pool = "bench"
timeout = "30s"
idempotent = {json.dumps(list(idempotent))}
"""


def section(name, keys):
    lines = [f"[queue.{name}]", 'pool = "bench"', *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
    return "\n".join(lines) + "\n\n"


def _program(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return None
