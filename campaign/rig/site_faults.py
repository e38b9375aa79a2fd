"""What campaign/sites.py does to Stoker while clients send requests. Each fault is a coroutine of the campaign."""

import asyncio
import os
import shutil
import signal
import ssl
import subprocess
import time
from pathlib import Path

from . import site_http
from .site_draw import BOOTED
from .site_http import PREFACE

CERTIFICATE_S = 1.5  # a changed certificate is used within a second
RELOAD_S = 60


class Faults:
    """Mixed into the campaign, which has `draw`, `timeline`, `random`, `folder` and `broken`."""

    async def kill_worker(self):
        workers = [worker["pid"] for worker in self.ask("stoker.worker")["workers"] if worker.get("pid")]
        for pid in self.random.sample(workers, min(len(workers), self.random.choice([1, 1, 2]))):
            self._kill("kill worker", pid)

    async def kill_upstream(self):
        """Kills a program that an adapter runs: php-cgi, a process of php-fpm or of php -S."""
        pids = [pid for pid, words in self.commands() if words[0].startswith(("php-fpm: ", "php-cgi", "/usr/sbin/php-fpm")) or "-S" in words]
        if pids:
            self._kill("kill upstream", self.random.choice(pids))

    async def kill_server(self):
        self._kill("kill server", self.pid_of("stoker: server"))
        await self.until("the server", self.answers)

    async def kill_gateway(self):
        self._kill("kill gateway", self.pid_of("stoker: gateway sites"))

    async def stop_for_a_while(self):
        """Stops the gateway or the server for less than any timeout."""
        pid = self.pid_of(self.random.choice(["stoker: gateway sites", "stoker: server"]))
        if pid:
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(0.4)
            os.kill(pid, signal.SIGCONT)

    async def reload(self):
        """Reloads a changed configuration."""
        changes = ["change_scheduling", "move_site", "change_strategy", "change_workers", "change_task_pool", "change_nothing", "add_and_remove_pool", "remove_site"]
        change = getattr(self.draw, self.random.choice(changes))()
        await self._reload(change)

    async def reload_that_fails(self):
        """Workers of the new version do not boot: the old ones stay."""
        flag = self.folder / "refuse-to-boot"
        resident = [name for name, pool in self.draw.pools.items() if pool["strategy"] in BOOTED]
        if not resident:
            return await self._reload("the same configuration")
        flag.touch()
        began = time.monotonic()
        try:
            done = await self.stoker("reload", self.random.choice(resident))
        finally:
            flag.unlink()
        # A worker of the old version that was killed meanwhile could not be replaced.
        self.timeline.fault("boots fail", began, time.monotonic() + RELOAD_S)
        if done.returncode == 0 and "fail" not in done.stdout + done.stderr:
            self.broken.append(f"a reload whose workers do not boot succeeded: {done.stdout}")

    async def renew_certificate(self):
        secure = [port for port, is_secure in self.draw.secure.items() if is_secure]
        if not secure:
            return await self._reload("the same configuration")
        self.certificate = "new" if self.certificate == "old" else "old"
        for end in ("key", "pem"):
            shutil.copy(self.folder / f"{self.certificate}.{end}", self.folder / f"site.{end}.tmp")
        for end in ("key", "pem"):
            os.rename(self.folder / f"site.{end}.tmp", self.folder / f"site.{end}")
        await asyncio.sleep(CERTIFICATE_S)
        expected = (self.folder / f"{self.certificate}.pem").read_text()
        for port in secure:
            served = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port), timeout=20)
            if served.split() != expected.split():
                self.broken.append(f"port {port} still serves the old certificate {CERTIFICATE_S} s after it was replaced")

    async def hold_connections(self):
        """Clients that send nothing, or never complete a head: the gateway closes their connections in time."""
        http = self.draw.http
        most = max(float(http[key].rstrip("s")) for key in ("header_timeout", "idle_timeout"))
        ports = [port for port, is_secure in self.draw.secure.items() if not is_secure]
        if most > 3 or not ports:
            return await self._reload("the same configuration")
        for start in (b"", b"GET / HTTP/1.1\r\nHost: a\r\nX-", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", ports[0])
            writer.write(start)
            began = time.monotonic()
            try:
                async with asyncio.timeout(most + 8):
                    while await reader.read(1_000):
                        pass
            except TimeoutError:
                self.broken.append(f"a client that sent {start!r} was not disconnected within {time.monotonic() - began:.1f} s")
            except OSError:
                pass
            writer.close()

    async def break_protocol(self):
        """Clients that send something else than they agreed to: nothing but their own connection ends."""
        for port, is_secure in self.draw.secure.items():
            for start in (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\0\0\0\4\0\0\0\0\0" * 3, PREFACE + b"\xff" * 40):
                if start.startswith(b"GET") and not is_secure:
                    continue
                try:
                    reader, writer = await site_http.connect(("127.0.0.1", port), is_secure, "h2")
                    writer.write(start)
                    async with asyncio.timeout(20):
                        answer = await reader.read()
                    if is_secure and answer.startswith(b"HTTP/1"):
                        self.broken.append(f"port {port} answered in HTTP/1 although HTTP/2 was agreed upon: {answer[:50]}")
                    writer.close()
                except (OSError, site_http.Cut):
                    pass
                except TimeoutError:
                    self.broken.append(f"a client that sent {start[:20]!r} to port {port} was not disconnected")

    async def _reload(self, change):
        began = time.monotonic()
        (self.folder / "stoker.toml").write_text(self.draw.config())
        self.timeline.configured(self.draw.snapshot(), began)
        done = await self.stoker("reload")
        self.timeline.fault("reload", began, time.monotonic())
        self.timeline.replaced(time.monotonic())
        failed = [line for line in (done.stdout + done.stderr).splitlines() if "broken" not in line and ("fail" in line or "error" in line)]
        if failed and not self.timeline.recent(began, "kill worker", "kill server", "kill upstream"):
            self.broken.append(f"reload with {change}: {done.returncode}, {failed}")
        if self.draw.has_broken and "broken" not in done.stdout + done.stderr and done.returncode:
            self.broken.append(f"reload with {change}: {done.returncode}, {done.stdout}{done.stderr}")

    async def stoker(self, *words):
        command = [self.options.binary, *words]
        run = lambda: subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=RELOAD_S * 2)  # noqa: E731
        return await asyncio.to_thread(run)

    def _kill(self, kind, pid):
        if pid:
            now = time.monotonic()
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                return
            self.timeline.fault(kind, now, now)

    def commands(self):
        """All processes of Stoker with their command lines."""
        for pid in self.family():
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            except OSError:
                continue
            if words != [b""]:
                yield pid, [word.decode(errors="replace") for word in words]

    def pid_of(self, title):
        return next((pid for pid, words in self.commands() if words[0] == title), None)

    FAULTS = [
        "kill_worker", "kill_server", "reload", "kill_gateway", "renew_certificate", "kill_upstream", "stop_for_a_while", "reload_that_fails",
        "reload", "hold_connections", "break_protocol",
    ]  # fmt: skip
