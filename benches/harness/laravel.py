"""Hello jobs of Laravel: a resident worker under Stoker, durable, against Laravel's own queue:work with its usual
backends.

All use the same application, job and number of processes. Each queue is filled first; then the workers start, and the
clock runs from the first job's line in a ledger to the last one's, so booting is not measured. Servers are started from
Debian's packages in a temporary folder, on unix sockets or a free loopback port, and are stopped here.

Tuned means what settings alone can do: workers that never sleep, SQLite's write-ahead log, more memory for PostgreSQL
and no prepared statements that are used only once, unix sockets, Redis blocking instead of polling. Not durable means
that commits don't wait for the disk, so a power loss takes the last jobs with it. Stoker's commits wait.
"""

import contextlib
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from . import processes
from .brokers import BENCHES, Stoker
from .report import Result
from .wire import Client

APP = BENCHES / "laravel"
WORKERS = 2
RATIO_BAR = 20  # against the database driver, tuned
FLOOR = 400  # jobs per second of that driver; less means that something disturbs it
PATIENCE = 15  # seconds; a contender that needs longer is rated by what it did in this time
SINGLE = 100
LINE = struct.Struct(">QQ")
POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
REDIS_DEFAULT_SAVE = ["--save", "3600 1 300 100 60 10000"]


@dataclass
class Contender:
    name: str
    env: dict
    tuned: bool
    sync: bool = True
    server: object = None  # a context manager that takes a folder and returns more environment variables
    needs: str | None = None  # why it cannot be measured on this machine
    bar: float | None = None
    floor: float | None = None

    def worker(self):
        fast = ["--sleep=0"] if self.tuned else []
        return ["php", APP / "artisan.php", "queue:work", self.env["QUEUE_CONNECTION"], *fast]


def contenders():
    sqlite = {"QUEUE_CONNECTION": "database", "DB_CONNECTION": "sqlite"}
    pgsql = {"QUEUE_CONNECTION": "database", "DB_CONNECTION": "pgsql"}
    redis = {"QUEUE_CONNECTION": "redis"}
    no_pgsql = missing("postgresql" if not POSTGRES else None, "php-pgsql" if not extension("pdo_pgsql") else None)
    no_redis = missing(
        "redis-server" if not shutil.which("redis-server") else None, "php-redis" if not extension("redis") else None
    )
    return [
        Contender("database on SQLite, defaults", sqlite, False),
        Contender("database on SQLite, tuned", sqlite, True, bar=RATIO_BAR, floor=FLOOR),
        Contender("database on SQLite, tuned, not durable", sqlite, True, sync=False),
        Contender("database on PostgreSQL, defaults", pgsql, False, True, partial(postgres, tuned=False), no_pgsql),
        Contender("database on PostgreSQL, tuned", pgsql, True, True, partial(postgres, tuned=True), no_pgsql),
        Contender("database on PostgreSQL, tuned, not durable", pgsql, True, False, partial(postgres, tuned=True), no_pgsql),
        Contender("Redis, defaults, not durable", redis, False, False, partial(redis_server, tuned=False), no_redis),
        Contender("Redis, tuned, not durable", redis, True, False, partial(redis_server, tuned=True), no_redis),
        Contender("Redis, tuned, appendfsync always", redis, True, True, partial(redis_server, tuned=True, sync=True), no_redis),
    ]


def run(options, folder):
    if not Path("/usr/share/php/Illuminate/autoload.php").exists():
        options.say("laravel: needs the package php-laravel-framework, skipped")
        return
    if not extension("pcntl"):
        raise RuntimeError("PHP has no pcntl")
    pairs, results, pushes = max(1, options.pairs // 4), {}, {}
    for contender in contenders():
        if contender.needs:
            options.say(f"laravel: {contender.name} needs {contender.needs}, skipped")
            continue
        name = f"Laravel hello jobs, {WORKERS} processes, against {contender.name}"
        # A contender without a bar of its own only has to be beaten.
        results[contender.name] = contender, Result(name, "jobs/s", more_is_better=True, ratio_bar=contender.bar or 1, floor=contender.floor)
    options.say(f"laravel: {pairs} x {options.laravel_jobs:,} jobs with each of {len(results)} set-ups of queue:work")
    for _ in range(pairs):
        options.await_quiet()
        found, pushed = stoker(options, folder) if options.binary else (None, None)
        pushes.setdefault("Stoker", []).append(pushed)
        for contender, result in results.values():
            reference, pushed, jobs = queue_work(contender, options.laravel_jobs, folder)
            result.reference.append(reference)
            pushes.setdefault(contender.name, []).append(pushed)
            result.note = f"{jobs:,} jobs; pushes/s in bulk {pushed['bulk']:,.0f}, one by one {pushed['single']:,.0f}"
            if found:
                result.stoker.append(found)
                ours = pushes["Stoker"][-1]
                result.note += f" (Stoker {ours['bulk']:,.0f}, {ours['single']:,.0f})"
            result.details = {"pushes": pushes[contender.name], "stoker_pushes": pushes["Stoker"]}
    yield from (result for _, result in results.values())


def stoker(options, folder):
    """Uses ten times as many jobs, because the run would otherwise be too short."""
    jobs = options.laravel_jobs * 10
    home = Path(tempfile.mkdtemp(dir=folder))
    env = {"BENCH_FOLDER": str(home), "QUEUE_CONNECTION": "stoker"}
    command = ["php", APP / "worker.php"]
    with Stoker(folder, command, WORKERS, options.binary, store="sqlite", queues={"default": {}}, env=env) as broker:
        with Client(broker.socket) as client:
            client.call("stoker.queue", {"op": "pause", "queue": "default", "create": True})
            pushed = fill(env | {"STOKER_SOCKET": str(broker.socket)}, jobs)
            client.call("stoker.queue", {"op": "resume", "queue": "default"})
            rate, ran = clock(home / "ledger", jobs + SINGLE)
    if ran < jobs + SINGLE:
        raise RuntimeError(f"Stoker ran {ran} of {jobs + SINGLE} jobs in {PATIENCE} s; its log ends: {broker.log_tail()}")
    return rate, pushed


def queue_work(contender, jobs, folder):
    home = Path(tempfile.mkdtemp(dir=folder))
    env = contender.env | {"BENCH_FOLDER": str(home), "BENCH_TUNED": str(int(contender.tuned)), "BENCH_SYNC": str(int(contender.sync))}
    workers, log = [], open(home / "workers.log", "w", encoding="utf-8")
    with log, contender.server(home) if contender.server else contextlib.nullcontext({}) as more:
        env |= more
        (home / "database.sqlite").touch()
        pushed = fill(env, jobs)
        try:
            workers = [processes.start(contender.worker(), env=env, cwd=home, stderr=log) for _ in range(WORKERS)]
            rate, ran = clock(home / "ledger", jobs + SINGLE)
        finally:
            for worker in workers:
                processes.end(worker)
    if not rate:
        raise RuntimeError(f"{contender.name}: nothing was run; the log: {(home / 'workers.log').read_text()[-1000:]}")
    return rate, pushed, ran


def fill(env, jobs):
    push = ["php", APP / "push.php", str(jobs), str(SINGLE)]
    done = subprocess.run(push, env={**os.environ, **env}, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise RuntimeError(f"push.php: {(done.stderr or done.stdout).strip()[-1000:]}")
    return json.loads(done.stdout)


def clock(ledger, jobs):
    """Waits until all jobs have run or PATIENCE is over. Returns the jobs per second since the first line, and their
    number."""
    processes.wait_for("the first job", lambda: ledger.exists() and ledger.stat().st_size >= LINE.size, seconds=30)
    deadline = time.monotonic() + PATIENCE
    while ledger.stat().st_size < jobs * LINE.size and time.monotonic() < deadline:
        time.sleep(0.01)
    data = ledger.read_bytes()
    lines = list(LINE.iter_unpack(data[: len(data) // LINE.size * LINE.size]))
    if len({number for number, _ in lines}) != len(lines):
        raise RuntimeError("a job was run twice")
    moments = [at for _, at in lines]
    return (len(moments) - 1) / max(1e-9, (max(moments) - min(moments)) / 1e9), len(moments)


@contextlib.contextmanager
def postgres(folder, tuned):
    """A temporary cluster. PostgreSQL refuses to run as root, so root starts it as the user of its package."""
    data, programs = folder / "postgres", POSTGRES[-1]
    data.mkdir()
    become = []
    if os.geteuid() == 0:
        become = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
        shutil.chown(data, "postgres", "postgres")
        for parent in (folder, folder.parent):
            parent.chmod(0o711)
    init = [*become, programs / "initdb", "-D", data / "data", "-A", "trust", "-U", "postgres"]
    subprocess.run([str(part) for part in init], check=True, capture_output=True, timeout=120, cwd="/")
    settings = ["listen_addresses=", f"unix_socket_directories={data}"] + (["shared_buffers=256MB"] if tuned else [])
    command = [*become, programs / "postgres", "-D", data / "data", *(part for one in settings for part in ("-c", one))]
    with open(folder / "postgres.log", "w", encoding="utf-8") as log:
        server = processes.start(command, cwd="/", stdout=log, stderr=log)
    try:
        ready = [str(programs / "pg_isready"), "-q", "-h", str(data), "-U", "postgres"]
        processes.wait_for("PostgreSQL", lambda: subprocess.run(ready, check=False).returncode == 0, seconds=30)
        yield {"BENCH_SERVER": str(data)}
    finally:
        processes.end(server)


@contextlib.contextmanager
def redis_server(folder, tuned, sync=False):
    """Redis with its defaults on a free port or, if tuned, on a unix socket."""
    command = ["redis-server", "--dir", folder, "--daemonize", "no", *REDIS_DEFAULT_SAVE]
    if sync:
        command += ["--appendonly", "yes", "--appendfsync", "always"]
    if tuned:
        path = folder / "redis.sock"
        command += ["--port", "0", "--unixsocket", path]
        env = {"BENCH_SERVER": str(path), "BENCH_PORT": "0"}
        is_there = path.exists
    else:
        port = free_port()
        command += ["--bind", "127.0.0.1", "--port", port]
        env = {"BENCH_SERVER": "127.0.0.1", "BENCH_PORT": str(port)}
        is_there = lambda: listens(port)  # noqa: E731
    server = processes.start(command, cwd=folder)
    try:
        processes.wait_for("Redis", is_there)
        yield env
    finally:
        processes.end(server)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def extension(name):
    return subprocess.run(["php", "-r", f"exit(extension_loaded('{name}') ? 0 : 1);"], check=False).returncode == 0


def missing(*packages):
    return " and ".join(package for package in packages if package) or None
