"""Threads that push jobs and record the responses."""

import collections
import json
import random
import struct
import threading
import time

from harness.wire import META_QUEUE, JSON, REQ, RES, Client, WireError, pack

FAIRNESS, IDEMPOTENCY, DELAY, UNIQUE, TRIES, BACKOFF, UNTIL_START = 5, 6, 17, 18, 19, 20, 31
GOAWAY = 9
OK, IN_DOUBT, TAKEN, EXHAUSTED, UNAVAILABLE = 0, 2, 6, 8, 14
ANSWER_WITHIN = 30.0
# Jobs in flight in a queue above which producers pause. `deep` exceeds the number of jobs that the server loads per
# queue.
DEPTH = {"plain": 120, "deep": 700, "flaky": 40, "later": 60, "unique": 30, "once": 15, "wide": 200, "held": 12}
DEPTH_ORDERED = 120
KEYS = 30


class Push:
    """One push: its options, and what is known about it."""

    def __init__(self, n, queue, **what):
        self.n, self.queue = n, queue
        self.key = what.get("key")
        self.seq = what.get("seq")
        self.unique = what.get("unique")
        self.until_start = what.get("until_start", False)
        self.idempotent = what.get("idempotent", False)
        self.delay_ms = what.get("delay_ms", 0)
        self.priority = what.get("priority", 3)
        self.tries = what.get("tries", 1)
        self.sends_tries = what.get("sends_tries", self.tries != 1)  # otherwise its queue sets the number
        self.once = what.get("once", False)  # its queue acknowledges on delivery
        self.in_order = what.get("in_order", False)  # jobs of its key run in the order of their ids
        self.body = {"n": n, "ms": what.get("ms", 100), "fail": what.get("fail", 0), "how": what.get("how", "throw")}
        self.sent = None  # when it was first sent
        self.pad = None  # padding of its body, the same each time it is pushed
        self.accepted = None  # when a response with an id was read
        self.job = None
        self.refusals = 0
        self.doubts = 0  # times without a response, or with an unknown outcome
        self.taken = False
        self.ids = set()  # all ids that it was ever answered with

    @property
    def will_fail(self):
        return self.body["fail"] >= self.tries and not self.is_done_early

    @property
    def is_done_early(self):
        """Whether the job is done before its code has ended, and therefore runs at most once."""
        return self.once or self.body["how"] == "ack"

    def frame(self, id, pad):
        self.pad = pad if self.pad is None else self.pad

        def entry(key, value):
            return bytes([key, len(value)]) + value

        meta = entry(META_QUEUE, self.queue.encode())
        if self.key:
            meta += entry(FAIRNESS, self.key.encode())
        if self.idempotent:
            meta += entry(IDEMPOTENCY, f"push-{self.n}".encode())
        if self.delay_ms:
            meta += entry(DELAY, struct.pack(">Q", self.delay_ms))
        if self.unique:
            meta += entry(UNIQUE, self.unique.encode())
            meta += entry(UNTIL_START, b"") if self.until_start else b""
        if self.sends_tries:
            meta += entry(TRIES, struct.pack(">H", self.tries)) + entry(BACKOFF, struct.pack(">II", 20, 80))
        body = json.dumps(self.body | ({"pad": "x" * self.pad} if self.pad else {})).encode()
        return pack(REQ, code=JSON, prio=self.priority, id=id, name=b"stoker.push", meta=meta, body=body)


class Books:
    """The knowledge that all producers share."""

    def __init__(self, ledger):
        self.ledger = ledger
        self.lock = threading.Lock()
        self.pushes = {}  # by number
        self.accepted = 0
        self.accepted_of = collections.Counter()  # by queue
        self.refused = {}  # (status, first words) -> how often
        self.wrong = []  # violations, in words
        self.repeats = 0
        self.full = 0  # rejections that name a full disk
        self.mistyped = 0  # rejections for a full disk with another status than for an exceeded limit

    def number(self, make):
        with self.lock:
            push = make(len(self.pushes) + 1)
            self.pushes[push.n] = push
        self.ledger.about[push.n] = (push.queue, 1 if push.is_done_early else push.tries)
        return push

    def refusal(self, code, text):
        what = (code, text.split(": ")[0][:80])
        with self.lock:
            self.refused[what] = self.refused.get(what, 0) + 1

    def on_their_way(self, queue):
        return self.accepted_of[queue] - self.ledger.finals_of[queue]


class Producer(threading.Thread):
    """Pushes until it is stopped, and then until no push that may be repeated is in doubt."""

    def __init__(self, name, seed, socket, books, flags):
        super().__init__(name=name, daemon=True)
        self.dice = random.Random(f"{seed}/{name}")
        self.socket, self.books, self.flags = socket, books, flags
        self.client = None
        self.again = []  # pushes to repeat
        self.failure = None

    def run(self):
        try:
            while not (self.flags.stop.is_set() and not self.again) and not self.flags.abandon.is_set():
                self.turn()
        except Exception as error:  # any error ends the campaign
            self.failure = error
        finally:
            if self.client:
                self.client.socket.close()

    def turn(self):
        batch, self.again = self.again, []
        if not self.flags.stop.is_set():
            batch += self.fresh(len(batch))
        if not batch:
            self.flags.abandon.wait(0.005)
            return
        if not self.connect():
            self.again = batch
            self.flags.abandon.wait(0.005)
            return
        waiting = {}
        frames = bytearray()
        pad = 6_000 if self.flags.flood.is_set() else 0
        now = time.monotonic_ns()
        first = self.client._take_ids(len(batch))
        for id, push in enumerate(batch, first):
            waiting[id] = push
            push.sent = push.sent or now
            frames += push.frame(id, pad)
        refused = False
        try:
            self.client.socket.sendall(frames)
            while waiting:
                kind, code, id, body = self.client._read()
                if kind == RES and id in waiting:
                    refused |= self.answered(waiting.pop(id), code, body)
                elif kind == RES:
                    raise WireError(f"status {code}: {body.decode(errors='replace')}")
        except TimeoutError:
            self.books.wrong.append(f"no answer to a push within {ANSWER_WITHIN:g} s")
            self.lost_connection(waiting)
        except (OSError, WireError):
            self.lost_connection(waiting)
        if refused:
            self.flags.abandon.wait(0.02)

    def connect(self):
        if self.client is None:
            try:
                self.client = Client(self.socket, ANSWER_WITHIN)
            except (OSError, WireError):
                return False
        return True

    def lost_connection(self, waiting):
        self.client.socket.close()
        self.client = None
        for push in waiting.values():
            self.doubt(push)

    def doubt(self, push):
        push.doubts += 1
        # A push without an idempotency key stays in doubt, because it must not be repeated.
        if push.idempotent:
            self.again.append(push)

    def answered(self, push, code, body):
        """Returns True if the push was rejected."""
        books, text = self.books, body.decode(errors="replace")
        if code == OK:
            with books.lock:
                if push.accepted is None:
                    push.accepted, push.job = time.monotonic_ns(), text
                    books.accepted += 1
                    books.accepted_of[push.queue] += 1
            push.ids.add(text)
            # Sometimes a producer repeats a push although it knows the outcome.
            if push.idempotent and self.dice.random() < 0.03 and not self.flags.stop.is_set():
                books.repeats += 1
                self.again.append(push)
            return False
        if code == TAKEN and push.unique:
            push.taken = True
            return False
        books.refusal(code, text)
        if code == IN_DOUBT:
            self.doubt(push)
            return True
        with books.lock:
            if "disk is full" in text or "No space left" in text:
                books.full += 1
                books.mistyped += code != EXHAUSTED
            elif "can't write" in text:
                books.mistyped += code != UNAVAILABLE
        if code not in (EXHAUSTED, UNAVAILABLE):
            books.wrong.append(f"a push was refused with status {code}: {text}")
            return False
        push.refusals += 1
        if push.idempotent:
            self.again.append(push)
        return True


class Mixed(Producer):
    """Jobs of all kinds that need no order."""

    def fresh(self, already):
        flood = self.flags.flood.is_set()
        if already > 200:
            return []
        made = []
        for queue, depth in DEPTH.items():
            wanted = depth - self.books.on_their_way(queue) if not flood else 8
            for _ in range(min(self.dice.randint(0, 10), max(0, wanted))):
                made.append(self.books.number(lambda n, queue=queue: self.one(n, queue)))
        return made

    def one(self, n, kind):
        dice = self.dice
        ms = int(min(300, 4 + dice.expovariate(1 / 70)))
        if self.flags.flood.is_set() and dice.random() < 0.8:
            ms = 2  # the other jobs keep the workers busy
        idempotent = dice.random() < 0.6
        priority = dice.choice([3, 3, 3, 0, 5, 7])
        if kind == "later":
            return Push(n, kind, ms=ms, delay_ms=dice.randint(1, 1500), idempotent=idempotent, priority=priority)
        if kind == "flaky":
            fail, tries = dice.choice([(1, 2), (1, 3), (2, 3), (2, 4), (1, 0), (3, 3), (1, 1)])
            how = dice.choice(["throw", "release"]) if fail < tries or not tries else "throw"
            return Push(n, kind, ms=ms // 2, fail=fail, tries=tries or 1000, how=how, idempotent=idempotent)
        if kind == "unique":
            key = f"u{dice.randint(1, 60)}"
            # The key decides how long its job holds it: two modes for one key could not be judged.
            until_start = int(key[1:]) % 3 == 0
            return Push(n, kind, ms=ms, unique=key, until_start=until_start, idempotent=True)
        if kind == "wide":
            return Push(n, kind, ms=ms, key=f"t{dice.randint(1, 5)}", idempotent=idempotent)
        key = dice.choice([None, "a", "b"])
        return Push(n, kind, ms=ms, idempotent=idempotent, priority=priority, key=key, once=kind == "once")


class Ordered(Producer):
    """Jobs that must run in the order of their pushes: each is pushed when the one before it of its key is accepted."""

    def __init__(self, *args):
        super().__init__(*args)
        self.seqs = {f"k{number}": 0 for number in range(KEYS)}
        self.mine = 0
        self.pushed = []

    def fresh(self, already):
        self.pushed = [push for push in self.pushed if push.n not in self.books.ledger.finals]
        busy = {push.key for push in self.again} | {push.key for push in self.pushed if push.accepted is None}
        if already or len(self.pushed) > DEPTH_ORDERED:
            return []
        free = [key for key in self.seqs if key not in busy]
        keys = self.dice.sample(free, min(len(free), self.dice.randint(1, KEYS)))
        made = [self.books.number(lambda n, key=key: self.one(n, key)) for key in keys]
        self.pushed += made
        return made

    def one(self, n, key):
        self.seqs[key] += 1
        fail = 1 if self.dice.random() < 0.08 else 0
        return Push(
            n, "ordered", key=key, seq=self.seqs[key], ms=self.dice.randint(3, 100), tries=3, fail=fail, idempotent=True
        )


class Flags:
    def __init__(self):
        self.stop = threading.Event()  # push nothing new
        self.abandon = threading.Event()  # end at once
        self.flood = threading.Event()  # push large jobs, however many are waiting already


KINDS = [("ordered", Ordered), ("mixed-1", Mixed), ("mixed-2", Mixed)]
