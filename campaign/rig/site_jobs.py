"""Jobs of a pool whose strategy makes requests of them (cgi, fastcgi, http): they are pushed while everything else goes on."""

import collections
import json
import threading

from harness.wire import Client, WireError

QUEUE = "jobs"
PAUSE = 0.02  # the longest pause between two pushes in seconds
# How the first run of a job ends. Each later run is done.
ENDS = ("done", "done", "done", "done", "later", "busy", "fail", "refuse", "kill")
RUNS = collections.defaultdict(lambda: 2, done=1, refuse=1)
KILLS = ("kill worker", "kill upstream", "kill server")
# The maximum number of runs that one kill can interrupt, or whose ends the store did not know yet.
PER_KILL = 25


class Jobs(threading.Thread):
    """Pushes jobs until it is stopped, and knows how each has to end."""

    def __init__(self, random, draw, folder):
        super().__init__(daemon=True)
        self.random, self.draw, self.folder = random, draw, folder
        self.ends = threading.Event()
        self.accepted, self.doubtful = {}, set()
        (folder / "job-runs").write_text("")

    def run(self):
        number = 0
        while not self.ends.wait(self.random.uniform(0, PAUSE)):
            number += 1
            body, how = self._job(number)
            try:
                with Client(self.folder / "stoker.sock") as client:
                    client.push_one(QUEUE, body)
                self.accepted[number] = how
            except (OSError, WireError):
                # The server was killed, or does not answer for a while. The job may have been accepted.
                self.doubtful.add(number)

    def _job(self, number):
        # A process of php -S that was killed is not replaced.
        ends = [how for how in ENDS if how != "kill" or self.draw.task_pool["strategy"] != "http"]
        how, size = self.random.choice(ends), self.random.choice([0, 100, 100_000])
        job = {"n": number, "how": how, "ms": self.random.choice([0, 0, 5, 50]), "fill": "x" * size, "size": size}
        job["answer"] = self.random.choice([0, 10, 60_000, 200_000])
        return json.dumps(job).encode(), how

    def left(self):
        """Jobs that have not ended."""
        with Client(self.folder / "stoker.sock") as client:
            queues = client.call("stoker.queue", {"op": "list"})["queues"]
        return sum(queue[state] for queue in queues if queue["name"] == QUEUE and queue["kind"] == "jobs" for state in ("ready", "delayed", "running"))

    def broken(self, timeline):
        """What is wrong, when no job is left: a list of lines."""
        runs, ends = collections.Counter(), collections.defaultdict(set)
        for line in (self.folder / "job-runs").read_text().splitlines():
            number, what = line.split()
            if what == "begun":
                runs[int(number)] += 1
            else:
                ends[int(number)].add(what)
        found, surplus = [], 0
        kills = sum(kind in KILLS for kind, _, _ in timeline.faults)
        for number, how in self.accepted.items():
            last = "refuse" if how == "refuse" and "done" not in ends[number] else "done"
            if last not in ends[number]:
                found.append(f"job {number} ({how}) was accepted and has not ended as it should: {ends[number]}, {runs[number]} runs")
            surplus += max(0, runs[number] - RUNS[how])
        if surplus > kills * PER_KILL:
            found.append(f"{surplus} surplus runs of jobs, which {kills} kills do not explain")
        if unknown := set(runs) - set(self.accepted) - self.doubtful:
            found.append(f"runs of jobs that nobody has pushed: {sorted(unknown)[:5]}")
        return found
