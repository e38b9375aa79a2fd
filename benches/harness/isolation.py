"""A process for each task, forked from one that has booted Symfony, against php-fpm, which boots Symfony for each request.

php-fpm is asked by a bare FastCGI client over connections that are kept open, and Stoker by a client of the wire: the same
program (`c/pace.c`). Nothing is pinned: what prepares the next process must compete with the task as it does on a server.
"""

import contextlib
import json
import os
import shutil
import subprocess
from pathlib import Path

from . import processes
from .brokers import BENCHES, C, PHP, Stoker
from .report import Result
from .web import FPM, as_root, user_line

APPLICATION = BENCHES.parent / "crates" / "lab" / "php" / "symfony"
FRAMEWORK = Path("/usr/share/php/Symfony/Bundle/FrameworkBundle/autoload.php")
CHILDREN = 4
PAUSE_US = 10_000  # between the beginnings of two requests on an idle server
IDLE_CHILDREN = 8
BARS = {"snapshot": (0.7, 0.33), "fork": (1.5, None)}  # p50 on an idle server, tasks per second at saturation
POOL = """[global]
error_log = {folder}/fpm.log
[bench]
listen = {folder}/fpm.sock
{user}pm = static
pm.max_children = {children}
clear_env = no
"""


def run(options, folder):
    if not FPM or not FRAMEWORK.exists():
        options.say("isolation: needs php-fpm and php-symfony-framework-bundle, skipped")
        return
    folder = Path(folder)
    env = prepare(folder)
    with contextlib.ExitStack() as stack:
        script = stack.enter_context(php_fpm(folder, env))
        ways = {}
        if options.binary:
            for strategy in BARS:
                broker = Stoker(folder, command(strategy), CHILDREN, options.binary, strategy=strategy, env=env, configured=size(CHILDREN))
                ways[strategy] = stack.enter_context(broker)
        yield from compare(options, folder, script, ways)
    if options.binary:
        yield memory(options, folder, env)


def compare(options, folder, script, ways):
    idle, full = {}, {}
    for strategy, (ratio, share) in BARS.items():
        idle[strategy] = Result(f"Symfony, {strategy}, one request each {PAUSE_US // 1000} ms", "µs, p50", ratio_bar=ratio, floor=3_000)
        full[strategy] = Result(f"Symfony, {strategy}, {CHILDREN} at once", "tasks/s", more_is_better=True, ratio_bar=share, floor=500)
    options.say(f"isolation: {options.pairs} rounds of {options.seconds} s for each of {2 * len(BARS) + 2} rows")
    ask = {name: (lambda count, pause, name=name: pace(options, "wire", ways[name].socket, count, pause, "bench.echo")) for name in ways}
    ask["php-fpm"] = lambda count, pause: pace(options, "fastcgi", folder / "fpm.sock", count, pause, script)
    for pair in range(options.pairs):
        options.await_quiet()
        order = list(ask) if pair % 2 == 0 else list(reversed(ask))
        paced = {name: ask[name](1, PAUSE_US)["p50_us"] for name in order}
        at_once = {name: per_second(ask[name](CHILDREN, 0)) for name in order}
        for strategy in BARS:
            for results, figures in ((idle, paced), (full, at_once)):
                results[strategy].reference.append(figures["php-fpm"])
                if strategy in ways:
                    results[strategy].stoker.append(figures[strategy])
    return [*idle.values(), *full.values()]


def pace(options, protocol, socket, connections, pause, target):
    command = [C / "pace", protocol, socket, connections, options.seconds, pause, target, "/"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=options.seconds + 60)
    if done.returncode:
        raise RuntimeError(f"{protocol}: {done.stderr.strip() or done.stdout}")
    return json.loads(done.stdout)


def per_second(done):
    return done["answered"] / done["seconds"]


def memory(options, folder, env):
    """Memory of all processes of a pool with idle processes, a shared page counted once."""
    result = Result(f"Symfony, memory of snapshot's zygote and {IDLE_CHILDREN} processes, and of loop's one", "MB", ratio_bar=1.5, floor=100)
    options.say(result.name)
    for _ in range(options.pairs):
        result.reference.append(proportional("loop", 1, options, folder, env))
        result.stoker.append(proportional("snapshot", IDLE_CHILDREN, options, folder, env))
    return result


def proportional(strategy, count, options, folder, env):
    with Stoker(folder, command(strategy), count, options.binary, strategy=strategy, env=env, configured=size(count)) as broker:
        socket = broker.socket
        pace(options, "wire", socket, 1, PAUSE_US, "bench.echo")
        processes.wait_for("the workers", broker.ready)
        own = set(broker.pids())
        return sum(pss_kb(pid) for pid in processes.descendants(broker.process.pid) if pid not in own) / 1e3


def pss_kb(pid):
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def size(count):
    """Processes at their task count towards the maximum only. Some are about to start or end, so CPUs would be idle with few."""
    return f"{{ min = {count}, max = {3 * count} }}"


def command(strategy):
    script = PHP / "symfony_call.php"
    return [script] if strategy == "snapshot" else ["php", "-d", "opcache.enable_cli=1", script]


def prepare(folder):
    """Copies the application, because it writes its compiled container beside itself. Returns the environment of PHP."""
    folder.chmod(0o755)
    application = folder / "symfony"
    shutil.copytree(APPLICATION, application)
    subprocess.run(["php", application / "prepare.php"], check=True, timeout=60)
    return {"LAB_APPLICATION": str(application)}


@contextlib.contextmanager
def php_fpm(folder, env):
    """Yields the script that answers."""
    text = POOL.format(folder=folder, children=CHILDREN, user=user_line())
    (folder / "fpm.conf").write_text(text)
    process = processes.start([FPM[-1], "-F", *as_root(), "-y", folder / "fpm.conf"], env=env, cwd=folder, stderr=subprocess.DEVNULL)
    try:
        processes.wait_for("php-fpm's socket", (folder / "fpm.sock").exists)
        yield folder / "symfony" / "public" / "index.php"
    finally:
        processes.end(process)
