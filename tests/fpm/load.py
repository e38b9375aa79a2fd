#!/usr/bin/env python3
"""php-fpm under load, with persistent connections to Stoker over the unix socket and over TLS.

    tests/fpm/load.py [--binary FILE] [--requests N]

Every web request makes calls with a number of its own, and must get that number back. Many requests end in the middle of a
call: by exit(), by an exception, or because the call takes too long. No other request may get their answers, and no process
may have more than one connection open. Skipped without php-fpm.
"""

import argparse
import collections
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "benches"))

from harness import processes  # noqa: E402 (its path is set above)
from harness.remote import free_port, make_certificate  # noqa: E402
from harness.wire import Client, WireError  # noqa: E402

CHILDREN, THREADS = 8, 12
WAYS = ["call", "many", "call", "many", "call", "exit", "throw", "timeout"]
BEGIN, END, PARAMS, STDIN, STDOUT, STDERR = 1, 3, 4, 5, 6, 7


def fcgi_request(path, script, query):
    """One request on a connection of its own; returns the body of the answer."""
    params = {
        "SCRIPT_FILENAME": str(script),
        "SCRIPT_NAME": "/script.php",
        "REQUEST_METHOD": "GET",
        "QUERY_STRING": query,
        "CONTENT_LENGTH": "0",
    }
    pairs = b"".join(struct.pack("!BB", len(name), len(value)) + name.encode() + value.encode() for name, value in params.items())
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(str(path))
        record = lambda kind, body: struct.pack("!BBHHBB", 1, kind, 1, len(body), 0, 0) + body  # noqa: E731
        connection.sendall(
            record(BEGIN, struct.pack("!HB5x", 1, 0)) + record(PARAMS, pairs) + record(PARAMS, b"") + record(STDIN, b"")
        )
        stream, out = connection.makefile("rb"), b""
        while True:
            head = stream.read(8)
            if len(head) < 8:
                raise RuntimeError("php-fpm closed the connection")
            _, kind, _, length, padding, _ = struct.unpack("!BBHHBB", head)
            body = stream.read(length)
            stream.read(padding)
            if kind == STDOUT:
                out += body
            elif kind == END:
                return out.partition(b"\r\n\r\n")[2].decode(errors="replace")


def start_stoker(folder, binary, port):
    make_certificate(folder)
    (folder / "stoker.toml").write_text(
        f'[pool.fpm]\ncommand = ["php", "{ROOT}/tests/fpm/worker.php"]\nworkers = 3\n[service.fpm]\nidempotent = ["echo"]\n'
        f'[listen]\naddresses = ["127.0.0.1:{port}"]\ncertificate = "server.pem"\nkey = "server.key"\n[store]\ndriver = "memory"\n'
    )
    create = [binary, "token", "create", "fpm", "--roles", "call", "--services", "fpm", "--tokens", folder / "stoker.tokens"]
    token = subprocess.run(create, check=True, capture_output=True, text=True).stdout.strip()
    log = open(folder / "stoker.log", "a", encoding="utf-8")
    server = processes.start([binary, "serve", "-c", folder / "stoker.toml"], cwd=folder, stdout=log, stderr=log)

    def is_ready():
        try:
            with Client(folder / "stoker.sock") as client:
                return client.call("stoker.worker", {"op": "list"})["pools"][0]["ready"] == 3
        except (OSError, WireError):
            return False

    processes.wait_for("stoker", is_ready, seconds=30)
    return server, token


def start_fpm(program, folder, name, env):
    """Starts php-fpm with a fixed number of children that share these variables."""
    user = "user = root\ngroup = root\n" if os.geteuid() == 0 else ""
    variables = "".join(f'env[{key}] = "{value}"\n' for key, value in env.items())
    path, config = folder / f"{name}.sock", folder / f"{name}.conf"
    config.write_text(
        f"[global]\nerror_log = {folder}/{name}.log\ndaemonize = no\n[www]\n{user}listen = {path}\npm = static\n"
        f"pm.max_children = {CHILDREN}\ncatch_workers_output = no\n{variables}php_admin_value[display_errors] = off\nphp_admin_value[error_log] = {folder}/{name}.php.log\nphp_admin_flag[log_errors] = on\n"
    )
    allow = ["--allow-to-run-as-root"] if os.geteuid() == 0 else []
    fpm = processes.start([program, "-n", "-F", *allow, "-y", config], stderr=subprocess.DEVNULL)
    processes.wait_for("php-fpm", path.exists)
    return fpm, path


def load(path, requests):
    """Sends requests from several threads. Returns what was wrong, and how many requests ended in each way."""
    wrong, ways, numbers, lock = [], collections.Counter(), iter(range(requests)), threading.Lock()

    def run():
        while True:
            with lock:
                n = next(numbers, None)
            if n is None:
                return
            how = WAYS[n % len(WAYS)]
            try:
                got = fcgi_request(path, ROOT / "tests/fpm/script.php", f"n=number{n}&how={how}")
            except Exception as error:  # any error belongs in the report
                got = repr(error)
            with lock:
                ways[how] += 1
                if got != f"number{n}":
                    wrong.append(f"{how} {n} got {got[:200]!r}")

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return wrong, ways


def connections(folder):
    """The number of open connections of all peers."""
    with Client(folder / "stoker.sock") as client:
        return client.call("stoker.server", {"op": "stats"})["connections"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, default=ROOT / "target/debug/stoker")
    parser.add_argument("--requests", type=int, default=2_000)
    options = parser.parse_args()
    names = ["php-fpm8.2", "php-fpm", *sorted(path.name for path in Path("/usr/sbin").glob("php-fpm*"))]
    program = next((found for name in names if (found := shutil.which(name, path="/usr/sbin:" + os.environ["PATH"]))), None)
    if program is None:
        print("tests/fpm/load.py needs php-fpm: skipped")
        return 0
    processes.adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the `finally` below is reached
    folder = Path(tempfile.mkdtemp(prefix="stoker-fpm-"))
    broken = []
    try:
        port = free_port()
        _, token = start_stoker(folder, options.binary.resolve(), port)
        places = {
            "unix": {"STOKER_URL": f"unix://{folder}/stoker.sock"},
            "tls": {"STOKER_URL": f"tls://localhost:{port}?ca={folder}/server.pem", "STOKER_TOKEN": token},
        }
        before = connections(folder)
        for name, env in places.items():
            fpm, path = start_fpm(program, folder, name, env)
            wrong, ways = load(path, options.requests)
            # A connection that was given up at the end of a request may not be closed yet.
            limit = before + 2 * CHILDREN
            if not 1 < (count := connections(folder)) - before + 1 or count > limit:
                broken.append(f"{name}: {count} connections are open, expected more than {before} and at most {limit}")
            print(f"{name}: {sum(ways.values())} requests {dict(ways)}, {len(wrong)} wrong")
            broken += [f"{name}: {line}" for line in wrong[:10]]
            processes.end(fpm)
        text = (folder / "stoker.log").read_text(errors="replace")
        broken += re.findall(r".*(?:warn|error) gateway relay.*", text)[:5]
    finally:
        processes.end_all()
        for line in broken:
            print(line, file=sys.stderr)
        if not broken:
            shutil.rmtree(folder)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
