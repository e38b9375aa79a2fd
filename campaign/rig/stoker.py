"""The Stoker under test: its configuration, its processes, and every way to end it."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from harness.processes import wait_for
from harness.wire import Client, WireError

from rig import cut as power, draw
from rig.ledger import Snapshot, is_dead
from rig.preload import FailingDisk

HERE = Path(__file__).resolve().parent.parent
# Jobs that ran when a server died run again one at a time in their pool, so there are several pools.
POOLS = {"plain": 15, "deep": 16, "ordered": 12, "mixed": 12, "few": 5}
SLOTS = 16
PR_SET_PDEATHSIG = 1
UP_WITHIN = 30.0
DOWN_WITHIN = 40.0

CONFIG = """\
[stoker]
socket = "stoker.sock"
boots_at_once = 6

[store]
path = "{store}"
sync = {sync}

{pools}
[pool.wide]
command = ["{python}", "-S", "-E", "{here}/wide.py"]
workers = 2
stop_grace = "20s"
env = {env}

[queue.plain]
pool = "plain"
[queue.deep]
pool = "deep"
[queue.ordered]
pool = "ordered"
ordered = true
tries = 3
backoff = ["10ms", "40ms"]
[queue.flaky]
pool = "mixed"
[queue.later]
pool = "mixed"
[queue.unique]
pool = "mixed"
[queue.held]
pool = "few"
[queue.once]
pool = "few"
ack = "delivery"
[queue.wide]
pool = "wide"
"""

POOL = """\
[pool.{name}]
{program}
workers = {workers}
stop_grace = "20s"
env = {env}
"""
PHP = '"-n", "-d", "extension=ctype", "-d", "display_startup_errors=0"'
PROGRAMS = {
    "loop": f'command = ["php", {PHP}, "{HERE}/worker.php"]',
    "spare": f'strategy = "spare"\ncommand = ["php", {PHP}, "{HERE}/worker.php"]',
    "cgi": f'strategy = "cgi"\ncommand = ["php-cgi", {PHP}, "-d", "display_errors=0"]\ntask_script = "{HERE}/task.php"',
    "exec": f'strategy = "exec"\ncommand = ["php", {PHP}, "{HERE}/task.php"]',
}


class Down(Exception):
    """Stoker did not start, or did not end."""


class Stoker:
    def __init__(self, binary, folder, store_folder, *, sync, libraries, drawn):
        """`libraries`: the preloaded libraries by name. `drawn`: the queues of the seed."""
        self.binary, self.folder = Path(binary).resolve(), Path(folder)
        self.store = Path(store_folder) / "stoker.db"
        self.socket = self.folder / "stoker.sock"
        self.log = self.folder / "stoker.log"
        self.mark = f"STOKER_CAMPAIGN={os.getpid()}-{time.monotonic_ns()}"
        self.angel = self.disk = None
        self.lives = 0  # angels started so far
        self.deaths = 0  # deaths of servers under this angel
        self.given_up = 0  # failed starts, for example because the previous server still had the store open
        env = {"CAMPAIGN_LEDGER": str(self.folder / "runs"), "CAMPAIGN_SLOTS": str(SLOTS), "LD_PRELOAD": ""}
        env["CAMPAIGN_SDK"] = str(HERE.parent / "sdk" / "php" / "src")
        table = "{ " + ", ".join(f'{key} = "{value}"' for key, value in env.items()) + " }"
        pools = {name: ("loop", count) for name, count in POOLS.items()} | draw.POOLS
        text = CONFIG.format(
            store=self.store,
            sync=str(sync).lower(),
            here=HERE,
            pools="".join(
                POOL.format(name=name, program=PROGRAMS[strategy], workers=count, env=table) for name, (strategy, count) in pools.items()
            ),
            python=sys.executable,
            env=table,
        )
        text += "".join(queue.config() for queue in drawn)
        (self.folder / "stoker.toml").write_text(text)
        key, value = self.mark.split("=")
        self.env = {name: text for name, text in os.environ.items() if not name.startswith("STOKER_")} | {key: value}
        self.preload(libraries)

    def preload(self, libraries):
        if libraries:
            self.env["LD_PRELOAD"] = ":".join(map(str, libraries.values()))
        if "powercut" in libraries:
            self.cut_log = self.store.with_name("unsynced")
            self.cut_log.mkdir()
            self.env |= {"POWERCUT_STORE": str(self.store), "POWERCUT_LOG": str(self.cut_log)}
        if "failing" in libraries:
            self.disk = FailingDisk(self.folder, self.store)
            self.env |= self.disk.env

    def start(self):
        with open(self.log, "ab") as log:
            self.angel = subprocess.Popen(
                [self.binary, "serve", "-c", "stoker.toml"],
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
                preexec_fn=die_with_parent,
            )
        self.lives += 1
        self.deaths = 0

    # Processes.

    def children(self):
        return children(self.angel.pid) if self.angel else []

    def server(self):
        for pid in self.children():
            if command(pid).startswith("stoker: server") and not is_dead(pid):
                return pid
        return None

    def workers(self):
        return [pid for pid in self.children() if command(pid).find(str(HERE)) >= 0 and not is_dead(pid)]

    def everybody(self):
        """Returns all processes with this Stoker's mark, whatever their parents are."""
        mark, found = self.mark.encode(), []
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                with contextlib.suppress(OSError):
                    if mark in Path("/proc", entry, "environ").read_bytes() and not is_dead(int(entry)):
                        found.append(int(entry))
        return found

    # Start.

    def client(self, timeout=10.0):
        return Client(self.socket, timeout)

    def call(self, name, request, timeout=10.0):
        with self.client(timeout) as client:
            return client.call(name, request)

    def await_up(self):
        """Waits for a server that answers. If Stoker gave up, it is started again, as an init system would do."""
        deadline = time.monotonic() + UP_WITHIN
        while True:
            if self.angel.poll() is not None:
                self.given_up += 1
                if time.monotonic() > deadline or "is damaged" in self.last_words():
                    raise Down(f"stoker does not start: {self.last_words()}")
                time.sleep(0.02)
                self.start()
            with contextlib.suppress(OSError, WireError):
                self.call("stoker.queue", {"op": "list"}, 2.0)
                return
            if time.monotonic() > deadline:
                raise Down(f"no answer within {UP_WITHIN:g} s: {self.last_words()}")
            time.sleep(0.005)

    def last_words(self):
        with contextlib.suppress(OSError):
            return " | ".join(self.log.read_text(errors="replace").splitlines()[-4:])
        return ""

    # End.

    def await_gone(self, pids, within=DOWN_WITHIN, what="killed processes"):
        try:
            wait_for(f"{what} to be gone", lambda: all(is_dead(pid) for pid in pids), within, 0.003)
        except TimeoutError as error:
            raise Down(str(error)) from None
        for pid in pids:
            bury(pid)

    def tree(self):
        return [self.angel.pid, *self.children()]

    def kill_all(self, pids=None):
        """kill -9 of the whole tree, of `pids` first."""
        pids = pids or self.tree()
        kill(pids)
        while left := [pid for pid in self.everybody() if pid not in pids]:
            kill(left)
            pids += left
        self.angel.wait()
        self.await_gone(pids)
        return pids

    def cut_power(self, dice):
        if self.disk:
            self.disk.power_was_cut()
        return power.cut(self.store, self.cut_log, dice)

    def snapshot(self):
        return Snapshot(self.store, self.folder)

    def terminate(self, within=DOWN_WITHIN):
        """Ends Stoker gracefully. Returns the exit code."""
        self.angel.send_signal(signal.SIGTERM)
        return self.await_exit(within)

    def await_exit(self, within=DOWN_WITHIN):
        try:
            return self.angel.wait(within)
        except subprocess.TimeoutExpired:
            raise Down(f"still running {within:g} s after TERM") from None

    def end(self):
        """The last step: kills everything that is left. Returns the processes that were still there."""
        left = []
        for _ in range(50):
            pids = self.everybody()
            if self.angel and self.angel.poll() is None:
                pids.append(self.angel.pid)
            if not pids:
                break
            left += pids
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            kill(pids)
            for pid in pids:
                bury(pid)
            time.sleep(0.01)
        if self.angel:
            self.angel.poll()
        return left


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def kill(pids, number=signal.SIGKILL):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def bury(pid):
    """Reaps a process that this process has adopted."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def children(pid):
    found = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def command(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""

