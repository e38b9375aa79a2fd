"""Starts processes so that none is left behind, and reads their cost from /proc."""

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
CPUCLOCK_SCHED = 2


def adopt_orphans():
    """Makes this process the parent of every descendant whose own parent dies, so that end_all() finds them."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def start(command, *, env=None, cwd=None, stdout=subprocess.DEVNULL, stderr=None, cpu=None):
    """Starts a command in its own process group, and on one CPU if `cpu` is given.

    It does not get its own session, because Linux divides CPU time between sessions first (autogroups). With one
    session each, the reference's workers, which are started here, would get far more CPU time than Stoker's.
    """
    pin = None if cpu is None else lambda: os.sched_setaffinity(0, {cpu})
    return subprocess.Popen(
        [str(part) for part in command],
        env={**os.environ, **(env or {})},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        text=True,
        preexec_fn=pin,
        process_group=0,
    )


def end(process, grace=10.0):
    """Sends SIGTERM and, after the grace period, SIGKILL to the process's group and all its descendants. Returns the
    process's output if it is piped."""
    family = descendants(process.pid)
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        out, _ = process.communicate(timeout=grace)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate()
    # Workers are in process groups of their own. A PID that is still a descendant of this process has not been reused.
    kill(set(family) & set(descendants(os.getpid())))
    return out


def end_all():
    """The last step of every exit: no descendant of this process outlives it."""
    for _ in range(20):
        family = descendants(os.getpid())
        if not family:
            return
        kill(family)
        time.sleep(0.05)


def kill(pids):
    """Sends SIGKILL, and reaps the children of this process. When the others die, their children become this process's
    children."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def parents():
    """Returns pid -> parent's pid for all processes."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                stat = Path("/proc", entry, "stat").read_text()
                found[int(entry)] = int(stat[stat.rindex(")") + 2 :].split()[1])
    return found


def descendants(pid):
    children = {}
    for child, parent in parents().items():
        children.setdefault(parent, []).append(child)
    found, todo = [], [pid]
    while todo:
        for child in children.get(todo.pop(), []):
            found.append(child)
            todo.append(child)
    return found


def threads(pid):
    with contextlib.suppress(OSError):
        return [int(tid) for tid in os.listdir(f"/proc/{pid}/task")]
    return []


def pin(pids, cpu):
    """Moves all threads of these processes to one CPU."""
    for pid in pids:
        for tid in threads(pid):
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(tid, {cpu})


def run_first(pid):
    """Gives a process real-time priority, so that it runs before all processes without it."""
    os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(1))


def may_run_first():
    """Whether this process has the privilege that `run_first` needs."""
    try:
        run_first(0)
    except PermissionError:
        return False
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return True


def cpu_seconds(pids):
    """CPU time of all threads of these processes, ended ones included, exact to the nanosecond."""
    return sum(time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED) for pid in pids)


def memory_kb(pids):
    """Returns (anonymous, resident) memory of these processes together. Shared pages count once per process."""
    sums = {"Anonymous": 0, "Rss": 0}
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            key, _, rest = line.partition(":")
            if key in sums:
                sums[key] += int(rest.split()[0])
    return sums["Anonymous"], sums["Rss"]


def context_switches(pids):
    """Voluntary and involuntary context switches of all live threads of these processes together."""
    total = 0
    for pid in pids:
        for tid in threads(pid):
            with contextlib.suppress(OSError):
                for line in Path(f"/proc/{pid}/task/{tid}/status").read_text().splitlines():
                    if "ctxt_switches" in line:
                        total += int(line.split(":")[1])
    return total


def wait_for(what, condition, seconds=15.0, every=0.02):
    """Polls until the condition returns a true value, and returns that value."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(every)
