"""A copy of the sources into which bugs are planted, and how the simulation of that copy is built and run."""
import fcntl
import hashlib
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / "target/planted"
TREE = TARGET / "tree"
PROGRAM = TARGET / "planted/stoker-sim"
CARGO = os.environ.get("CARGO", "cargo")
BUILD = [CARGO, "build", "--profile", "planted", "--quiet", "--manifest-path", "sim/Cargo.toml", "--target-dir", TARGET]
# A simulation that takes longer than this, in seconds, is stopped. The bug then counts as found.
TIMEOUT = 600


def copy():
    """Brings the copy up to date. Files that have not changed are left alone, so that cargo builds only what changed. The copy
    is locked for this process until it ends."""
    TARGET.mkdir(parents=True, exist_ok=True)
    global lock
    lock = (TARGET / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    wanted = {TREE / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
    for path in wanted:
        restore(path.relative_to(TREE))
    for path in TREE.rglob("*"):
        if path.is_file() and path not in wanted:
            path.unlink()


def restore(name):
    """Restores a file of the copy from the sources."""
    put(name, (ROOT / name).read_bytes())


def put(name, text):
    path = TREE / name
    if not path.exists() or path.read_bytes() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)


def build():
    """Builds the simulation of the copy. Returns the program's hash, or None, and the error message of the build."""
    result = subprocess.run(BUILD, cwd=TREE, capture_output=True, text=True)
    if result.returncode:
        return None, result.stderr
    return hashlib.sha256(PROGRAM.read_bytes()).hexdigest(), ""


def planted(number):
    """The environment variables that activate the change with this number; 0 activates none."""
    return {**os.environ, "PLANTED": str(number)}


def simulate(seeds, *options, number=0):
    """Runs the simulation. Returns how many seeds fail, the first of them, and for each broken rule the number of failures, the
    first seed and the message."""
    command = [PROGRAM, "--no-shrink", *options, "--seeds", str(seeds)]
    try:
        result = subprocess.run(command, env=planted(number), capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return 1, 0, [(1, 0, "the seed does not finish")]
    rules = re.findall(r"^ *(\d+) first (\d+): (.*)$", result.stdout, re.MULTILINE)
    rules = [(int(count), int(first), rule) for count, first, rule in rules]
    if result.returncode and not rules:
        rules = [(1, 0, f"the simulation crashed: {result.stderr[-200:]}")]
    return sum(count for count, _, _ in rules), min([first for _, first, _ in rules], default=None), rules


def test(arguments, number=0):
    """Whether `cargo test` with these arguments passes in the copy."""
    command = [CARGO, "test", "--quiet", "--target-dir", TARGET / "tests", *arguments]
    result = subprocess.run(command, cwd=TREE, env=planted(number), capture_output=True, text=True)
    if result.returncode and "test result: FAILED" not in result.stdout:
        raise SystemExit(f"the test can't be run: {result.stderr[-2000:]}")
    return result.returncode == 0
