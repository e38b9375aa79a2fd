"""Load on web servers, from wrk (HTTP/1.1) and h2load (HTTP/2 over TLS). They have one CPU, all servers the other."""

import json
import re
import subprocess
from dataclasses import dataclass

from .brokers import BENCHES, OTHER_CPU

SCRIPT = BENCHES / "wrk" / "load.lua"


@dataclass
class Load:
    requests: int
    seconds: float
    failed: int
    timeouts: int = 0
    p50_us: float = 0

    def rate(self):
        """Answered requests per second, without those that failed."""
        return (self.requests - self.failed) / self.seconds


def wrk(url, connections, seconds, *body):
    """`body` is nothing, ("raw", bytes) or ("form", bytes)."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "-s", SCRIPT, url, "--", *body]
    return Load(**json.loads(_run(command, seconds).splitlines()[-1]))


def h2load(url, connections, streams, seconds):
    command = ["h2load", "-t1", f"-c{connections}", f"-m{streams}", f"-D{seconds}", url]
    out = _run(command, seconds)
    done = re.search(r"finished in .*?, ([\d.]+) req/s", out)
    counts = re.search(r"(\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", out)
    if not done or not counts:
        raise RuntimeError(f"h2load {url}: {out}")
    failed, requests = sum(int(counts[at]) for at in (2, 3, 4)), int(counts[1])
    if not requests or "TLSv1.3" not in out or "Application protocol: h2" not in out:
        raise RuntimeError(f"h2load {url}: {out}")
    return Load(requests=requests + failed, seconds=requests / float(done[1]), failed=failed)


def _run(command, seconds):
    command = ["taskset", "-c", OTHER_CPU, *command]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60 + seconds, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[3]}: {(done.stderr or done.stdout).strip()}")
    return done.stdout
