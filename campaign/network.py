#!/usr/bin/env python3
"""Clients, server and workers on three hosts, and a network between them that fails.

    campaign/network.py [--rounds N] [--seed N] [--only FAULT] [--binary FILE] [--keep]

Each host is a network namespace, so this needs root and /dev/net/tun; without them it says so and ends with 0. Clients and
workers connect with tokens of their own. Each round starts the server with other options of [listen] (plain TCP, TLS or mutual
TLS, max_connections, keepalive, resume_timeout). Then one thing goes wrong for a while: the network loses, delays and reorders
packets, it is cut, it resets connections, a process is killed, or the clients' token is rotated, narrowed or revoked. Afterwards
every client must get answers again by itself; a token on the clients' host gets no more than each of its limits, which the round
draws too; and the host administers the server with tokens of the lowest role. At the end:

- every push that was accepted is a job that has ended, and no idempotency key has two jobs;
- a job ran again only as often as a crash was counted for it, or because it had started and its end was not in the store when the
  server was killed (the store is read at each kill); and a call that must not be repeated ran at most once;
- every call is sent its own answer;
- gateway and server have no more descriptors than at the start, no task is left, and every worker is idle.
"""

import argparse
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benches"))

from harness import processes  # noqa: E402 (its path is set above)
from harness.remote import make_certificate  # noqa: E402
from harness.wire import Client, WireError  # noqa: E402
from rig import listen_draw  # noqa: E402
from rig.ledger import Snapshot, is_dead  # noqa: E402
from rig.network_judge import ServerDeath, allowed_runs, read_runs  # noqa: E402

CLIENTS, WORKERS = 3, 4
ADDRESSES = {"clients": "10.77.0.2", "server": "10.77.0.1", "workers": "10.77.0.3"}
RESUME_S, KEEPALIVE_S = 3, 5  # the longest that a round draws
RECOVER_S = 40
PERMISSION_DENIED = 77


class Network:
    """The hosts and the program that passes packets between them."""

    def __init__(self, folder):
        self.names = {host: f"stoker-{host}-{os.getpid()}" for host in ADDRESSES}
        program = folder / "network"
        subprocess.run(["cc", "-O2", "-o", program, ROOT / "campaign/rig/network.c"], check=True)
        for name in self.names.values():
            subprocess.run(["ip", "netns", "add", name], check=True)
        hosts = [f"{self.names[host]}:{address}" for host, address in ADDRESSES.items()]
        self.process = subprocess.Popen([program, *hosts], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._await_ok()

    def _await_ok(self):
        if self.process.stdout.readline() != "ok\n":
            raise RuntimeError("the network did not start")

    def tell(self, verb, one, other, rest=""):
        self.process.stdin.write(f"{verb} {self.names[one]} {self.names[other]} {rest}\n")
        self.process.stdin.flush()
        self._await_ok()

    def on(self, host, command):
        return ["ip", "netns", "exec", self.names[host], *command]

    def heal(self):
        for host in ("clients", "workers"):
            self.tell("link", host, "server")

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], check=False)


class Campaign:
    def __init__(self, options, folder):
        self.options, self.folder, self.random = options, folder, random.Random(options.seed)
        self.network = Network(folder)
        self.running = {}
        self.faults = collections.Counter()
        self.server_deaths = []
        self.probed, self.broken = [], []

    def start(self):
        make_certificate(self.folder, "client.test")
        for end in ("pem", "key"):
            (self.folder / f"server.{end}").rename(self.folder / f"client.{end}")
        make_certificate(self.folder, "stoker.test")
        tokens = {
            "clients": self._token("clients", ["--roles", "push,call", "--queues", "net", "--services", "net"]),
            "workers": self._token("workers", ["--roles", "work", "--queues", "net", "--services", "net"]),
        }
        self.probe = self._token("probe", ["--roles", "push,call", "--queues", "net", "--services", "net"])
        self.watch = self._token("watch", ["--roles", "read"])
        self.ops = self._token("ops", ["--roles", "admin"])
        self.log = open(self.folder / "stoker.log", "a", encoding="utf-8")
        self._write_token(tokens["clients"])
        self._serve()
        url = listen_draw.urls(ADDRESSES["server"], self.folder)
        self.env = {host: {"STOKER_URL": url, "STOKER_TOKEN": token} for host, token in tokens.items()}
        for number in range(WORKERS):
            self._start("workers", f"worker{number}", ["network_worker.php", self.folder / f"runs{number}"])
        self._await_workers()
        self.descriptors = self._descriptors()
        for number in range(1, CLIENTS + 1):
            command = ["network_client.php", number, self.folder / f"client{number}", self.folder / "stop", self.folder / "clients.token"]
            self._start("clients", f"client{number}", command)

    def _await_workers(self):
        def all_joined():
            self._restart_workers()
            return len(self.ask("stoker.worker")["workers"]) == WORKERS

        processes.wait_for("the workers", all_joined, seconds=RECOVER_S)

    def _serve(self):
        """Starts the server with options of [listen] that are drawn."""
        self.listen = listen_draw.Listen(self.random)
        (self.folder / "stoker.toml").write_text(self.listen.config(ADDRESSES["server"]))
        serve = [self.options.binary, "serve", "-c", self.folder / "stoker.toml"]
        self.server = processes.start(self.network.on("server", serve), cwd=self.folder, stdout=self.log, stderr=self.log)
        processes.wait_for("the socket", self._answers, seconds=30)

    def _serve_again(self):
        self.server.terminate()
        self.server.wait(RECOVER_S)
        self._serve()

    def _token(self, name, options, verb="create"):
        command = [self.options.binary, "token", verb, name, *options, "--tokens", self.folder / "stoker.tokens"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def _write_token(self, token):
        new = self.folder / "clients.token.new"
        new.write_text(token)
        new.rename(self.folder / "clients.token")

    def _start(self, host, name, words):
        command = self.network.on(host, ["php", str(ROOT / "campaign" / words[0]), *map(str, words[1:])])
        self.running[name] = processes.start(command, env=self.env[host], stdout=self.log, stderr=self.log)
        self.running[name].again = (host, name, words)

    def _answers(self):
        try:
            return bool(self.ask("stoker.queue"))
        except (OSError, WireError):
            return False

    def ask(self, method, op="list", **fields):
        with Client(self.folder / "stoker.sock") as client:
            return client.call(method, {"op": op, **fields})

    def _pid_of(self, name):
        for pid in processes.descendants(os.getpid()):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].decode(errors="replace") == name:
                return pid
        return None

    def _descriptors(self):
        pids = {name: self._pid_of(name) for name in ("stoker: gateway relay", "stoker: server")}
        return {name: len(os.listdir(f"/proc/{pid}/fd")) if pid else 0 for name, pid in pids.items()}

    # Faults: each is a function that makes something fail, and returns how long that lasts.

    def weather(self):
        for host in ("clients", "workers"):
            delay, jitter, loss = (self.random.choice(all) for all in ((0, 2, 30), (1, 10, 40), (0, 1, 8)))
            self.network.tell("link", host, "server", f"delay={delay} jitter={jitter} loss={loss}")
        return self.random.uniform(1, 4)

    def cut(self):
        self.network.tell("cut", self.random.choice(["clients", "workers", "workers"]), "server")
        return self.random.choice([0.3, 1.5, RESUME_S + 3.5, KEEPALIVE_S + 6])

    def reset(self):
        self.network.tell("reset", self.random.choice(["clients", "workers", "workers"]), "server")
        return self.random.choice([0.05, 0.5, 2])

    def kill_gateway(self):
        return self._kill(self._pid_of("stoker: gateway relay"))

    def kill_server(self):
        server = self._pid_of("stoker: server")
        # The angel is stopped until the store has been read, so that no server changes it meanwhile.
        os.kill(self.server.pid, signal.SIGSTOP)
        try:
            lasts = self._kill(server)
            at = time.time()
            processes.wait_for("the server's death", lambda: is_dead(server))
            snapshot = Snapshot(self.folder / "stoker.db", self.folder)
            self.server_deaths.append(ServerDeath.of(at, snapshot))
            snapshot.discard()
        finally:
            os.kill(self.server.pid, signal.SIGCONT)
        return lasts

    def kill_worker(self):
        return self._kill(self.running[f"worker{self.random.randrange(WORKERS)}"].pid)

    def rotate(self):
        overlap = self.random.choice([[], ["--overlap", "1s"]])
        self._write_token(self._token("clients", overlap, verb="rotate"))
        return listen_draw.HOLD_S

    def narrow(self):
        self._token("clients", ["--roles", "push"], verb="set")
        time.sleep(listen_draw.HOLD_S)
        self._token("clients", ["--roles", "push,call"], verb="set")
        return listen_draw.HOLD_S

    def revoke(self):
        self._token("clients", [], verb="revoke")
        time.sleep(listen_draw.HOLD_S)
        self._write_token(self._token("clients", ["--roles", "push,call", "--queues", "net", "--services", "net"]))
        return listen_draw.HOLD_S

    def _kill(self, pid):
        if pid:
            os.kill(pid, signal.SIGKILL)
        return 0.2

    FAULTS = ["weather", "rotate", "cut", "kill_gateway", "narrow", "kill_server", "revoke", "reset", "cut", "kill_worker"]

    def run(self):
        for number in range(self.options.rounds):
            fault = self.options.only or self.FAULTS[number % len(self.FAULTS)]
            if number:
                self._serve_again()
                self._await_recovery(f"a restart with {self.listen}")
                self._await_workers()
            time.sleep(self.random.uniform(0.3, 0.8))
            lasts = getattr(self, fault)()
            self.faults[fault] += 1
            end = time.monotonic() + lasts
            while time.monotonic() < end:
                self._restart_workers()
                time.sleep(0.05)
            self.network.heal()
            what = f"round {number}, {fault} for {lasts:.1f} s, {self.listen}"
            self._await_recovery(what)
            self._await_workers()
            self.broken += [f"{what}: {line}" for line in self._exceed_limits() + self._administer()]

    def _exceed_limits(self):
        """Exceeds the limits of a token from the clients' host."""
        limits = listen_draw.limits(self.random)
        self._token("probe", listen_draw.options(limits), verb="set")
        mutual = None if self.listen.security == "plain" else str(self.folder)
        port = listen_draw.PORTS[self.listen.security]
        options = {"address": ADDRESSES["server"], "port": port, "folder": mutual, "token": self.probe, "watch": self.watch}
        options |= {"limits": limits, "max_connections": self.listen.max_connections}
        command = self.network.on("clients", [sys.executable, str(ROOT / "campaign/rig/limits_probe.py"), json.dumps(options)])
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
        if done.returncode:
            return [f"the probe failed: {done.stderr}"]
        found = json.loads(done.stdout)
        self.probed += found["ids"]
        return found["broken"]

    def _administer(self):
        """Administers from the clients' host, with tokens of the lowest role."""
        read, admin = self.watch, self.ops
        expected = [(read, ["queues"], 0), (read, ["workers"], 0), (read, ["jobs", "list", "--queue", "net"], 0)]
        expected += [(read, ["pause", "net"], PERMISSION_DENIED), (admin, ["pause", "net"], 0), (admin, ["resume", "net"], 0)]
        broken = []
        for token, words, code in expected:
            env = os.environ | {"STOKER_URL": self.env["clients"]["STOKER_URL"], "STOKER_TOKEN": token}
            command = self.network.on("clients", [str(self.options.binary), *words])
            done = subprocess.run(command, check=False, capture_output=True, text=True, env=env, timeout=60)
            if done.returncode != code:
                broken.append(f"stoker {' '.join(words)} ended with {done.returncode} instead of {code}: {done.stderr.strip()}")
        return broken

    def _restart_workers(self):
        for name, process in list(self.running.items()):
            if process.poll() is not None and name.startswith("worker"):
                self._start(*process.again)

    def _await_recovery(self, what):
        """Every client gets answers again."""
        before = [self._answered(number) for number in range(1, CLIENTS + 1)]

        def all_did():
            self._restart_workers()
            return all(self._answered(number) > before[number - 1] + 2 for number in range(1, CLIENTS + 1))

        processes.wait_for(f"clients to recover after {what}", all_did, seconds=RECOVER_S, every=0.1)

    def _answered(self, number):
        try:
            lines = (self.folder / f"client{number}").read_text().splitlines()
        except OSError:
            return 0
        return sum(line.startswith(("accepted", "answered")) for line in lines)

    def finish(self):
        (self.folder / "stop").touch()
        for number in range(1, CLIENTS + 1):
            self.running[f"client{number}"].wait(30)
        processes.wait_for("the jobs to end", self._is_idle, seconds=90, every=0.2)
        return self.judge()

    def _is_idle(self):
        self._restart_workers()
        queues = [queue for queue in self.ask("stoker.queue")["queues"] if queue["name"] == "net"]
        return all(queue[state] == 0 for queue in queues for state in ("ready", "delayed", "running"))

    def judge(self):
        broken = list(self.broken)
        accepted, failed, foreign, calls = {f"probe{n}": job for n, job in enumerate(self.probed)}, collections.Counter(), 0, 0
        once = set()
        for number in range(1, CLIENTS + 1):
            for line in (self.folder / f"client{number}").read_text().splitlines():
                verb, n, *rest = line.split()
                calls += verb == "answered"
                foreign += verb == "foreign"
                if verb == "accepted":
                    accepted[n] = rest[0]
                elif verb == "failed":
                    failed[rest[0]] += 1
                if rest and rest[-1] == "net.once":
                    once.add(n)
        jobs = self._jobs()
        runs = read_runs(self.folder / f"runs{number}" for number in range(WORKERS))
        lost = [n for n, job in accepted.items() if jobs.get(job, {}).get("state") != "done"]
        of_job = {job: runs[f"job {job}"] for job in jobs}
        forbidden = [
            job for job, own in of_job.items() if len(own) > allowed_runs(job, jobs[job]["crashes"], own, self.server_deaths)
        ]
        repeated = [n for n in once if len(runs[f"call {n}"]) > 1]
        broken += [f"{len(lost)} accepted jobs are lost: {lost[:5]}"] if lost else []
        broken += [f"{len(accepted) - len(set(accepted.values()))} jobs were accepted twice"] if len(set(accepted.values())) != len(accepted) else []
        broken += [f"{len(forbidden)} jobs ran again although no crash or kill had interrupted them: {forbidden[:5]}"] if forbidden else []
        broken += [f"{len(repeated)} calls ran twice: {repeated[:5]}"] if repeated else []
        broken += [f"{foreign} calls were sent the answers of other calls"] if foreign else []
        state = self.ask("stoker.worker")
        busy = [worker["id"] for worker in state["workers"] if worker["assigned"]]
        broken += [f"workers hold tasks: {busy}"] if busy else []
        now = self._descriptors()
        leaked = {name: (self.descriptors[name], count) for name, count in now.items() if count > self.descriptors[name] + 4}
        broken += [f"descriptors at the start and now: {leaked}"] if leaked else []
        print(f"{len(accepted):,} accepted pushes ({len(self.probed)} by the probe of limits), {calls:,} answered calls, {sum(failed.values()):,} failed: {dict(failed)}")
        again = sum(max(len(own) - 1, 0) for own in of_job.values())
        found = [len(death.unfinished) for death in self.server_deaths]
        print(f"runs again: {again}; unfinished jobs at kills of the server: {found}; faults: {dict(self.faults)}")
        for counter, pattern in (("reconnected too late", "reconnected after"), ("did not reconnect in time", "did not reconnect")):
            count = (self.folder / "stoker.log").read_text(errors="replace").count(pattern)
            print(f"log lines about workers that {counter}: {count}")
        return broken

    def _jobs(self):
        jobs, after = {}, None
        while True:
            page = self.ask("stoker.job", queue="net", limit=1000, after=after) if after else self.ask("stoker.job", queue="net", limit=1000)
            jobs.update({job["id"]: job for job in page["jobs"]})
            after = page["next"]
            if after is None:
                return jobs

    def close(self):
        processes.end_all()
        self.network.close()


def missing():
    if os.geteuid() != 0:
        return "root"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "/dev/net/tun"
    return next((program for program in ("ip", "cc", "php", "openssl") if not shutil.which(program)), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=sorted(set(Campaign.FAULTS)))
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/stoker")
    parser.add_argument("--keep", action="store_true", help="keep the folder")
    options = parser.parse_args()
    options.binary = options.binary.resolve()
    if what := missing():
        print(f"campaign/network.py needs {what}: skipped")
        return 0
    processes.adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the `finally` below is reached
    folder = Path(tempfile.mkdtemp(prefix="stoker-network-"))
    campaign = Campaign(options, folder)
    broken = ["it did not end"]
    try:
        began = time.monotonic()
        campaign.start()
        campaign.run()
        broken = campaign.finish()
        print(f"{options.rounds} rounds in {time.monotonic() - began:.0f} s, seed {options.seed}: {'ok' if not broken else 'BROKEN'}")
    finally:
        campaign.close()
        for line in broken:
            print(line, file=sys.stderr)
        if broken:
            print(f"the folder stays: {folder}", file=sys.stderr)
        elif not options.keep:
            shutil.rmtree(folder)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
