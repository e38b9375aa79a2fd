"""Web sites: Stoker against nginx with php-fpm, or nginx alone for files.

All servers share one CPU and the load generators have the other, so requests per second stand for CPU time per request. A
path that is no file reaches PHP, in both after a look for the file. Stoker's failed requests do not end the run: they are
counted in a row of their own. The rows are explained in benches/README.md.

With `fastcgi_keep_conn` two of 64 connections occupy php-fpm's children while the other clients wait, so that this row has
no bar. The floors are about half of what the reference reached on a VM with 2 CPUs.
"""

import contextlib
import resource
import socket
import struct
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from . import load, processes, web
from .report import Result

STREAMS = 16  # of each HTTP/2 connection
SLOW = 10_000
REQUESTS = 100_000  # during reloads
PAUSE = 0.3  # seconds between two reloads


@dataclass
class Row:
    """One measurement of both sides: requests per second, or with one connection the median time of a request."""

    name: str
    reference: str  # a key of nginx's `urls`
    stoker: str | None  # a key of Stoker's; None: nginx again
    path: str
    connections: int = 64
    body: tuple = ()
    bar: float | None = None
    floor: float | None = None  # None: there is no ratio either

    def result(self):
        is_rate = self.connections > 1
        unit = "requests/s" if is_rate else "µs, p50"
        return Result(f"sites: {self.name}", unit, more_is_better=is_rate, ratio_bar=self.bar, floor=self.floor)

    def load(self, url, seconds):
        if url.startswith("https"):
            return load.h2load(url + self.path, self.connections, STREAMS, seconds)
        return load.wrk(url + self.path, self.connections, seconds, *self.body)

    def value(self, done):
        return done.rate() if self.connections > 1 else done.p50_us


RAW, FORM = ("raw", 1 << 20), ("form", 1 << 20)
ROWS = [
    Row("hello, 64 connections", "plain", "plain", "/hello", bar=2, floor=4_000),
    Row("null pair: nginx + php-fpm twice", "plain", None, "/hello", floor=4_000),
    Row("hello, 64 connections, with fastcgi_keep_conn", "kept", "plain", "/hello", floor=0),
    Row("hello by Stoker's strategy fastcgi, 64 connections", "plain", "fastcgi", "/hello", floor=4_000),
    Row("hello, 1 connection", "plain", "plain", "/hello", 1, bar=1, floor=350),
    Row("hello, 1 connection, with fastcgi_keep_conn", "kept", "plain", "/hello", 1, floor=350),
    Row("1 MB answers, 16 connections", "plain", "plain", "/megabyte", 16, bar=1, floor=500),
    Row("1 MB by X-Sendfile, 16 connections", "plain", "plain", "/sendfile", 16, bar=1, floor=900),
    Row("1 MB uploads, 16 connections", "plain", "plain", "/upload", 16, RAW, bar=1, floor=150),
    Row("1 MB uploads by a form, 16 connections", "plain", "plain", "/form", 16, FORM, bar=1, floor=100),
    Row("files of 1 KB, 64 connections", "plain", "plain", "/1k.txt", bar=0.8, floor=40_000),
    Row("files of 100 KB, 64 connections", "plain", "plain", "/100k.bin", bar=0.8, floor=8_000),
    Row("null pair: files of 100 KB, nginx twice", "plain", None, "/100k.bin", floor=8_000),
    Row(f"files of 1 KB, TLS 1.3, HTTP/2, 16 × {STREAMS}", "tls", "tls", "/1k.txt", 16, bar=0.8, floor=30_000),
    Row("Laravel's hello, 16 connections", "laravel", "laravel", "/hello", 16, bar=5, floor=150),
]


def run(options, folder):
    if lacking := web.missing():
        options.say(f"sites: needs {', '.join(lacking)}, skipped")
        return
    folder = Path(folder)
    root, env = web.prepare(folder)
    with contextlib.ExitStack() as stack:
        nginx = stack.enter_context(web.Nginx(folder, root, env))
        stoker = stack.enter_context(web.Sites(folder, root, env, options.binary)) if options.binary else None
        yield from compare(options, nginx, stoker)
        if stoker:
            yield from slow_clients(options, stoker)
            yield reloads(options, stoker)


def compare(options, nginx, stoker):
    results, failed = [row.result() for row in ROWS], {}
    options.say(f"sites: {options.pairs} pairs of {options.seconds} s for each of {len(ROWS)} rows")
    for pair in range(options.pairs):
        options.await_quiet()
        for row, result in zip(ROWS, results):
            sides = [(result.reference, nginx.urls[row.reference], "nginx")]
            if row.stoker is None:
                sides.append((result.stoker, nginx.urls[row.reference], "nginx"))
            elif stoker:
                sides.append((result.stoker, stoker.urls[row.stoker], "Stoker"))
            for found, url, name in sides if pair % 2 == 0 else reversed(sides):
                done = row.load(url, options.seconds)
                found.append(row.value(done))
                if done.failed:
                    failed.setdefault(name, []).append((row.name, done.failed, done.requests))
    if "nginx" in failed:
        raise RuntimeError(f"nginx: failed requests (row, failed, all): {failed['nginx']}")
    return [*results, *([failures(failed.get("Stoker", []))] if stoker else [])]


def failures(failed):
    result = Result("sites: failed requests of the rows above", "requests", bar=0)
    result.stoker.append(sum(count for _, count, _ in failed))
    result.note = "; ".join(f"{name}: {count:,} of {requests:,}" for name, count, requests in failed)
    return result


def slow_clients(options, stoker):
    """Clients that have sent half a header: the gateway's memory, and its CPU time for each request of others."""
    gateway = stoker.gateway_pid()
    memory = Result(f"sites: memory of the gateway with {SLOW:,} slow clients", "MB", bar=150)
    cost = Result(f"sites: CPU of the gateway beside {SLOW:,} slow clients", "µs/request", ratio_bar=1.05)
    null = Result("sites: null pair: the same without them, twice", "µs/request", floor=float("inf"))
    options.say(memory.name)
    memory.note = f"{processes.memory_kb([gateway])[1] / 1e3:.0f} MB before"
    for _ in range(options.pairs):
        null.reference.append(cpu_per_request(options, stoker, gateway))
        null.stoker.append(cpu_per_request(options, stoker, gateway))
        with half_a_header(stoker.urls["plain"], gateway):
            memory.stoker.append(processes.memory_kb([gateway])[1] / 1e3)
            cost.stoker.append(cpu_per_request(options, stoker, gateway))
        cost.reference.append(cpu_per_request(options, stoker, gateway))
    return [memory, cost, null]


def cpu_per_request(options, stoker, gateway):
    before = processes.cpu_seconds([gateway])
    done = load.wrk(f"{stoker.urls['plain']}/hello", 64, options.seconds)
    if done.failed:
        raise RuntimeError(f"{done.failed} of {done.requests} requests failed beside slow clients")
    return (processes.cpu_seconds([gateway]) - before) * 1e6 / done.requests


@contextlib.contextmanager
def half_a_header(url, gateway):
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    host, port = url.removeprefix("http://").split(":")
    with contextlib.ExitStack() as clients:
        for _ in range(SLOW):
            client = clients.enter_context(socket.create_connection((host, int(port))))
            client.sendall(b"GET /hello HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: slow")
            # Closed by RST, so that 10,000 ports are free at once.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        processes.wait_for("the gateway to accept all", lambda: descriptors(gateway) > SLOW)
        yield
    processes.wait_for("the gateway to close all", lambda: descriptors(gateway) < SLOW)


def descriptors(pid):
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def reloads(options, stoker):
    """Failed requests while all workers are replaced again and again."""
    result = Result(f"sites: failed requests of {REQUESTS:,} during reloads", "requests", bar=0)
    options.say(result.name)
    requests, count, ended = 0, 0, threading.Event()

    def reload():
        nonlocal count
        while not ended.wait(PAUSE):
            command = [stoker.binary, "reload", "--socket", stoker.socket]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            if done.returncode:
                raise RuntimeError(f"reload: {done.stderr or done.stdout}")
            count += 1

    reloading = threading.Thread(target=reload)
    reloading.start()
    failed = 0
    try:
        while requests < REQUESTS:
            done = load.wrk(f"{stoker.urls['plain']}/hello", 64, options.seconds)
            requests, failed = requests + done.requests, failed + done.failed + done.timeouts
    finally:
        ended.set()
        reloading.join()
    if not count:
        raise RuntimeError("there was no reload")
    result.stoker.append(failed)
    result.note = f"{requests:,} requests, {count} reloads"
    return result
