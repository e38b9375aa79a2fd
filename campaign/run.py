#!/usr/bin/env python3
"""Kills Stoker in many ways while it works, and checks that nothing is lost that it accepted.

    campaign/run.py [--seed N] [--rounds N] [--jobs N] [--powercut [--expect-loss]] [--binary FILE] [--keep]

It uses a real `stoker serve`, real PHP workers, and ledgers kept by producers and workers. The seed chooses the faults;
the exact moment of a fault depends on the machine. The exit code is 0 only if no job was lost, no job ran again that
the store knew to be done, no job overtook another of its key, and nothing was left behind: no job, no process, no
mount. With `--powercut` everything is killed, and changes that no completed fsync covers are lost as well;
`--expect-loss` turns `sync` off, and then the campaign fails unless it finds a loss.

Needs php, permission to mount (root) for a disk that can fill up, and a C compiler for power cuts and a failing disk.
"""

import argparse
import ctypes
import json
import multiprocessing
import multiprocessing.connection
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

if sys.version_info < (3, 11):
    sys.exit("campaign/run.py needs Python 3.11 or newer")

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "campaign"), str(ROOT / "benches")]

from harness import processes  # noqa: E402 (its path is set above)
from rig import deck, preload  # noqa: E402
from rig.report import Outcome, Totals, table, write_ledgers  # noqa: E402
from rig.stoker import PR_SET_PDEATHSIG  # noqa: E402
from rig.trial import Trial  # noqa: E402

SEGMENT = 20  # rounds against one store


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", default="1", help="chooses the faults (1)")
    parser.add_argument("--rounds", type=int, default=20, help="faults in all (20)")
    parser.add_argument("--segment", type=int, default=SEGMENT, help=f"rounds against one store ({SEGMENT})")
    parser.add_argument("--jobs", type=int, default=1, help="stores at the same time (1)")
    parser.add_argument("--powercut", action="store_true", help="data that was not synced is lost too")
    parser.add_argument("--expect-loss", action="store_true", help="with sync off; fail unless something is lost")
    parser.add_argument("--only", action="append", choices=sorted(deck.BY_NAME), help="this fault; may be given again")
    parser.add_argument("--binary", type=Path, default=ROOT / "target" / "release" / "stoker", help="the Stoker to kill")
    simulation = ROOT / "target" / "sim" / "release" / "stoker-sim"
    parser.add_argument("--simulation", type=Path, default=simulation, help="the program that draws queues and pushes")
    parser.add_argument("--keep", action="store_true", help="always keep the folder")
    parser.add_argument("--quiet", action="store_true", help="no line per round")
    found = parser.parse_args()
    if found.expect_loss and not found.powercut:
        parser.error("--expect-loss requires --powercut: a killed process loses nothing that was written")
    if not found.binary.exists():
        parser.error(f"there is no {found.binary}: cargo build --release")
    if not found.simulation.exists():
        parser.error(f"there is no {found.simulation}: cargo build --release --manifest-path sim/Cargo.toml --target-dir target/sim")
    if not shutil.which("php"):
        parser.error("needs php")
    found.say = (lambda text: None) if found.quiet else (lambda text: print(f"… {text}", file=sys.stderr, flush=True))
    found.keep_always, found.failing = found.keep, False
    return found


def main():
    found = options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that every `finally` is reached
    folder = Path(tempfile.mkdtemp(prefix="stoker-campaign-"))
    totals, began = Totals(), time.monotonic()
    names = (["powercut"] if found.powercut else []) + (["failing"] if preload.may_build() else [])
    found.libraries = {name: preload.build(folder, name) for name in names}
    try:
        run_all(found, folder, deck.pieces(found), totals)
    except KeyboardInterrupt:
        totals.failure = "interrupted"
    report = totals.report(found, time.monotonic() - began)
    print(table(report))
    print(json.dumps(report))
    return conclude(found, folder, totals)


def conclude(found, folder, totals):
    if found.expect_loss:
        ok = not totals.failure and totals.figures["lost"] > 0
        print(f"sync is off, and {'a loss was found, as it must be' if ok else 'NO LOSS WAS FOUND'}")
    else:
        ok = not totals.bad
        for text in totals.wrong[:40]:
            print(f"WRONG {text}")
    if totals.failure:
        print(f"FAILED {totals.failure}")
    if ok and not found.keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"ledgers, logs and stores: {folder}")
    return 0 if ok else 1


def run_all(found, folder, pieces, totals):
    """Runs each store in a process of its own, at most `--jobs` at a time."""
    left, running = pieces[::-1], {}
    try:
        while running or left:
            while left and len(running) < found.jobs:
                no, *piece = left.pop()
                receiver, sender = multiprocessing.Pipe(duplex=False)
                process = multiprocessing.Process(target=run_one, args=(sender, found, no, folder / str(no), *piece))
                process.start()
                sender.close()
                running[receiver] = no, process
            for receiver in multiprocessing.connection.wait(list(running)):
                take(receiver, *running.pop(receiver), totals)
            if totals.failure or (found.expect_loss and totals.figures["lost"]):
                left = []
    finally:
        for _, process in running.values():
            process.terminate()
        for receiver, (no, process) in running.items():
            take(receiver, no, process, totals)


def take(receiver, no, process, totals):
    try:
        totals.add(no, receiver.recv())
    except EOFError:
        totals.failure = totals.failure or f"store {no}: its process has died"
    process.join()


def run_one(sender, found, no, *rest):
    """The child process. Ctrl-C is left to the parent, and TERM ends the child in an orderly way."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    processes.adopt_orphans()
    # A kill must not wait until a thread that pushes releases the interpreter.
    sys.setswitchinterval(0.0005)
    sender.send(trial_of(found, no, *rest))


def trial_of(found, no, folder, small, faults):
    trial, outcome = Trial(found, no, folder), Outcome()
    try:
        outcome.figures, outcome.wrong = trial.run(faults, small)
    except KeyboardInterrupt:
        outcome.failure = "interrupted"
    except Exception as error:  # any error; what was found before still counts
        traceback.print_exc()
        outcome.failure, outcome.wrong = f"store {no}: {type(error).__name__}: {error}", trial.wrong
    finally:
        found.failing = bool(outcome.failure or outcome.wrong)
        left = trial.clean_up()
    if left and not outcome.failure:
        outcome.wrong.append(f"{len(left)} processes had to be killed")
    outcome.take(trial)
    bad = outcome.wrong or outcome.failure
    if bad and hasattr(trial, "books"):
        write_ledgers(trial)
    if not (bad or found.keep):
        shutil.rmtree(trial.folder, ignore_errors=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
