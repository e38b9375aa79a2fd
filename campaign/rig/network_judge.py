"""How often a job of campaign/network.py may have run again, judged by the workers' own records and by the store as it was when
the server was killed.

A job may run again once for each crash that was counted for it, and once for each kill of the server that found it running: it
had started, and the store had not recorded its end. A crash that the next server counted after a kill is not counted again: such
a job may run again only if it had really started."""

import collections
import math
from dataclasses import dataclass, field
from pathlib import Path

from rig.ledger import number_of

TRANSIT_S = 0.2  # how long a task may be on its way to its worker when the server is killed
COMMIT_S = 2  # how long an answer may be on its way to the store


@dataclass
class Run:
    began: float
    ended: float | None = None
    next_began: float = math.inf  # when the same worker, or its successor, started its next run

    def is_unanswered(self, at):
        """Whether the run had started at this time, and the store may not have known its end."""
        over = self.next_began if self.ended is None else self.ended + COMMIT_S
        return self.began <= at + TRANSIT_S and over >= at


@dataclass
class ServerDeath:
    """A kill of the server, and the numbers of the jobs that were unfinished in its store."""

    at: float
    unfinished: set[int] = field(default_factory=set)
    recorded: set[int] = field(default_factory=set)  # those recorded as running: the next server counts a crash for each

    @classmethod
    def of(cls, at, snapshot):
        if snapshot.trouble:
            raise RuntimeError(f"the store of the killed server can't be read: {snapshot.trouble}")
        unfinished = set(snapshot.unfinished)
        return cls(at, unfinished, snapshot.running & unfinished)


def read_runs(paths):
    """Reads the workers' records. Returns the runs of each task ("job ID" or "call N")."""
    runs = collections.defaultdict(list)
    for path in paths:
        last = None
        for line in Path(path).read_text().splitlines():
            words = line.split()
            if len(words) < 4:
                continue  # The worker was killed while it wrote.
            at = float(words[3])
            if words[0] == "end":
                last.ended = at
                continue
            if last is not None:
                last.next_began = at
            last = Run(at)
            runs[" ".join(words[1:3])].append(last)
    return runs


def allowed_runs(job, crashes, runs, deaths):
    """How often this job may have run in total."""
    number = number_of(job)
    allowed = 1 + crashes - sum(number in death.recorded for death in deaths)
    for death in deaths:
        allowed += number in death.unfinished and any(run.is_unanswered(death.at) for run in runs)
    return allowed
