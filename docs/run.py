#!/usr/bin/env python3
"""Runs every example of README.md and of the pages in docs/, and compares what comes out with what they show.

    docs/run.py [--binary FILE] [--keep] [PAGE]...

Each page is played from top to bottom in a new folder: Laravel's example application, and `sdk` and `examples`.

- A ```php or ```toml block whose first line is a comment with a file's name (`// worker.php`) is that file. It is
  written when its turn comes. PHP is checked for its syntax in any case, also in blocks without a name.
- In a ```console block `$ command` is typed into the page's one shell, and the lines below it are what it prints. `…`
  stands for anything within a line, and alone on a line for any number of lines.
- What only looks (LOOKS) is repeated for some seconds until it shows what the page does: jobs take their time.
- What only the examples need (a worker, a clean-up) stands in a comment, `<!-- … -->`: it is run, and readers don't see it.
- `$ stoker serve` has a terminal of its own: the lines below it have to come in its log, then the page goes on; without
  any, when a pool is healthy. `^C` is typed there; the lines below that are the log's end.

Ends with 0 only if all came out as shown, each page ran as many commands as it should, and no process was left behind.
"""

import argparse
import contextlib
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

if sys.version_info < (3, 11):
    sys.exit("docs/run.py needs Python 3.11 or newer")

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benches"))

from harness import processes  # noqa: E402 (its path is set above)

# The minimum number of commands that each page runs, so that none passes by running nothing.
PAGES = {
    "README.md": 16,
    "docs/getting-started/first-call.md": 4,
    "docs/getting-started/first-job.md": 11,
    "docs/getting-started/install.md": 0,
    "docs/getting-started/laravel.md": 8,
    "docs/guides/backup.md": 45,
    "docs/guides/calls.md": 6,
    "docs/guides/choosing-a-strategy.md": 1,
    "docs/guides/failed-jobs.md": 29,
    "docs/guides/fairness.md": 10,
    "docs/guides/http.md": 14,
    "docs/guides/jobs.md": 74,
    "docs/guides/many-hosts.md": 35,
    "docs/guides/laravel.md": 70,
    "docs/guides/monitoring.md": 13,
    "docs/guides/ordering.md": 21,
    "docs/guides/releases.md": 35,
    "docs/guides/sites.md": 44,
    "docs/guides/strategies.md": 18,
    "docs/migrate/horizon.md": 10,
    "docs/migrate/queue-work.md": 6,
    "docs/migrate/roadrunner.md": 10,
    "docs/reference/metrics.md": 3,
    "docs/reference/php-sdk.md": 1,
    "docs/reference/store.md": 14,
}
LOOKS = re.compile(
    r"stoker (jobs (list|show|count|failures)|queues|workers|quarantine)\b|cat |php artisan queue:failed|curl -s ("
    r"--cacert site\.pem https:|--unix-socket http\.sock http://localhost/metrics|https?:)"
)
PATIENCE = 20.0  # seconds to wait for the output that a page shows
AT_ONCE = 8  # pages
APPLICATION = ["app", "artisan", "bootstrap", "config", "database", "public", "routes"]
AUTOLOAD = """<?php
error_reporting(E_ALL & ~E_DEPRECATED); // Debian's Laravel under PHP 8.2, until Laravel takes over
require getenv('LARAVEL_AUTOLOAD') ?: 'Illuminate/autoload.php';
require dirname(__DIR__) . '/sdk/php/laravel/autoload.php';
"""


class Wrong(Exception):
    """The page and the program disagree."""

    def __init__(self, line, text):
        super().__init__(text)
        self.line = line


# Reading pages.


class Block:
    def __init__(self, line, language):
        self.line, self.language, self.lines = line, language, []

    def text(self):
        return "".join(f"{line}\n" for line in self.lines)

    def file(self):
        """The name in its first line, if it has one there: `// worker.php`, or `# stoker.toml: and what it is`."""
        found = re.match(r"(?://|#) ([\w./-]+\.\w+)(?::|$)", self.lines[0]) if self.lines else None
        return found and found[1]

    def php(self):
        """As a file; pages leave out what every file begins with. Lines keep their numbers."""
        code = [line for line in self.lines if not line.startswith("//")]
        if code and code[0].startswith("'"):
            return f"<?php return [ {self.text()}];\n"
        return f"<?php {self.text()}"


class Step:
    """A command of a console block, and what the page says that it prints."""

    def __init__(self, line, command):
        self.line, self.command, self.shown = line, command, []

    def fails(self):
        return any(line.startswith("stoker: ") for line in self.shown)

    def serves(self):
        """A server that is refused is a command like others."""
        return self.command.startswith("stoker serve") and not self.fails()

    def pattern(self):
        return re.compile("".join(map(as_pattern, self.shown)))


def as_pattern(line):
    if line == "…":
        return r"(?:.*\n)*?"
    return ".*".join(map(re.escape, line.split("…"))) + "\n"


def blocks(text):
    found, block = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if block is None and line.startswith("```"):
            block = Block(number, line[3:].strip())
        elif block is not None and line == "```":
            found.append(block)
            block = None
        elif block is not None:
            block.lines.append(line)
    return found


def steps(block):
    found = []
    for number, line in enumerate(block.lines, block.line + 1):
        if line.startswith("$ ") or line == "^C":
            found.append(Step(number, line.removeprefix("$ ")))
        elif found and found[-1].command.endswith("\\"):
            found[-1].command += f"\n{line}"
        elif found:
            found[-1].shown.append(line)
        else:
            raise Wrong(number, "an example begins with a command: '$ …' or '^C'")
    return found


# Playing them.


class Shell:
    """One shell for a page, so that variables stay."""

    def __init__(self, folder, env):
        pipe, errors = subprocess.PIPE, subprocess.STDOUT
        self.process = subprocess.Popen(["bash"], cwd=folder, env=env, stdin=pipe, stdout=pipe, stderr=errors)

    def run(self, step):
        """Types a command; returns what it printed, errors included, and whether it failed."""
        typed = f"eval {shlex.quote(step.command)} </dev/null; printf '%d\\000' $?\n"
        self.process.stdin.write(typed.encode())
        self.process.stdin.flush()
        printed, deadline = b"", time.monotonic() + PATIENCE
        while not printed.endswith(b"\0"):
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            came = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not came:
                processes.kill(processes.descendants(self.process.pid))
                text = f"$ {step.command}\ndoes not end within {PATIENCE:g} s; so far it printed:\n"
                raise Wrong(step.line, text + printed.decode(errors="replace"))
            printed += came
        output, code = re.fullmatch(r"(.*?)(\d+)\0", printed.decode(errors="replace"), re.DOTALL).groups()
        return output, code != "0"

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class Server:
    """`stoker serve` in a terminal of its own."""

    def __init__(self, step, folder, env):
        self.process = subprocess.Popen(
            ["bash", "-c", f"exec {step.command}"],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        self.log, self.seen, self.ended, self.came = "", 0, False, threading.Condition()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        with self.process.stdout as log:
            for line in log:
                with self.came:
                    self.log += line.decode(errors="replace")
                    self.came.notify()
        self.process.wait()
        with self.came:
            self.ended = True
            self.came.notify()

    def expect(self, step):
        """Waits until the log shows these lines, from where it was left."""
        with self.came:
            step.shown = step.shown or ["…", "… is healthy"]
            self.came.wait_for(lambda: self.found(step) or self.ended, PATIENCE)
            if not (found := self.found(step)):
                raise different(step, self.log[self.seen :])
            self.seen = found.end()

    def found(self, step):
        return step.pattern().match(self.log, self.seen)

    def was_killed(self):
        """By the page; all that it had started ends by itself."""
        killed = self.process.poll() == -signal.SIGKILL
        if killed:
            self.reader.join(PATIENCE)
        return killed

    def interrupt(self, step):
        """Control-C reaches all processes in the terminal's foreground. The result is the log up to the end."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGINT)
        with self.came:
            if not self.came.wait_for(lambda: self.ended, PATIENCE):
                raise Wrong(step.line, f"stoker serve is still running {PATIENCE:g} s after ^C:\n{self.log[self.seen:]}")
            failed, step.shown = self.process.returncode != 0, step.shown or ["…"]
            if failed or not step.pattern().fullmatch(self.log, self.seen):
                raise different(step, self.log[self.seen :], failed)
        self.reader.join()


class Page:
    def __init__(self, path, folder, env):
        self.path, self.folder, self.env = path, folder, env
        self.shell, self.servers, self.commands = Shell(folder, env), [], 0

    def play(self):
        for block in blocks(self.path.read_text()):
            if block.language == "console" and "mount -t" in block.text() and not may_mount():
                print(f"{self.path.name}:{block.line} is skipped: nothing can be mounted here (requires root)")
            elif block.language == "console":
                for step in steps(block):
                    self.step(step)
            elif block.language in ("php", "toml"):
                self.write(block)
            elif re.search(r"^(\$|stoker|php) ", block.text(), re.MULTILINE):
                raise Wrong(block.line, "nothing runs this example: it is not a ```console block")

    def write(self, block):
        text, name = block.php() if block.language == "php" else block.text(), block.file()
        if block.language == "php":
            checked = subprocess.run(["php", "-l"], input=text, capture_output=True, text=True)
            if checked.returncode != 0:
                raise Wrong(block.line, f"this is not valid PHP:\n{checked.stdout}{checked.stderr}")
        elif not name:
            raise Wrong(block.line, "nothing runs this example: its first line names no file")
        if name:
            file = self.folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def step(self, step):
        self.commands += 1
        if step.command == "^C":
            if not self.servers:
                raise Wrong(step.line, "^C, but no stoker serve is running")
            self.servers.pop().interrupt(step)
        elif step.serves():
            self.forget_killed()
            self.servers.append(Server(step, self.folder, self.env))
            self.servers[-1].expect(step)
        else:
            self.type(step)

    def type(self, step):
        deadline, pattern = time.monotonic() + PATIENCE, step.pattern()
        while True:
            printed, failed = self.shell.run(step)
            if pattern.fullmatch(printed) and failed == step.fails():
                return
            if not LOOKS.match(step.command) or time.monotonic() > deadline:
                raise different(step, printed, failed)
            time.sleep(0.01)

    def forget_killed(self):
        self.servers = [server for server in self.servers if not server.was_killed()]

    def close(self):
        """Stops what still runs, and reports what can't be stopped properly."""
        self.shell.close()
        self.forget_killed()
        while self.servers:
            self.servers.pop().interrupt(Step(0, "^C"))
        bury()
        if left := processes.descendants(os.getpid()):
            names = [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode() for pid in left]
            raise Wrong(0, f"left behind: {names}")
        if left := unmount(self.folder):
            raise Wrong(0, f"left mounted: {left}")


def different(step, printed, failed=False):
    shown = "".join(f"    {line}\n" for line in step.shown) or "    (nothing)\n"
    came = "".join(f"    {line}\n" for line in printed.splitlines()) or "    (nothing)\n"
    came += "    (and it failed)\n" if failed else ""
    return Wrong(step.line, f"$ {step.command}\nthe page shows\n{shown}and there came\n{came}")


# All of it.


def furnish(folder, binary):
    """What an example may find: an application without anything that is written at run time, and Stoker in the PATH."""
    for name in APPLICATION:
        source = ROOT / "examples" / "laravel" / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    for name in ("storage", "vendor", ".bin"):
        (folder / name).mkdir()
    (folder / "vendor" / "autoload.php").write_text(AUTOLOAD)
    (folder / ".bin" / "stoker").symlink_to(binary.resolve())
    for name in ("sdk", "examples"):
        (folder / name).symlink_to(ROOT / name)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("STOKER_", "APP_"))}
    return env | {"PATH": f"{folder}/.bin:{env['PATH']}", "LC_ALL": "C.UTF-8", "TZ": "UTC"}


def may_mount():
    """Root may not be permitted to mount, for example in a container."""
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "stoker-docs", folder]
        if os.geteuid() != 0 or subprocess.run(mount, stderr=subprocess.DEVNULL).returncode != 0:
            return False
        return subprocess.run(["umount", folder]).returncode == 0


def bury():
    """A process that was adopted and has ended is no longer there."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def unmount(folder):
    """Unmounts what is still mounted within a folder, and returns what that was."""
    places = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    left = [place for place in places if place.startswith(f"{folder}/")]
    for place in left:
        subprocess.run(["umount", "--lazy", place])
    return left


def run(name, top, binary):
    """Runs one page, prints the result, and returns whether it passed."""
    began, wrongs = time.monotonic(), []
    folder = top / name.removeprefix("docs/").removesuffix(".md").replace("/", "-")
    folder.mkdir()
    page = Page(ROOT / name, folder, furnish(folder, binary))
    for part in (page.play, page.close):
        try:
            part()
        except Wrong as wrong:
            wrongs.append(f"{name}:{wrong.line}\n{wrong}")
    if not wrongs and page.commands < PAGES.get(name, 0):
        wrongs.append(f"{name}: runs {page.commands} commands, but should run {PAGES[name]}")
    for wrong in wrongs[:1]:  # errors that follow from it add nothing
        print(f"FAILED {wrong}")
    print(f"{name}: {page.commands} commands in {time.monotonic() - began:.1f} s")
    return not wrongs


def run_each(found):
    """Some pages at a time, each by a process that adopts what its page leaves behind."""
    keep = ["--keep"] if found.keep else []
    command = [sys.executable, __file__, "--binary", found.binary, *keep]
    waiting, runs, codes = list(found.page or PAGES), [], []
    try:
        while waiting or runs:
            while waiting and len(runs) < AT_ONCE:
                runs.append(subprocess.Popen([*command, waiting.pop()]))
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            codes += [run.returncode for run in runs if run.poll() is not None]
            runs = [run for run in runs if run.returncode is None]
        return not any(codes)
    finally:
        for run in runs:
            run.terminate()
            run.wait()


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, default=ROOT / "target" / "debug" / "stoker", help="the Stoker to run")
    parser.add_argument("--keep", action="store_true", help="keep the folders")
    parser.add_argument("page", nargs="*", help="only these pages")
    found = parser.parse_args()
    if not found.binary.exists():
        parser.error(f"there is no {found.binary}: cargo build")
    return found


def main():
    found = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if len(found.page) != 1:
        sys.exit(0 if run_each(found) else 1)
    processes.adopt_orphans()
    top = Path(tempfile.mkdtemp(prefix="stoker-docs-"))
    try:
        sys.exit(0 if run(found.page[0], top, found.binary) else 1)
    finally:
        processes.end_all()
        unmount(top)
        print(f"kept: {top}") if found.keep else shutil.rmtree(top)


if __name__ == "__main__":
    main()
