#!/usr/bin/env python3
"""Web sites under load while workers, server and gateway are killed and the configuration is reloaded.

    campaign/sites.py [--rounds N] [--seed N] [--only FAULT] [--seconds S] [--binary FILE] [--keep]

Each round starts Stoker with other sites, pools and limits: all options of [site.NAME], those of [http] and [pool.NAME] that concern
sites, and two or three of the strategies loop, spare, fork, snapshot, sapi, cgi, fastcgi (php-fpm) and http (php -S). Clients send requests of all kinds at
full speed over HTTP/1.1 and HTTP/2, with and without TLS. Every answer carries the number of its request and a checksum. A judge
knows which answers are allowed to each request:

- no connection is ever refused;
- no answer is that of another request, and none that was cut off passes for a whole one; files have the right bytes;
- a request that may be repeated is answered although its worker or the server was killed; one that was reset because the gateway was
  killed is answered when it is sent once more; any other runs at most once;
- a request is refused only if a limit that the round has drawn was reached, and did then not run;
- each accepted job of a queue whose pool makes requests of jobs (cgi, fastcgi, http) ends as it should, and runs again only if a kill explains it;
- afterwards no request, descriptor, file of the spool or process is left.
"""

import argparse
import asyncio
import collections
import contextlib
import gzip
import logging
import os
import random
import re
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benches"))

from harness import processes  # noqa: E402 (its path is set above)
from harness.remote import make_certificate  # noqa: E402
from harness.wire import Client, WireError  # noqa: E402
from rig import site_draw, site_jobs, site_load  # noqa: E402
from rig.site_faults import Faults  # noqa: E402
from rig.site_judge import Judge, Timeline  # noqa: E402

START_S, STOP_S, REST_S = 60, 60, 40
DESCRIPTORS = 12  # that may be open besides those of an idle gateway, such as files that are kept open
PROGRAMS = ("php", "php-cgi", "/usr/sbin/php-fpm8.2", "openssl")
FPM = """#!/bin/sh
[ $(id -u) != 0 ] || set -- -R "$@"
exec /usr/sbin/php-fpm8.2 -F "$@"
"""
FPM_CONF = """[global]
daemonize = no
error_log = /dev/stderr
log_level = error
[www]
listen = ${STOKER_ADDRESS}
pm = static
pm.max_children = 4
php_admin_value[upload_max_filesize] = 64M
php_admin_value[post_max_size] = 64M
"""


class Campaign(Faults):
    def __init__(self, options, folder):
        self.options, self.folder, self.random = options, folder, random.Random(options.seed)
        self.server, self.broken, self.certificate = None, [], "old"
        self.totals, self.strategies, self.kinds, self.jobs = {}, set(), set(), 0
        self.log = open(folder / "stoker.log", "a", encoding="utf-8")

    def prepare(self):
        for name in ("old", "new"):
            make_certificate(self.folder, "localhost")
            for end in ("pem", "key"):
                (self.folder / f"server.{end}").rename(self.folder / f"{name}.{end}")
        shutil.copytree(ROOT / "campaign/sites", self.folder / "app")
        shared = self.folder / "shared"
        shared.mkdir()
        self.roots = {site_load.SHARED_FILE: random.Random(0).randbytes(site_load.SHARED_SIZE)}
        (shared / site_load.SHARED_FILE).write_bytes(self.roots[site_load.SHARED_FILE])
        (self.folder / "fpm").write_text(FPM)
        (self.folder / "fpm").chmod(0o755)
        (self.folder / "fpm.conf").write_text(FPM_CONF + ("user = root\ngroup = root\n" if os.getuid() == 0 else ""))

    def make_root(self, name):
        """The public files of a site, which differ from those of any other."""
        root = self.folder / "roots" / name
        if name in self.roots:
            return
        root.mkdir(parents=True)
        content = {"small.txt": f"of {name}\n".encode() * 50, "large.bin": random.Random(name).randbytes(300_000)}
        content["style.css"] = f"/* {name} */\n".encode() * 100
        content["style.css.gz"] = gzip.compress(content["style.css"])
        for file, text in content.items():
            (root / file).write_bytes(text)
        self.roots[name] = content
        for script in ("index.php", "front.php"):
            (root / script).write_text(f"<?php require '{self.folder}/app/front.php';\n")
        for secret in (".env", "secret.php"):
            (root / secret).write_text("nobody may see this")

    async def run(self):
        for number in range(self.options.rounds):
            seed = self.options.seed * 1_000 + number
            began = time.monotonic()
            await self.round(seed)
            print(f"seed {seed}: {self.draw}; {self.said}; {time.monotonic() - began:.0f} s", flush=True)
            if self.broken:
                return

    async def round(self, seed):
        # Of their own for configurations, faults and requests, so that none of them depends on when the others draw.
        self.random, draw = random.Random(f"faults {seed}"), random.Random(f"draw {seed}")
        self.draw = site_draw.Draw(draw, self.folder, free_ports(draw.choice([1, 2, 3])))
        if undrawn := site_draw.undrawn(self.draw):
            self.broken.append(f"keys that are neither drawn nor listed in site_draw.NOT_DRAWN: {undrawn}")
        for site in self.draw.sites:
            self.make_root(site)
        for end in ("key", "pem"):
            shutil.copy(self.folder / f"{self.certificate}.{end}", self.folder / f"site.{end}")
        (self.folder / "runs").write_text("")
        (self.folder / "stoker.toml").write_text(self.draw.config())
        self.timeline = Timeline()
        self.timeline.configured(self.draw.snapshot(), time.monotonic())
        await self.start()
        load = site_load.Load(random.Random(f"requests {seed}"), self.draw, self.roots)
        clients = asyncio.ensure_future(load.run())
        jobs = site_jobs.Jobs(random.Random(f"jobs {seed}"), self.draw, self.folder)
        jobs.start()
        try:
            await self.do_faults(clients)
        finally:
            load.ends = True
            jobs.ends.set()
            await clients
        await asyncio.to_thread(jobs.join)
        await self.at_rest(jobs)
        await self.stop()
        self.broken += jobs.broken(self.timeline)
        self.jobs += len(jobs.accepted)
        lines = [f"{request.began:.2f} {request}\n" for request in load.done]
        lines += [f"{began:.2f} {kind.upper()} until {ended:.2f}\n" for kind, began, ended in self.timeline.faults]
        (self.folder / "requests.txt").write_text("".join(sorted(lines)))
        judge = Judge(load, self.timeline, self.draw)
        self.broken += judge.broken((self.folder / "runs").read_text().split())
        self.kinds |= {request.kind for request in load.done if request.answer}
        self.strategies |= {pool["strategy"] for snapshot, _, _ in self.timeline.settings for pool in snapshot["pools"].values()}
        for key, count in judge.counts.items():
            self.totals[key] = self.totals.get(key, 0) + count
        self.said = f"{len(load.done):,} requests, {len(jobs.accepted)} jobs, {dict(judge.counts)}, {[kind for kind, _, _ in self.timeline.faults]}"

    async def do_faults(self, clients):
        ends = time.monotonic() + self.options.seconds
        faults = self.random.sample(self.FAULTS, len(self.FAULTS))
        while time.monotonic() < ends:
            await asyncio.sleep(self.random.uniform(0.1, 0.8))
            if clients.done():
                await clients
            fault = self.options.only or faults.pop() if faults or self.options.only else self.random.choice(self.FAULTS)
            await getattr(self, fault)()

    async def start(self):
        command = [self.options.binary, "serve", "-c", self.folder / "stoker.toml"]
        self.server = processes.start(command, cwd=self.folder, env={"STOKER_URL": ""}, stdout=self.log, stderr=self.log)
        await self.until("the socket", self.answers, START_S)
        await self.until("the workers", self.workers_are_ready, START_S)
        self.idle = self.descriptors()

    def answers(self):
        if self.server.poll() is not None:
            raise RuntimeError(f"Stoker ended with {self.server.returncode}: {(self.folder / 'stoker.log').read_text()[-2000:]}")
        try:
            return bool(self.ask("stoker.worker"))
        except (OSError, WireError):
            return False

    def workers_are_ready(self):
        pools = {*self.draw.pools, "tasks"}
        ready = {worker["pool"] for worker in self.ask("stoker.worker")["workers"] if worker["state"] in ("ready", "busy")}
        return pools <= ready and self.pid_of("stoker: gateway sites")

    def ask(self, method, op="list", **fields):
        with Client(self.folder / "stoker.sock") as client:
            return client.call(method, {"op": op, **fields})

    async def until(self, what, condition, within=REST_S):
        deadline = time.monotonic() + within
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not within {within} s")
            await asyncio.sleep(0.02)
        return found

    def family(self):
        return processes.descendants(self.server.pid)

    def open_files(self):
        """What the gateway has open, without numbers. Its connections to the server are left out: they are kept, at most 16 for each use."""
        pid = self.pid_of("stoker: gateway sites")
        if not pid:
            return collections.Counter()
        unix = {line.split()[6] for line in Path("/proc/net/unix").read_text().splitlines()[1:]}
        found = collections.Counter()
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                target = os.readlink(link)
                if target.removeprefix("socket:[").rstrip("]") not in unix:
                    found[re.sub(r"\d+", "", target)] += 1
        return found

    def descriptors(self):
        return self.open_files().total()

    def spooled(self):
        """Files that nobody removes any more. A worker's answer that did not arrive is removed after a minute."""
        folder = Path(self.draw.http["spool"] or os.environ["TMPDIR"])
        old = time.time() - 60
        return [*folder.rglob("body-*"), *(path for path in folder.rglob("answer-*") if path.stat().st_mtime < old)]

    async def at_rest(self, jobs):
        """Nothing is left of the requests when all clients have gone."""
        checks = {
            "jobs": lambda: not jobs.left(),
            "files in the spool": lambda: not self.spooled(),
            "descriptors of the gateway": lambda: self.descriptors() <= self.idle + DESCRIPTORS,
            "requests at workers": lambda: not any(worker["assigned"] for worker in self.ask("stoker.worker")["workers"]),
            "programs of adapters": lambda: not any(words[0] == "php-cgi" for _, words in self.commands()),
        }
        for what, is_gone in checks.items():
            try:
                await self.until(what, is_gone)
            except TimeoutError:
                left = {"jobs": jobs.left(), "files": self.spooled(), "descriptors before": self.idle, "now": self.open_files()}
                self.broken.append(f"at rest there are {what}: {left}")

    async def stop(self):
        family = self.family()
        self.server.terminate()
        try:
            code = await asyncio.to_thread(self.server.wait, STOP_S)
        except Exception:
            self.broken.append(f"Stoker did not end within {STOP_S} s")
            return
        left = set(family) & set(processes.descendants(os.getpid()))
        left = [pid for pid in left if not is_zombie(pid)]
        if code or left:
            self.broken.append(f"Stoker ended with code {code}, and left the processes {left}")
        if self.spooled():
            self.broken.append(f"Stoker left files in the spool: {self.spooled()}")


def is_zombie(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def free_ports(count):
    """Ports that are free now. A port of 0 would not do, because a reload has to name the same address."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5, help="how long each round's load lasts at least")
    parser.add_argument("--only", choices=sorted(set(Faults.FAULTS)))
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/stoker")
    parser.add_argument("--keep", action="store_true", help="keep the folder")
    options = parser.parse_args()
    options.binary = options.binary.resolve()
    if lacking := [program for program in PROGRAMS if not shutil.which(program)]:
        print(f"campaign/sites.py needs {', '.join(lacking)}: skipped")
        return 0
    processes.adopt_orphans()
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # which warns of each write to a connection that was cut
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the `finally` below is reached
    folder = Path(tempfile.mkdtemp(prefix="stoker-sites-"))
    (folder / "tmp").mkdir()
    os.environ["TMPDIR"] = str(folder / "tmp")
    campaign, ended = Campaign(options, folder), False
    try:
        began = time.monotonic()
        campaign.prepare()
        asyncio.run(campaign.run())
        ended = True
        print(f"{options.rounds} rounds in {time.monotonic() - began:.0f} s, seed {options.seed}: {sum(campaign.totals.values()):,} requests, {campaign.totals}; {campaign.jobs:,} jobs")
    finally:
        processes.end_all()
        broken = campaign.broken or ([] if ended else ["it did not end"])
        for line in broken[:20]:
            print(line, file=sys.stderr)
        if broken:
            print(f"{len(broken)} rules are broken; the folder stays: {folder}", file=sys.stderr)
        elif not options.keep:
            shutil.rmtree(folder)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
