#!/usr/bin/env python3
"""The load of the 2017 article, for as long as you like: clients, server and workers on three hosts, at a steady rate.

    benches/hour.py                                       # an hour at 20,000 calls a second
    benches/hour.py --seconds 60 --rate 5000 --tls

The hosts are network namespaces, joined by virtual Ethernet, so this needs root; without it, it says so and ends with 0. Clients
and workers connect with tokens that permit only what they do. Prints the calls made, the rate, the median and the 99th
percentile of their times, and, for each process, its memory, its descriptors and how fast they grow. Ends with 1 if a call
failed, the rate was not reached, memory grew, or descriptors were left open.
"""

import argparse
import collections
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from harness import processes
from harness.brokers import PHP, TARGET
from harness.hosts import LINKS, Hosts, missing
from harness.remote import make_certificate
from harness.wire import Client

PORT = 7707
CONFIG = """[pool.bench]
[service.bench]
pool = "bench"
timeout = "30s"
idempotent = ["echo"]
[listen]
addresses = [{addresses}]
{security}
[store]
driver = "memory"
"""
SECURITY = {False: "insecure = true", True: 'certificate = "server.pem"\nkey = "server.key"'}
NAME = "stoker.test"
WARM_UP = 0.1  # the share of the time after which memory is expected to be flat
GROWTH = 0.02  # by how much the memory of a process may have grown from the first to the last quarter after that
SLACK_KB = 1024
MIN_RATE = 0.99  # the share of the rate that must be reached
BUCKETS_PER_DOUBLING = 16  # as in php/paced_client.php
PROGRAMS = {"stoker: server": "server", "stoker: gateway relay": "gateway"}


class Run:
    def __init__(self, options, folder, hosts):
        self.options, self.folder, self.hosts = options, folder, hosts
        self.answered, self.failed, self.taken = 0, collections.Counter(), collections.Counter()
        self.lock = threading.Lock()
        self.samples = []  # (seconds, {process: (KB, descriptors)})

    def serve(self):
        make_certificate(self.folder, NAME)
        addresses = ", ".join(f'"{self.hosts.server_address(host)}:{PORT}"' for host in LINKS)
        config = self.folder / "stoker.toml"
        config.write_text(CONFIG.format(addresses=addresses, security=SECURITY[self.options.tls]))
        roles = {"clients": "call", "workers": "work"}
        self.tokens = {host: self._token(host, role) for host, role in roles.items()}
        log = open(self.folder / "stoker.log", "w", encoding="utf-8")
        command = self.hosts.on("server", [self.options.binary, "serve", "-c", config])
        self.angel = processes.start(command, cwd=self.folder, stdout=log, stderr=log)
        command = ["php", PHP / "remote_worker.php"]
        self.workers = [processes.start(self.hosts.on("workers", command), env=self._env("workers")) for _ in range(self.options.workers)]
        processes.wait_for("the workers", lambda: self._worker_count() == self.options.workers, seconds=60)
        self.pids = {"angel": self.angel.pid} | self._gateways_and_server()
        self.pids |= {f"worker {n}": worker.pid for n, worker in enumerate(self.workers, 1)}

    def _token(self, host, role):
        command = [self.options.binary, "token", "create", host, "--roles", role, "--services", "bench"]
        command += ["--tokens", self.folder / "stoker.tokens"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def _env(self, host):
        address = f"{self.hosts.server_address(host)}:{PORT}"
        url = f"tls://{address}?ca={self.folder / 'server.pem'}&name={NAME}" if self.options.tls else f"tcp://{address}"
        return {"STOKER_URL": url, "STOKER_TOKEN": self.tokens[host]}

    def _worker_count(self):
        with contextlib.suppress(OSError), Client(self.folder / "stoker.sock") as client:
            return len(client.call("stoker.worker", {"op": "list"})["workers"])
        return 0

    def _gateways_and_server(self):
        found = {}
        for pid in processes.descendants(self.angel.pid):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            with contextlib.suppress(KeyError):
                found[PROGRAMS[words[0].decode()]] = pid
        return found

    def call(self):
        """Runs the clients, and takes samples until they end."""
        count, options = self.options.clients, self.options
        words = [str(options.rate / count), str(options.seconds), str(options.every)]
        command = self.hosts.on("clients", ["php", PHP / "paced_client.php", *words])
        env = self._env("clients")
        clients = [processes.start(command, env=env, stdout=subprocess.PIPE) for _ in range(count)]
        self.pids |= {f"client {n}": client.pid for n, client in enumerate(clients, 1)}
        threads = [threading.Thread(target=self._read, args=[client.stdout]) for client in clients]
        for thread in threads:
            thread.start()
        began, self.used = time.monotonic(), self._cpu()
        while time.monotonic() < began + options.seconds:
            time.sleep(options.every)
            self._sample(time.monotonic() - began)
        for client, thread in zip(clients, threads):
            thread.join(60)
            if client.wait(60):
                raise RuntimeError(f"a client ended with {client.returncode}")
        self.used = self._cpu() - self.used

    def _cpu(self):
        return processes.cpu_seconds([self.pids["server"], self.pids["gateway"]])

    def _read(self, lines):
        for line in lines:
            report = json.loads(line)
            with self.lock:
                self.answered += report["answered"]
                self.failed.update(report["failed"])
                self.taken.update({int(bucket): count for bucket, count in report["taken"].items()})

    def _sample(self, seconds):
        now = {}
        for name, pid in self.pids.items():
            with contextlib.suppress(OSError):  # clients end at the end
                now[name] = (processes.memory_kb([pid])[1], len(os.listdir(f"/proc/{pid}/fd")))
        self.samples.append((seconds, now))
        with self.lock:
            done = self.answered
        broker = ", ".join(f"{name} {now[name][0] / 1024:.1f} MB, {now[name][1]} descriptors" for name in ("server", "gateway") if name in now)
        print(f"{seconds:7.0f} s: {done:,} calls answered; {broker}", flush=True)

    def percentile(self, share):
        """The time in milliseconds within which this share of the calls was answered."""
        left = share * sum(self.taken.values())
        for bucket in sorted(self.taken):
            left -= self.taken[bucket]
            if left <= 0:
                return 2 ** ((bucket + 1) / BUCKETS_PER_DOUBLING) / 1000
        return 0.0

    def report(self):
        """Prints the result, and returns what is wrong."""
        options, wrong = self.options, []
        rate = self.answered / options.seconds
        print(f"{self.answered:,} calls answered in {options.seconds} s: {rate:,.0f} a second of {options.rate:,.0f} ({'TLS' if options.tls else 'plain TCP'})")
        print("times of calls: " + ", ".join(f"p{share * 100:g} {self.percentile(share):.2f} ms" for share in (0.5, 0.99, 0.999)))
        print(f"CPU time of server and gateway: {self.used / max(self.answered, 1) * 1e6:.2f} µs per call")
        if self.failed:
            wrong.append(f"failed calls: {dict(self.failed)}")
        if rate < MIN_RATE * options.rate:
            wrong.append(f"only {rate:,.0f} calls a second")
        samples = [sample for sample in self.samples if sample[0] >= WARM_UP * options.seconds]
        print(f"{'process':10} {'MB at first':>11} {'MB at last':>10} {'KB per hour':>11} {'descriptors':>11}")
        for name in self.pids:
            points = [(seconds, *now[name]) for seconds, now in samples if name in now]
            if len(points) >= 4:
                wrong += self._judge(name, points)
            else:
                wrong.append(f"{name} was measured only {len(points)} times")
            if not name.startswith("client") and name not in self.samples[-1][1]:
                wrong.append(f"{name} has ended")
        return wrong

    @staticmethod
    def _judge(name, points):
        quarter = len(points) // 4
        first, last = (sum(kb for _, kb, _ in part) / quarter for part in (points[:quarter], points[-quarter:]))
        opened = points[-1][2] - points[0][2]
        print(f"{name:10} {first / 1024:11.1f} {last / 1024:10.1f} {slope(points):11,.0f} {points[0][2]:5} {opened:+5}")
        wrong = []
        if last > first * (1 + GROWTH) + SLACK_KB:
            wrong.append(f"the memory of {name} grew from {first / 1024:.1f} to {last / 1024:.1f} MB")
        if opened > 0:
            wrong.append(f"{name} has {opened} descriptors more than at first")
        return wrong


def slope(points):
    """The growth in KB per hour: the slope of the line that fits best."""
    times, sizes = [seconds for seconds, *_ in points], [kb for _, kb, _ in points]
    middle, mean = sum(times) / len(times), sum(sizes) / len(sizes)
    spread = sum((at - middle) ** 2 for at in times)
    return 3600 * sum((at - middle) * (kb - mean) for at, kb in zip(times, sizes)) / spread if spread else 0.0


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=3600, help="how long (3,600)")
    parser.add_argument("--rate", type=float, default=20_000, help="calls a second of all clients together (20,000)")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--every", type=float, help="seconds between two samples (a 60th of the time, at least 1)")
    parser.add_argument("--tls", action="store_true", help="TLS instead of plain TCP")
    parser.add_argument("--stoker", dest="binary", type=Path, default=TARGET / "release" / "stoker", help="the binary")
    options = parser.parse_args()
    options.binary = options.binary.resolve()
    options.every = options.every or max(options.seconds / 60, 1.0)
    return options


def main():
    options = parse()
    if what := missing():
        print(f"benches/hour.py needs {what}: skipped")
        return 0
    processes.adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the `finally` below is reached
    with tempfile.TemporaryDirectory(prefix="stoker-hour-") as folder, Hosts() as hosts:
        try:
            run = Run(options, Path(folder), hosts)
            run.serve()
            run.call()
            wrong = run.report()
        finally:
            processes.end_all()
    for line in wrong:
        print(line, file=sys.stderr)
    print("ok" if not wrong else "BROKEN")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
