#!/usr/bin/env python3
"""Sends malformed and ambiguous requests to sites, over HTTP/1 and HTTP/2, and compares what the gateway answers with what
the worker has seen: each request is rejected, or both take it for the same one.

    tests/http/smuggling.py [--binary FILE] [--only WORD]

The same corpus is sent to a worker of the PHP SDK, and through each adapter to php-cgi, php-fpm and `php -S`; an adapter whose
program is not installed is skipped. After each case follows a request that must not be hidden in it. The exit code is 1 if
a case is neither rejected as stated nor understood as stated.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "benches"), str(ROOT / "tests/http")]

from harness import processes  # noqa: E402 (its path is set above)
from smuggling_cases import HTTP1, HTTP2, LAST  # noqa: E402
from smuggling_http import http1, http2  # noqa: E402

MIRROR = ROOT / "tests/http/mirror.php"
FPM = """
[global]
error_log = {folder}/fpm.log
[www]
listen = ${{STOKER_ADDRESS}}
{user}
pm = static
pm.max_children = 2
clear_env = no
"""
POOL = """
[pool.{name}]
env = {{ SEEN = "{folder}/{name}.seen" }}
workers = 2
{pool}
[site.{name}]
pool = "{name}"
listen = ["127.0.0.1:0"]
root = "{folder}/public"
index = "mirror.php"
max_body = "1MB"
"""
# The time in which a case must end: the gateway closes the connection by itself.
SLOW = 5.0


def main():
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--binary", type=Path, default=ROOT / "target/debug/stoker")
    asked.add_argument("--only", default="", help="only cases whose name contains this")
    asked = asked.parse_args()
    processes.adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="stoker-smuggling-") as folder:
        try:
            return run(Path(folder), asked)
        finally:
            processes.end_all()


def pools(folder):
    """The pools whose programs are installed."""
    found = {"loop": f'command = ["php", "{MIRROR}"]'}
    if shutil.which("php-cgi"):
        found["cgi"] = 'strategy = "cgi"\ncommand = ["php-cgi", "-n"]'
    fpm = max(Path("/usr/sbin").glob("php-fpm*"), default=None)
    if fpm:
        found["fastcgi"] = (
            f'strategy = "fastcgi"\naddress = "{folder}/fpm-{{worker}}.sock"\n'
            f'command = ["{fpm}", "-n", "-F", "-R", "-y", "{folder}/fpm.conf"]'
        )
    found["http"] = f'strategy = "http"\naddress = "127.0.0.1:0"\ncommand = ["php", "-S", "{{address}}", "{MIRROR}"]'
    return found


def run(folder, asked):
    (folder / "public").mkdir()
    # The script is where the site expects its front controller, and finds the SDK where it is.
    (folder / "public/mirror.php").write_text(f"<?php require '{MIRROR}';")
    (folder / "fpm.conf").write_text(FPM.format(folder=folder, user="user = root\ngroup = root" if is_root() else ""))
    found = pools(folder)
    config = "".join(POOL.format(name=name, pool=pool, folder=folder) for name, pool in found.items())
    (folder / "stoker.toml").write_text(config)
    with (folder / "log").open("w") as log:
        server = processes.start([asked.binary.resolve(), "serve"], cwd=folder, stderr=log)
    try:
        addresses = processes.wait_for("the sites", lambda: listening((folder / "log").read_text(), len(found)))
        with ThreadPoolExecutor() as threads:
            judged = threads.map(lambda site: judge(*site, folder, asked.only), zip(found, addresses))
            failures = [failure for failures in judged for failure in failures]
    finally:
        processes.end(server)
    print("\n".join(failures) + ("\n" if failures else ""), end="")
    cases = sum(asked.only in case["name"] for case in HTTP1 + HTTP2)
    print(f"smuggling: {len(failures)} failures in {cases} cases with {', '.join(found)}")
    return 1 if failures else 0


def is_root():
    return subprocess.run(["id", "-u"], capture_output=True, text=True, check=True).stdout.strip() == "0"


def listening(log, count):
    """The addresses of the sites, in the order of the configuration, once all pools are ready."""
    for line in log.splitlines():
        if "gateway sites: listening on " in line and log.count(" is healthy") >= count:
            places = line.partition("listening on ")[2].split(", ")
            return [("127.0.0.1", int(place.rpartition(":")[2])) for place in places]
    return None


def judge(name, address, folder, only):
    """Sends the cases to one site. Returns a text for each that ends otherwise than stated."""
    seen, failures = folder / f"{name}.seen", []
    seen.touch()
    for cases, send, check in ((HTTP1, http1, compare), (HTTP2, http2, compare2)):
        for case in cases:
            if only not in case["name"]:
                continue
            before, began = len(seen.read_text().splitlines()), time.monotonic()
            answers, closed = send(address, case)
            wrong = check(case, answers, closed, seen.read_text().splitlines()[before:])
            if (took := time.monotonic() - began) > SLOW:
                wrong = wrong or f"took {took:.1f} s"
            if wrong:
                failures.append(f"{name}: {case['name']}: {wrong}")
    return failures


def compare(case, answers, closed, lines):
    """What is wrong with the answers to a case, or with the requests that the worker has seen."""
    understood = [answer for answer in answers if answer["seen"]]
    if lines != [f"{answer['seen']['method']} {answer['seen']['target']}" for answer in understood]:
        return f"the worker has seen {lines}, but the answers are {shown(answers)}"
    requests = case["requests"]
    if not case["rejected"]:
        return compare_answers(requests, answers)
    if len(answers) != len(requests) + 1 or answers[-1]["status"] not in case["rejected"]:
        return f"expected {len(requests)} answers and one of {case['rejected']}, found {shown(answers)}"
    return compare_answers(requests, answers[:-1]) if closed else "the connection is still open after the rejection"


def compare_answers(requests, answers):
    if len(answers) != len(requests):
        return f"expected {len(requests)} answers, found {shown(answers)}"
    wrong = (differs(request, answer) for request, answer in zip(requests, answers))
    return next((f"answer {number}: {text}" for number, text in enumerate(wrong, 1) if text), None)


def compare2(case, answers, _, lines):
    """The same for the streams of HTTP/2: the first one is the case, and the last one must not depend on it."""
    if sorted(lines) != sorted(f"{answer['seen']['method']} {answer['seen']['target']}" for answer in answers if answer["seen"]):
        return f"the worker has seen {lines}, but the answers are {shown(answers)}"
    if not case["rejected"] or len(answers) != 2:
        return compare_answers(case["requests"], answers)
    first, last = answers
    if first["status"] not in case["rejected"] or first["seen"]:
        return f"expected {case['rejected']}, found {shown(answers)}"
    return differs(LAST, last) if last["status"] else None


def differs(request, answer):
    if answer["status"] != request.get("status", 200):
        return f"status {answer['status']}"
    if answer["seen"] is None:
        return None if "status" in request else "no worker has answered"
    for key, expected in request.items():
        if key == "fields":
            for name, value in expected.items():
                if answer["seen"]["fields"].get(name) != value:
                    return f"{name} is {answer['seen']['fields'].get(name)!r}, expected {value!r}"
        elif key != "status" and answer["seen"][key] != expected:
            return f"{key} is {answer['seen'][key]!r}, expected {expected!r}"
    return None


def shown(answers):
    return [(answer["status"], answer["seen"] and answer["seen"]["target"][:60]) for answer in answers]


if __name__ == "__main__":
    sys.exit(main())
