"""Draws queues and their jobs: options in every combination, handlers of 0 to 2 ms, at full speed."""

import json
import random
import subprocess

from rig.producers import Producer, Push

# The pools of drawn queues: their strategies and numbers of workers. A worker with one slot prefetches several tasks, so few
# are enough.
POOLS = {"quick-one": ("loop", 1), "quick-three": ("loop", 3), "quick-spare": ("spare", 2), "quick-cgi": ("cgi", 3), "quick-exec": ("exec", 3)}
DEPTH = 150  # jobs in flight in a queue above which none is pushed to it
DEPTH_OF_PROCESSES = 25  # the same for pools that need a process for each job
BURST = 40  # maximum number of jobs pushed to a queue at once
PAUSE = 0.05  # maximum number of seconds between two bursts
TRIES = [1, 1, 2, 3]
BACKOFF = [[0], [1, 5], [20, 80]]  # ms
FAULTS = [(), (), ("throw",), ("release",), ("throw", "release"), ("ack",), ("ack", "throw")]


# Keys of a queue that do not affect what the ledgers check.
UNCHECKED_KEYS = ("weight", "limit", "per_key", "age_step", "keep_payloads", "keep_results")


class Queue:
    """The options of one queue, most of them drawn as in the simulation."""

    def __init__(self, dice, number, drawn):
        self.name = f"drawn-{number}"
        # Half of the queues run at full speed.
        self.pool = dice.choice([*sorted(POOLS), "quick-one", "quick-three", "quick-three"])
        strategy, _ = POOLS[self.pool]
        self.is_of_programs = strategy in ("cgi", "exec")
        self.depth = DEPTH if strategy == "loop" else DEPTH_OF_PROCESSES
        keys, self.pushes = drawn["keys"], drawn["pushes"]
        self.unchecked_keys = "".join(f"{key} = {keys[key]}\n" for key in UNCHECKED_KEYS if key in keys)
        self.ordered = keys.get("ordered") == "true"
        self.once = keys.get("ack") == '"delivery"' or dice.random() < 0.3  # acknowledged on delivery
        self.tries = dice.choice(TRIES)
        self.backoff = dice.choice(BACKOFF)
        self.faults = dice.choice(FAULTS)
        # A job that acknowledges itself early lets the next job of its key begin. Programs without the SDK can't do that.
        if self.ordered or self.is_of_programs:
            self.faults = tuple(fault for fault in self.faults if fault != "ack")
        self.slow = dice.random() < 0.4  # handlers of 0 to 2 ms; otherwise 0, which leads to the most prefetching

    def config(self):
        backoff = json.dumps([f"{ms}ms" for ms in self.backoff])
        ack = "delivery" if self.once else "done"
        return (
            f'[queue.{self.name}]\npool = "{self.pool}"\nack = "{ack}"\nordered = {str(self.ordered).lower()}\n'
            f"tries = {self.tries}\nbackoff = {backoff}\n{self.unchecked_keys}"
        )

    def push(self, n, dice):
        how = dice.choice(self.faults) if self.faults and dice.random() < 0.1 else None
        fail = dice.randint(1, 3) if how in ("throw", "release") else 0
        # A release counts as a run, so it must not use the last allowed run: that would be a failure.
        if how == "release" and fail >= self.tries:
            how = "throw"
        drawn = dice.choice(self.pushes)
        # Enough different keys that not all jobs wait for the same one.
        unique = f"{self.name}-{drawn['unique']}-{dice.randint(1, 5)}" if drawn["unique"] else None
        return Push(
            n,
            self.name,
            ms=round(dice.uniform(0, 2), 2) if self.slow else 0,
            fail=fail,
            how=how or "throw",
            tries=self.tries,
            sends_tries=False,
            key=drawn["key"],
            unique=unique,
            idempotent=unique is not None or drawn["idempotent"],
            priority=3 if self.ordered else drawn["priority"],
            delay_ms=min(50, drawn["delay_ms"] or 0),
            once=self.once,
            in_order=self.ordered,
        )


def queues(seed, simulation):
    """`simulation`: the program that also draws queues for the simulation of the server."""
    dice = random.Random(f"{seed}/queues")
    drawn = subprocess.run([simulation, "--draw", str(dice.randrange(1 << 32))], capture_output=True, check=True, text=True)
    return [Queue(dice, number, queue) for number, queue in enumerate(json.loads(drawn.stdout))]


class Quick(Producer):
    """Pushes bursts to the drawn queues."""

    def __init__(self, name, seed, socket, books, flags, queues):
        super().__init__(name, seed, socket, books, flags)
        self.queues = queues

    def fresh(self, already):
        self.flags.abandon.wait(self.dice.uniform(0, PAUSE))
        if already > 200 or self.flags.flood.is_set():
            return []
        made = []
        for queue in self.dice.sample(self.queues, self.dice.randint(1, len(self.queues))):
            wanted = min(self.dice.randint(1, BURST), queue.depth - self.books.on_their_way(queue.name))
            for _ in range(max(0, wanted)):
                made.append(self.books.number(lambda n, queue=queue: queue.push(n, self.dice)))
        return made
