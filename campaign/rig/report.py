"""The results of all trials together."""

import collections
import json
import statistics
from dataclasses import dataclass, field

from rig.kill import MIN_IN_FLIGHT

SUMS = (
    "pushes accepted refused in_doubt repeated done failed_as_told quarantined once_cut lost duplicated allowed forbidden "
    "ordered_runs order_violations unique_violations burned_attempts interrupted_gracefully early paused_runs "
    "left_in_store leaked_unique leftover_processes damaged refused_and_ran mistyped_refusals weak_kills "
    "failed_syncs failed_writes synced_again"
).split()
MUST_BE_0 = (
    "lost forbidden order_violations unique_violations burned_attempts interrupted_gracefully early paused_runs "
    "left_in_store leaked_unique leftover_processes damaged refused_and_ran mistyped_refusals weak_kills synced_again"
).split()
NAMES = {"weak_kills": f"flight below {MIN_IN_FLIGHT}", "synced_again": "synced again after a failed sync"}


@dataclass
class Outcome:
    """The result of one trial, which is sent from the process that ran it."""

    figures: dict = field(default_factory=dict)
    wrong: list = field(default_factory=list)
    failure: str | None = None  # the reason if the campaign cannot go on
    faults: list = field(default_factory=list)
    kills: list = field(default_factory=list)  # (what, demanding, in flight)
    recoveries: list = field(default_factory=list)
    migrations: collections.Counter = field(default_factory=collections.Counter)
    refusals: dict = field(default_factory=dict)
    cuts: list = field(default_factory=lambda: [0, 0, 0])

    def take(self, trial):
        if not hasattr(trial, "books"):
            return
        self.faults = trial.done_faults
        self.kills = [(kill.what.split(", power")[0], kill.demanding, kill.in_flight) for kill in trial.kills]
        weak = [kill for kill in trial.kills if kill.is_weak]
        self.figures["weak_kills"] = len(weak)
        self.wrong += [f"only {kill.in_flight} in flight at kill {kill.no} ({kill.what})" for kill in weak]
        if disk := trial.stoker.disk:
            names = "failed_syncs", "failed_writes", "synced_again"
            self.figures |= {name: getattr(disk.control, name) for name in names}
            if disk.control.synced_again:
                self.wrong.append("a file was synced again after a sync of it had failed")
        self.recoveries, self.migrations, self.cuts = trial.recoveries, trial.migrations, trial.cuts
        if trial.books.mistyped:
            self.wrong.append(f"{trial.books.mistyped} refusals had another status than their reason has")
        self.refusals = {f"{status} {text}": count for (status, text), count in trial.books.refused.items()}


class Totals:
    def __init__(self):
        self.figures, self.refusals = collections.Counter(), collections.Counter()
        self.faults, self.kinds, self.migrations = collections.Counter(), collections.Counter(), collections.Counter()
        self.wrong, self.flights, self.recoveries = [], [], []
        self.cuts = [0, 0, 0]
        self.failure = None

    def add(self, no, outcome):
        self.figures.update({key: outcome.figures.get(key, 0) for key in SUMS})
        self.wrong += [f"store {no}: {text}" for text in outcome.wrong]
        self.failure = self.failure or outcome.failure
        self.recoveries += outcome.recoveries
        self.faults.update(outcome.faults)
        self.migrations.update(outcome.migrations)
        self.refusals.update(outcome.refusals)
        self.cuts = [a + b for a, b in zip(self.cuts, outcome.cuts)]
        self.kinds.update(what for what, _, _ in outcome.kills)
        self.flights += [in_flight for _, demanding, in_flight in outcome.kills if demanding]

    @property
    def bad(self):
        return bool(self.failure or self.wrong or any(self.figures[key] for key in MUST_BE_0))

    def report(self, found, seconds):
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
            "kills_at_work": len(self.flights),
            "up_again_s": {"median": round(statistics.median(waits), 3), "max": round(waits[-1], 3)},
            "power_cuts": dict(zip(["cuts", "unsynced_writes", "lost_writes"], self.cuts)),
            "migrations": dict(self.migrations),
            "refusals": dict(self.refusals),
            **{key: self.figures[key] for key in SUMS},
            "wrong": self.wrong[:200],
            "failure": self.failure,
        }


def table(report):
    kills = ", ".join(f"{what} {count}" for what, count in sorted(report["kills"].items()))
    flight, up, cuts = report["in_flight"], report["up_again_s"], report["power_cuts"]
    rest = sum(report["kills"].values()) - report["kills_at_work"]
    rows = [
        ("rounds", f"{report['rounds']} in {report['seconds']} s, seed {report['seed']}"),
        ("kills", kills),
        ("in flight at a kill", f"min {flight['min']}, median {flight['median']:g}, max {flight['max']}"),
        ("kills in a start or end", f"{rest}, where not so much can run"),
        ("up again after", f"median {up['median']} s, max {up['max']} s"),
    ]
    if report["powercut"]:
        rows.append(("power cuts", f"{cuts['cuts']}; {cuts['lost_writes']} of {cuts['unsynced_writes']} unsynced writes lost"))
    if moved := report["migrations"]:
        rows.append(("starts killed", f"{moved.get('cut off', 0)} before they had migrated, {moved.get('done', 0)} after"))
    for key in SUMS:
        bar = "  (must be 0)" if key in MUST_BE_0 and report[key] else ""
        rows.append((NAMES.get(key, key.replace("_", " ")), f"{report[key]}{bar}"))
    for text, count in sorted(report["refusals"].items()):
        rows.append(("refused with", f"{text} ({count})"))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def write_ledgers(trial):
    """Writes what producers and killer knew; the workers' own ledger is in the same folder."""
    with open(trial.folder / "pushes.jsonl", "w") as out:
        for push in trial.books.pushes.values():
            known = {key: value for key, value in vars(push).items() if key not in ("ids", "body")}
            out.write(json.dumps(known | push.body | {"ids": sorted(push.ids)}) + "\n")
    with open(trial.folder / "kills.jsonl", "w") as out:
        for kill in trial.kills:
            known = {key: value for key, value in vars(kill).items() if key not in ("unfinished", "last_runs")}
            known["unfinished"] = len(kill.unfinished or {})
            out.write(json.dumps(known) + "\n")
