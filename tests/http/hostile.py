#!/usr/bin/env python3
"""Attacks a web site as hostile visitors do, and checks after each attack that others are answered, that the gateway is still the same
process, and that it has no more memory than its limits explain.

    tests/http/hostile.py [--binary FILE] [--only NAME]

The exit code is 1 if an attack succeeds.
"""

import argparse
import contextlib
import os
import resource
import socket
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "benches"))

from harness import processes  # noqa: E402 (its path is set above)
from smuggling_http import (  # noqa: E402
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    frame,
    hpack,
    integer,
)

MAX_MEMORY_MB = 64  # [http] max_memory
# What a gateway of a debug build has besides: its program, and the state of some thousand connections and streams.
BASE_MB = 140
CONNECTIONS = 1_500
STREAMS = 100  # of one connection
PATIENCE_S = 10
CONFIG = """
[pool.web]
command = ["php", "{worker}"]
workers = 4
[http]
max_memory = "{memory}MB"
[site.shop]
listen = ["127.0.0.1:0"]
hosts = ["shop.test"]
root = "root"
send_files = ["shared"]
[site.other]
listen = ["127.0.0.1:0"]
"""
WORKER = """<?php
require '{root}/sdk/php/src/autoload.php';
Stoker\\Worker::create()->onRequest(function ($request) {{
    $query = $request->query();
    return match (true) {{
        isset($query['send']) => Stoker\\Http\\Response::text('')->withHeader('x-sendfile', $query['send']),
        isset($query['big']) => str_repeat('x', (int) $query['big']),
        default => ['uri' => $request->uri(), 'body' => $request->bodySize()],
    }};
}})->run();
"""
PATHS = """/../secret/file /..%2fsecret/file /%2e%2e/secret/file /sub/../../secret/file /sub/..%2f..%2fsecret%2ffile /%252e%252e/secret/file
//../secret/file /..;/secret/file /.%00/../secret/file /a.txt%00.html /..\\secret\\file /%5c..%5csecret/file /link /directory/file /.env /%2eenv
/./.env //.env /.env%20 /.env/ /x.php /x.php/ /x%2ephp /X.PHP /x.php%20 /x.php. /x.php%00 /x.php/a /sub/%c0%ae%c0%ae/secret/file
/sub//..//..//secret/file /a.txt/../../secret/file /...//secret/file http://shop.test/../secret/file /%2e/%2e%2e/secret/file""".split()
SENT = """/etc/passwd {home}/secret/file {home}/shared/../secret/file {home}/shared/passwd {home}/shared /dev/zero /proc/self/environ
../secret/file {home}/root/link {home}/sharedx {home}/shared/%2e%2e/secret/file""".split()
SECRETS = (b"SECRET", b"root:", b"PATH=")


class Site:
    """A running Stoker with two sites, and the means to attack it."""

    def __init__(self, binary, home):
        self.home = home
        for folder in ("root/sub", "shared", "secret"):
            (home / folder).mkdir(parents=True)
        for name, text in {"root/a.txt": "public", "secret/file": "SECRET", "root/.env": "SECRET", "root/x.php": "SECRET"}.items():
            (home / name).write_text(text)
        (home / "root/big").write_bytes(os.urandom(1 << 20))
        (home / "root/link").symlink_to("../secret/file")
        (home / "root/directory").symlink_to("../secret")
        (home / "shared/passwd").symlink_to("/etc/passwd")
        (home / "shared/ok").write_text("SECRET")
        (home / "worker.php").write_text(WORKER.format(root=ROOT))
        (home / "stoker.toml").write_text(CONFIG.format(worker=home / "worker.php", memory=MAX_MEMORY_MB))
        self.log = open(home / "log", "w", encoding="utf-8")
        self.server = processes.start([binary, "serve"], cwd=home, stderr=self.log)
        processes.wait_for("the workers", lambda: (home / "log").read_text().count("is ready") == 4)
        self.gateway = self._gateway()
        ports = sorted(self._ports())
        self.address = next(("127.0.0.1", port) for port in ports if b" 421 " in self.get(b"/", host=b"x", address=("127.0.0.1", port)))

    def _gateway(self):
        for pid in processes.descendants(self.server.pid):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"stoker: gateway sites"):
                    return pid
        return None

    def _ports(self):
        for line in (self.home / "log").read_text().splitlines():
            if "listening on http://127.0.0.1:" in line:
                for word in line.replace(",", " ").split():
                    if word.startswith("http://127.0.0.1:"):
                        yield int(word.rpartition(":")[2])

    def connect(self, start=b""):
        connection = socket.create_connection(self.address, timeout=PATIENCE_S)
        send(connection, start)
        return connection

    def http2(self, *frames, settings=b""):
        return self.connect(PREFACE + frame(SETTINGS, 0, 0, settings) + b"".join(frames))

    def get(self, path, host=b"shop.test", fields=b"", address=None):
        with socket.create_connection(address or self.address, timeout=PATIENCE_S) as connection:
            connection.sendall(b"GET %b HTTP/1.1\r\nHost: %b\r\n%bConnection: close\r\n\r\n" % (path, host, fields))
            return received(connection)

    def settle(self):
        """Waits until the gateway has nothing left to do for the connections that are open, or has worked on them for 3 s."""
        with contextlib.suppress(TimeoutError):
            processes.wait_for("an idle gateway", self._is_idle, seconds=3, every=0.1)

    def _is_idle(self):
        before = processes.cpu_seconds([self.gateway])
        return self._serves_others() and processes.cpu_seconds([self.gateway]) == before

    def _serves_others(self):
        try:
            return b'"uri"' in self.get(b"/x") and b"public" in self.get(b"/a.txt")
        except OSError:
            return False

    def wrong(self):
        """What an attack has achieved: a list of lines."""
        found = []
        try:
            # If there is no memory for answers, the slowest clients are disconnected after a second.
            processes.wait_for("an answer", self._serves_others, seconds=5)
        except TimeoutError:
            found.append("other visitors are not answered")
        if self._gateway() != self.gateway:
            return [*found, "the gateway has ended"]
        if (peak := self._peak_mb()) > MAX_MEMORY_MB + BASE_MB:
            found.append(f"the gateway had {peak} MB")
        return found

    def _peak_mb(self):
        """The peak of the gateway's memory since the last call."""
        folder = Path(f"/proc/{self.gateway}")
        lines = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        (folder / "clear_refs").write_text("5")
        return int(lines["VmHWM"].split()[0]) >> 10


def send(connection, data):
    """Whether the other side accepts data."""
    try:
        connection.sendall(data)
        return True
    except OSError:
        return False


def received(connection):
    parts = []
    with contextlib.suppress(OSError):
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


def request(path=b"/x", method=b"GET", more=()):
    return hpack([(b":method", method), (b":scheme", b"http"), (b":authority", b"shop.test"), (b":path", path), *more])


def stream(number, path=b"/x", more=()):
    return frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, request(path, more=more))


# Attacks: each returns the connections that it holds, or what it has achieved.


def slow_heads(site):
    starts = [b"GET / HTTP/1.1\r\nHost: shop.test\r\nX-", PREFACE + frame(SETTINGS, 0, 0) + b"\0\0\x64\1\4\0\0\0\1x"]
    return [site.connect(starts[number % 2]) for number in range(CONNECTIONS)]


def slow_bodies(site):
    head = b"POST /x HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 60000\r\n\r\n"
    held = [site.connect(head + b"x" * 1_000) for _ in range(CONNECTIONS // 3)]
    opened = b"".join(frame(HEADERS, END_HEADERS, 2 * n + 1, request(method=b"POST")) + frame(DATA, 0, 2 * n + 1, b"x" * 300) for n in range(STREAMS))
    return held + [site.http2(opened) for _ in range(20)]


def rapid_resets(site):
    for _ in range(10):
        connection = site.http2()
        for first in range(0, 20_000, 200):
            both = (stream(n) + frame(RST_STREAM, 0, 2 * n + 1, b"\0\0\0\x08") for n in range(first, first + 200))
            if not send(connection, b"".join(both)):
                break
    return []


def continuations(site):
    for part in (b"", hpack([(b"x-a", b"y" * 16_000)])):
        connection = site.http2(frame(HEADERS, 0, 1, request()))
        for _ in range(2_000):
            if not send(connection, frame(CONTINUATION, 0, 1, part) * (1 if part else 100)):
                break
    return []


def compressed_heads(site):
    """A long field in the dynamic table that the head refers to thousands of times."""
    value = b"z" * 4_000
    block = request() + b"\x40\x01a" + integer(len(value)) + value + b"\xbe" * 12_000
    head = frame(HEADERS, END_STREAM, 1, block[:16_384]) + frame(CONTINUATION, END_HEADERS, 1, block[16_384:])
    return [site.http2(head) for _ in range(50)]


def large_messages(site):
    start = b"POST /x HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n"
    bodies = [b"1;" + b"e" * 1_000_000 + b"\r\na\r\n", b"1;eeeee\r\na\r\n" * 60_000, b"1\r\na\r\n" * 200_000]
    bodies.append(b"1\r\na\r\n0\r\n" + b"".join(b"t%d: %b\r\n" % (n, b"v" * 1_000) for n in range(2_000)))
    heads = [b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n", b"GET / HTTP/1.1\r\n" + b"".join(b"x%d: 1\r\n" % n for n in range(5_000))]
    return [site.connect(message) for message in [*(start + body for body in bodies), *heads]]


def unread_answers(site):
    """Clients that request large answers, files and parts of files, and never read them."""
    none = b"\0\4\0\0\0\0"  # SETTINGS_INITIAL_WINDOW_SIZE of 0
    held = []
    for path, fields in ((b"/x?big=100000", []), (b"/big", []), (b"/big", [(b"range", b"bytes=0-17000")]), (b"/big", [(b"range", b"bytes=1-1")])):
        held += [site.http2(b"".join(stream(n, path, fields) for n in range(STREAMS)), settings=none) for _ in range(15)]
        lines = b"".join(b"%b: %b\r\n" % field for field in fields)
        held += [site.connect(b"GET %b HTTP/1.1\r\nHost: shop.test\r\n%b\r\n" % (path, lines) * 50) for _ in range(15)]
    return held


def floods(site):
    frames = [frame(PING, 0, 0, b"12345678"), frame(SETTINGS, 0, 0), frame(2, 0, 1, b"\0\0\0\0\1"), frame(8, 0, 0, b"\0\0\0\1"), frame(77, 0, 0, b"x")]
    held = []
    for each in frames:
        connection = site.http2()
        connection.settimeout(0.5)
        for _ in range(200):
            if not send(connection, each * 2_000):
                break
        held.append(connection)
    return held


def traversal(site):
    sent = lambda path: b"/x?send=" + path.format(home=site.home).encode()  # noqa: E731
    found = []
    for path in [*(path.encode() for path in PATHS), *map(sent, SENT)]:
        answer = site.get(path)
        found += [f"{path!r} reveals a file" for secret in SECRETS if secret in answer]
    # A file that a worker may send shows that the attack would notice one.
    return found if b"SECRET" in site.get(sent("{home}/shared/ok")) else [*found, "a file in send_files is not sent"]


def ranges(site):
    many = b"Range: bytes=" + b",".join(b"%d-%d" % (n, n) for n in range(1_500)) + b"\r\n"
    overlapping = b"Range: bytes=" + b"0-," * 200 + b"0-\r\n"
    found = [f"{fields[:30]!r} multiplies a file" for fields in (many, overlapping) if len(site.get(b"/big", fields=fields)) > (1 << 20) + 4_096]
    one = site.get(b"/big", fields=b"Range: bytes=0-9\r\n")
    return found if b" 206 " in one[:20] and len(one.partition(b"\r\n\r\n")[2]) == 10 else [*found, "a range is not served"]


def confused_hosts(site):
    """The host of the target counts, not that of a field; invalid names are rejected."""
    found = []
    if b"http://shop.test/x" not in site.get(b"http://shop.test/x", host=b"other.test"):
        found.append("the target's host does not count")
    if b"http://shop.test/x" not in site.get(b"/x", fields=b"X-Forwarded-Host: other.test\r\nForwarded: host=other.test\r\n"):
        found.append("a visitor chooses the host by a header of proxies")
    for host in (b"shop.test@other.test", b"shop.test,other.test", b"shop.test:99999", b"shop.test/x", b"shop.test\r\nHost: other.test"):
        if b" 400 " not in site.get(b"/x", host=host)[:20]:
            found.append(f"the host {host!r} is not rejected")
    return found


ATTACKS = [
    slow_heads, slow_bodies, rapid_resets, continuations, compressed_heads, large_messages, unread_answers, floods, traversal, ranges, confused_hosts,
]  # fmt: skip


def main():
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--binary", type=Path, default=ROOT / "target/debug/stoker")
    asked.add_argument("--only", choices=[attack.__name__ for attack in ATTACKS])
    asked = asked.parse_args()
    processes.adopt_orphans()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8_192), hard))
    broken = []
    with tempfile.TemporaryDirectory(prefix="stoker-hostile-") as folder:
        try:
            site = Site(asked.binary.resolve(), Path(folder))
            for attack in ATTACKS:
                if asked.only in (None, attack.__name__):
                    broken += [f"{attack.__name__}: {line}" for line in succeeds(site, attack)]
        finally:
            processes.end_all()
    print("\n".join(broken) or f"{len(ATTACKS)} attacks: none succeeds")
    return 1 if broken else 0


def succeeds(site, attack):
    """What an attack has achieved while its connections were open, and afterwards."""
    done = attack(site)
    held = [each for each in done if isinstance(each, socket.socket)]
    if held:
        site.settle()
    found = [each for each in done if isinstance(each, str)] + site.wrong()
    for connection in held:
        connection.close()
    return found + site.wrong()


if __name__ == "__main__":
    sys.exit(main())
