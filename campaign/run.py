#!/usr/bin/env python3
"""Kills Stoker in every manner while it works, and counts: nothing that it accepted may be lost.

    campaign/run.py [--seed N] [--rounds N] [--powercut [--expect-loss]] [--binary FILE] [--keep]

Real `stoker serve`, real PHP workers, producers and workers with ledgers of their own. The seed chooses the faults;
when exactly they strike is up to the machine. Ends with 0 only if no job was lost, none ran again that the store knew to
be done, none overtook another of its key, and nothing was left behind: no job, no process, no mount. With `--powercut`
everything is killed and what no fsync had returned for goes as well; `--expect-loss` turns `sync` off, and then the
campaign has failed unless it finds a loss.

Needs php, for a disk that can fill up the right to mount (root), for power cuts a C compiler.
"""

import argparse
import collections
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
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
from rig import cut, faults  # noqa: E402
from rig.trial import Trial  # noqa: E402

SEGMENT = 10  # rounds against one store
SUMS = (
    "pushes accepted refused in_doubt repeated done failed_as_told quarantined once_cut lost duplicated allowed forbidden "
    "ordered_runs order_violations unique_violations burned_attempts interrupted_gracefully early paused_runs "
    "left_in_store leaked_unique leftover_processes damaged refused_and_ran mistyped_refusals"
).split()
MUST_BE_0 = (
    "lost forbidden order_violations unique_violations burned_attempts interrupted_gracefully early paused_runs "
    "left_in_store leaked_unique leftover_processes damaged refused_and_ran mistyped_refusals"
).split()


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", default="1", help="chooses the faults (1)")
    parser.add_argument("--rounds", type=int, default=20, help="faults in all (20)")
    parser.add_argument("--segment", type=int, default=SEGMENT, help=f"rounds against one store ({SEGMENT})")
    parser.add_argument("--powercut", action="store_true", help="what is not synced is lost, too")
    parser.add_argument("--expect-loss", action="store_true", help="with sync off; fail unless something is lost")
    parser.add_argument("--only", action="append", help="this fault; may be given again")
    parser.add_argument("--binary", type=Path, default=ROOT / "target" / "release" / "stoker", help="the Stoker to kill")
    parser.add_argument("--keep", action="store_true", help="keep the folder in any case")
    parser.add_argument("--quiet", action="store_true", help="no line per round")
    found = parser.parse_args()
    if found.expect_loss and not found.powercut:
        parser.error("--expect-loss goes with --powercut: a killed process loses nothing that was written")
    if not found.binary.exists():
        parser.error(f"there is no {found.binary}: cargo build --release")
    if not shutil.which("php"):
        parser.error("needs php")
    found.say = (lambda text: None) if found.quiet else (lambda text: print(f"… {text}", file=sys.stderr, flush=True))
    found.keep_always, found.failing = found.keep, False
    return found


class Deck:
    """Deals faults so that each comes as often as it stands there, in an order that the seed gives."""

    def __init__(self, seed, cards, small):
        self.dice, self.cards, self.small = random.Random(f"{seed}/deck/{small}"), cards, small
        self.left = []

    def deal(self):
        if not self.left:
            self.left = self.dice.sample(self.cards, len(self.cards))
        return self.left.pop()


def may_mount():
    """Not every root may: containers are often denied it."""
    if os.geteuid() != 0 or not shutil.which("mount"):
        return False
    with tempfile.TemporaryDirectory() as folder:
        command = ["mount", "-t", "tmpfs", "-o", "size=1m", "stoker-campaign", folder]
        if subprocess.run(command, stderr=subprocess.DEVNULL).returncode != 0:
            return False
        return subprocess.run(["umount", folder], stderr=subprocess.DEVNULL).returncode == 0


def decks(found):
    if found.only:
        cards = [getattr(faults, name) for name in found.only]
        small = any("disk" in name for name in found.only)
        return [Deck(found.seed, cards, small)]
    if found.powercut:
        return [Deck(found.seed, faults.POWER, False)]
    plain = Deck(found.seed, faults.ANYWHERE, False)
    if not may_mount():
        print("nothing can be mounted here (that takes root and mount): no disk that can fill up", file=sys.stderr)
        return [plain]
    return [plain, Deck(found.seed, faults.SMALL_DISK, True)]


class Totals:
    def __init__(self):
        self.figures = collections.Counter()
        self.wrong, self.flights, self.recoveries = [], [], []
        self.faults, self.kinds = collections.Counter(), collections.Counter()
        self.cuts = [0, 0, 0]
        self.refusals = collections.Counter()
        self.most_allowed = 0

    def add(self, trial, figures, wrong):
        self.figures.update({key: figures.get(key, 0) for key in SUMS})
        self.wrong += [f"store {trial.no}: {text}" for text in wrong]
        self.recoveries += trial.recoveries
        self.faults.update(trial.done_faults)
        self.cuts = [a + b for a, b in zip(self.cuts, trial.cuts)]
        for (status, text), count in trial.books.refused.items():
            self.refusals[f"{status} {text}"] += count
        for kill in trial.kills:
            self.kinds[kill.what.split(", power")[0]] += 1
            # Those in the middle of a recovery find nothing running, and are not meant to.
            if not any(word in kill.what for word in ("recovery", "made", "full", "draining", "after workers", "stopped")):
                self.flights.append(kill.in_flight)

    def report(self, found, seconds, failure):
        sums = {key: self.figures[key] for key in SUMS}
        flights, waits = sorted(self.flights) or [0], sorted(self.recoveries) or [0]
        return {
            "seed": found.seed,
            "powercut": found.powercut,
            "sync": not found.expect_loss,
            "rounds": sum(self.faults.values()),
            "seconds": round(seconds, 1),
            "faults": dict(self.faults),
            "kills": dict(self.kinds),
            "in_flight": {"min": flights[0], "median": statistics.median(flights), "max": flights[-1]},
            "up_again_s": {"median": round(statistics.median(waits), 3), "max": round(waits[-1], 3)},
            "power_cuts": dict(zip(["cuts", "unsynced_writes", "lost_writes"], self.cuts)),
            "refusals": dict(self.refusals),
            **sums,
            "wrong": self.wrong[:200],
            "failure": failure,
        }


def table(report):
    kills = ", ".join(f"{what} {count}" for what, count in sorted(report["kills"].items()))
    flight, up, cuts = report["in_flight"], report["up_again_s"], report["power_cuts"]
    rows = [
        ("rounds", f"{report['rounds']} in {report['seconds']} s, seed {report['seed']}"),
        ("kills", kills),
        ("in flight at a kill", f"min {flight['min']}, median {flight['median']:g}, max {flight['max']}"),
        ("up again after", f"median {up['median']} s, max {up['max']} s"),
    ]
    if report["powercut"]:
        rows.append(("power cuts", f"{cuts['cuts']}; {cuts['lost_writes']} of {cuts['unsynced_writes']} unsynced writes lost"))
    for key in SUMS:
        bar = "  (must be 0)" if key in MUST_BE_0 else ""
        rows.append((key.replace("_", " "), f"{report[key]}{bar if report[key] else ''}"))
    for text, count in sorted(report["refusals"].items()):
        rows.append(("refused with", f"{text} ({count})"))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def main():
    found = options()
    processes.adopt_orphans()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that every `finally` is reached
    folder = Path(tempfile.mkdtemp(prefix="stoker-campaign-"))
    totals, failure, began = Totals(), None, time.monotonic()
    try:
        if found.powercut:
            found.library = cut.build(folder)
        piles = decks(found)
        left, no = found.rounds, 0
        while left > 0 and not failure:
            # A short campaign sees every pile as well.
            rounds = min(found.segment, left, max(1, -(-found.rounds // len(piles))))
            failure = segment(found, no, folder, piles[no % len(piles)], rounds, totals)
            left, no = left - rounds, no + 1
            if found.expect_loss and totals.figures["lost"]:
                break
    except KeyboardInterrupt:
        failure = "interrupted"
    report = totals.report(found, time.monotonic() - began, failure)
    print(table(report))
    print(json.dumps(report))
    bad = failure or totals.wrong or any(totals.figures[key] for key in MUST_BE_0)
    if found.expect_loss:
        ok = not failure and totals.figures["lost"] > 0
        print(f"sync is off, and {'a loss was found, as it must be' if ok else 'NO LOSS WAS FOUND'}")
    else:
        ok = not bad
        for text in totals.wrong[:40]:
            print(f"WRONG {text}")
    if failure:
        print(f"FAILED {failure}")
    if ok and not found.keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"ledgers, logs and stores: {folder}")
    return 0 if ok else 1


def segment(found, no, folder, deck, rounds, totals):
    """Returns why the campaign can't go on, if it can't."""
    trial = Trial(found, no, folder / str(no))
    figures, wrong, failure = {}, [], None
    try:
        figures, wrong = trial.run(deck, rounds)
    except KeyboardInterrupt:
        failure = "interrupted"
    except Exception as error:  # whatever it is, what was found before counts
        traceback.print_exc()
        failure, wrong = f"store {no}: {type(error).__name__}: {error}", trial.wrong
    finally:
        found.failing = bool(failure or wrong)
        left = trial.clean_up()
    if left and not failure:
        wrong.append(f"{len(left)} processes had to be ended")
    if hasattr(trial, "books"):
        totals.add(trial, figures, wrong)
        if wrong or failure:
            write_ledgers(trial)
    if not (wrong or failure or found.keep):
        shutil.rmtree(trial.folder, ignore_errors=True)
    return failure


def write_ledgers(trial):
    """What producers and killer knew; the workers' own ledger stands beside it."""
    with open(trial.folder / "pushes.jsonl", "w") as out:
        for push in trial.books.pushes.values():
            known = {key: value for key, value in vars(push).items() if key not in ("ids", "body")}
            out.write(json.dumps(known | push.body | {"ids": sorted(push.ids)}) + "\n")
    with open(trial.folder / "kills.jsonl", "w") as out:
        for kill in trial.kills:
            known = {key: value for key, value in vars(kill).items() if key not in ("unfinished", "last_runs")}
            known["unfinished"] = len(kill.unfinished or {})
            out.write(json.dumps(known) + "\n")


if __name__ == "__main__":
    sys.exit(main())
