#!/usr/bin/env python3
"""Checks the HTTP gateway with independent tools: schemathesis tries everything in /openapi.json and looks for 5xx
answers and undocumented answers; promtool reads /metrics; curl speaks HTTP/2.

    tests/http/judges.py [--binary FILE] [--seed N] [--examples N]

Installs both tools into target/judges if they are missing. The exit code is 1 if one of them finds something, and 2 if
they can't be installed.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "benches"))

from harness import processes  # noqa: E402 (its path is set above)

JUDGES = ROOT / "target/judges"
SCHEMATHESIS, PROMTOOL = JUDGES / "python/bin/schemathesis", JUDGES / "prometheus/usr/bin/promtool"
VERSION = "4.32.5"
# The schema does not express which fields may be combined, so a request that it allows may be answered with 400.
NOT_ASKED = "positive_data_acceptance"
CONFIG = """
[pool.app]
command = ["php", "{root}/examples/hello/worker.php"]
workers = 2
[http]
listen = ["127.0.0.1:0"]
"""


def main():
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--binary", type=Path, default=ROOT / "target/debug/stoker")
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--examples", type=int, default=5)
    asked = asked.parse_args()
    processes.adopt_orphans()
    try:
        get_tools()
    except subprocess.CalledProcessError as error:
        print(f"judges.py: {error}: {error.stderr}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="stoker-judges-") as folder:
        try:
            return judge(Path(folder), asked)
        finally:
            processes.end_all()


def get_tools():
    JUDGES.mkdir(parents=True, exist_ok=True)
    if not SCHEMATHESIS.exists():
        run([sys.executable, "-m", "venv", JUDGES / "python"])
        run([JUDGES / "python/bin/pip", "install", "--quiet", f"schemathesis=={VERSION}"])
    if not PROMTOOL.exists():
        # Only the tool: installing the package would start a server.
        run(["apt-get", "download", "--quiet", "prometheus"])
        package = max(JUDGES.glob("prometheus_*.deb"))
        run(["dpkg", "-x", package, JUDGES / "prometheus"])


def run(command):
    subprocess.run(command, cwd=JUDGES, check=True, capture_output=True, text=True, timeout=300)


def judge(folder, asked):
    (folder / "stoker.toml").write_text(CONFIG.format(root=ROOT))
    with (folder / "log").open("w") as log:
        server = processes.start([asked.binary.resolve(), "serve"], cwd=folder, stderr=log)
    try:
        said = processes.wait_for("the gateway", lambda: listening((folder / "log").read_text()))
        token = (folder / "stoker.token").read_text().strip()
        found = [schemathesis(said, token, asked, folder), promtool(said, token), curl(said)]
    finally:
        processes.end(server)
    return 1 if any(found) else 0


def listening(log):
    address = re.search(r"listening on (http://\S+)", log)
    return address[1] if address and "is healthy" in log else None


def schemathesis(address, token, asked, folder):
    command = [SCHEMATHESIS, "run", f"{address}/openapi.json", "--header", f"Authorization: Bearer {token}", "--no-color"]
    command += ["--seed", str(asked.seed), "--max-examples", str(asked.examples), "--exclude-checks", NOT_ASKED]
    return report("schemathesis", subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900))


def promtool(address, token):
    request = urllib.request.Request(f"{address}/metrics", headers={"Authorization": f"Bearer {token}"})
    page = urllib.request.urlopen(request, timeout=10).read().decode()
    return report("promtool", subprocess.run([PROMTOOL, "check", "metrics"], input=page, capture_output=True, text=True, timeout=60))


def curl(address):
    """Checks HTTP/2 without TLS, from the first byte on."""
    command = ["curl", "--silent", "--show-error", "--http2-prior-knowledge", "--write-out", " %{http_version} %{http_code}"]
    done = subprocess.run([*command, f"{address}/health"], capture_output=True, text=True, timeout=60)
    done.returncode = done.returncode or not done.stdout.endswith(" 2 200")
    return report("curl", done)


def report(name, done):
    """Prints what the tool found; returns whether it found anything."""
    if done.returncode:
        print(done.stdout + done.stderr)
    tested = re.search(r"^ *(\d+) generated", done.stdout, re.MULTILINE)
    print(f"{name}: {'found something' if done.returncode else 'nothing'}{f' in {tested[1]} requests' if tested else ''}")
    return done.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
