"""Which answers campaign/sites.py allows to a request, given its site's options and what happened meanwhile."""

import collections
import json
import zlib

from . import site_http
from .site_draw import FRONT_CONTROLLED, KB, seconds, size

SLACK_S = 0.25  # between what happens and when it is noticed here
SPOOLED = 64 * KB  # a larger body is in a file
LARGE_ANSWER = 128 * KB
MIN_GOOD = 0.2  # the share of requests that must be answered, whatever limits are drawn


class Timeline:
    """What was done to Stoker, and the configurations that it has had."""

    def __init__(self):
        self.faults, self.settings = [], []

    def fault(self, kind, began, ended):
        self.faults.append((kind, began, ended))

    def during(self, request, *kinds, before=0.0):
        """How many faults happened while a request was open, or up to `before` seconds earlier."""
        began, ended = request.began - SLACK_S - before, request.ended + SLACK_S
        return sum(kind in kinds and start <= ended and end >= began for kind, start, end in self.faults)

    def recent(self, began, *kinds):
        """Whether one of these faults happened since, or shortly before."""
        return any(kind in kinds and end >= began - 5 for kind, _, end in self.faults)

    def configured(self, snapshot, began):
        self.settings.append([snapshot, began, float("inf")])

    def replaced(self, ended):
        """The last configuration is in force; requests that were open then may still follow an earlier one."""
        for setting in self.settings[:-1]:
            setting[2] = min(setting[2], ended)

    def of(self, request):
        """The configurations that a request may have met."""
        return [snapshot for snapshot, began, ended in self.settings if began <= request.ended and ended >= request.began - SLACK_S]


class Judge:
    def __init__(self, load, timeline, draw):
        self.load, self.timeline, self.draw = load, timeline, draw
        self.requests = sorted(load.done, key=lambda request: request.began)
        self.counts = collections.Counter()
        self.by_site = collections.defaultdict(list)
        for request in self.requests:
            self.by_site[request.site].append(request)

    def broken(self, runs):
        """What is wrong: a list of lines. `runs` are the numbers of the requests that scripts have begun to answer."""
        found = [f"{request}: {wrong}" for request in self.requests if (wrong := self._wrong(request))]
        counted = collections.Counter(runs)
        attempts = collections.Counter(request.number for request in self.requests)
        for request in self.requests:
            times = counted[request.number]
            if not self._may_repeat(request) and times > attempts[request.number]:
                found.append(f"{request}: it ran {times} times")
            if request.answer and request.answer.status in (405, 408, 411, 413, 421, 431) and times:
                found.append(f"{request}: it was refused and ran")
        return found + self._idle_judge()

    def _idle_judge(self):
        """A campaign in which nearly everything is refused proves nothing."""
        good, all_ = self.counts["good"], len(self.requests)
        return [f"only {good} of {all_} requests were answered: {dict(self.counts)}"] if good < max(20, MIN_GOOD * all_) else []

    def _may_repeat(self, request):
        # The adapter repeats it on another connection, if the upstream has closed the one that it had used before.
        return request.is_safe() and (self._is_idempotent(request) or self._strategies(request) & {"http"})

    def _is_idempotent(self, request):
        return any(snapshot["sites"][request.site]["idempotent"] is not False for snapshot in self.timeline.of(request))

    def _strategies(self, request):
        found = set()
        for snapshot in self.timeline.of(request):
            found.add(snapshot["pools"][snapshot["sites"][request.site]["pool"]]["strategy"])
        return found

    def _values(self, request, key):
        return [snapshot["sites"][request.site][key] for snapshot in self.timeline.of(request)]

    def _values_of_pool(self, request, key):
        return [value for snapshot in self.timeline.of(request) if (value := snapshot["pools"][snapshot["sites"][request.site]["pool"]][key])]

    def _wrong(self, request):
        """Why what happened to a request is not allowed, or None."""
        if isinstance(request.failure, site_http.Refused):
            return "the connection was refused"
        if request.leaves():
            self.counts["left"] += 1
            return None
        if isinstance(request.failure, TimeoutError):
            return "no answer"
        if request.failure:
            self.counts["cut"] += 1
            return None if self._may_be_cut(request) else "the answer was cut"
        code = request.answer.status
        if code < 400 and all(self._removed(request)):
            return "its site had been removed"
        if code == request.status:
            self.counts["good"] += 1
            return self._wrong_content(request)
        self.counts[code] += 1
        rule = getattr(self, f"_may_be_{code}", None)
        if rule is None:
            return f"status {code} instead of {request.status}"
        return None if rule(request) else f"status {code} for no reason"

    # What the answer has to contain.

    def _wrong_content(self, request):
        answer = request.answer
        if request.method == "HEAD" or answer.status in (400, 405, 413, 421, 431, 502):
            return "a body" if request.method == "HEAD" and answer.body else None
        if request.file is not None:
            first, last = request.range or (0, len(request.file) - 1)
            if answer.body != request.file[first : last + 1]:
                return "other bytes than in the file"
            expected = f"bytes {first}-{last}/{len(request.file)}"
            if request.range and answer.headers and answer.headers.get("content-range") != expected:
                return f"content-range {answer.headers.get('content-range')} instead of {expected}"
            return None
        if answer.body.endswith(b"\nasked to end"):
            is_asked = self.timeline.during(request, "reload", "boots fail") or self._values_of_pool(request, "max_age")
            return None if is_asked else "it was asked to end for no reason"
        text, end, sum_ = answer.body[:-8], answer.body[-9:-8], answer.body[-8:]
        if end != b"\n" or f"{zlib.crc32(text):08x}".encode() != sum_:
            # The end of the connection is the end of an answer of php -S, also if its process was killed.
            if "http" in self._strategies(request) and self.timeline.during(request, "kill upstream"):
                return None
            return "it has another checksum: it was cut, or is mixed with another"
        return self._foreign(request, json.loads(text.partition(b"\n")[0]))

    def _foreign(self, request, seen):
        if seen["n"] != request.number:
            return f"the answer to request {seen['n']}"
        expected = {"method": request.method, "size": request.size, "sum": request.sum, "host": request.host}
        expected |= {"client": self.load.visitor_of(request), "scheme": request.scheme}
        wrong = {key: seen[key] for key, value in expected.items() if seen[key] != value}
        if seen["site"] not in (None, request.site):
            wrong["site"] = seen["site"]
        return f"the script saw {wrong} instead of {expected}" if wrong else None

    # Whether a refusal or a failure has a reason.

    def _late(self, request):
        """Whether the time in which the site has to answer is over."""
        return request.ended - request.began >= min(map(seconds, self._values(request, "timeout"))) - SLACK_S

    def _may_be_cut(self, request):
        # A client need not have noticed yet that its connection was reset.
        unused = request.began - (request.idle_from or request.began)
        if self.timeline.during(request, "kill gateway", before=unused) or self._was_idle(request):
            return True
        # Adapters send each part of an answer when they get it, so that it may be cut, too.
        if request.has_head and (request.kind in ("stream", "events") or self._strategies(request) & {*FRONT_CONTROLLED, "snapshot"}):
            return self._late(request) or self._has_lost_its_worker(request)
        return self._may_lack_memory(request)

    def _was_idle(self, request):
        """Whether the connection was closed because its client had taken too long for a handshake or a head. Times are those of the last check
        of all connections, and the machine may be busy."""
        least = min(seconds(self.draw.http[key]) for key in ("header_timeout", "idle_timeout"))
        since = request.idle_from or request.began
        return request.received == 0 and request.ended - since >= least / 2

    def _has_lost_its_worker(self, request):
        return bool(self.timeline.during(request, "kill worker", "kill server", "kill upstream"))

    def _removed(self, request):
        """Whether its site had been removed, in each configuration that the request may have met."""
        return [request.site in snapshot["removed"] for snapshot in self.timeline.of(request)]

    def _may_be_421(self, request):
        return any(self._removed(request))

    def _may_be_408(self, request):
        return request.write_pause > 0 and request.ended - request.began >= seconds(self.draw.http["body_timeout"]) - SLACK_S

    def _may_be_500(self, request):
        # For an adapter, the end of its upstream is an error of the request.
        if self._strategies(request) & {"fastcgi", "http"} and self.timeline.during(request, "kill upstream"):
            return True
        kills = self.timeline.during(request, "kill worker", "kill upstream")
        return kills >= min(pool["crash_budget"] or 3 for pool in self.draw.pools.values()) or (not request.is_safe() and self._may_lack_memory(request))

    def _may_be_502(self, request):
        if not self._has_lost_its_worker(request):
            return False
        must_be_repeated = request.is_safe() and self._is_idempotent(request)
        return not must_be_repeated or bool(self._strategies(request) & {"fastcgi", "http"} and self.timeline.during(request, "kill upstream"))

    def _may_be_503(self, request):
        if request.answer.headers and "retry-after" not in request.answer.headers:
            return False
        return self._late(request) or self._is_crowded(request) or self._may_lack_memory(request) or self._may_lack_spool(request)

    def _may_be_504(self, request):
        return self._late(request)

    def _beside(self, request, sites=None):
        """The requests that were open at the same time, of some sites or of all, including those whose clients had just left."""
        others = self.requests if sites is None else [other for site in sites for other in self.by_site[site]]
        return [other for other in others if other.began < request.ended and other.ended > request.began - 1 and other is not request]

    def _is_crowded(self, request):
        """Whether as many requests of the site were open as may wait, or one of its pool waited although the site bounds the wait. A
        request is also refused if its expected wait is longer than the site's timeout."""
        most = min((most for most in self._values(request, "max_waiting") if most), default=10_000)
        beside = self._beside(request, self._sites_of_pool(request))
        if len(self._beside(request, [request.site])) >= most or beside and any(self._values(request, "max_wait")):
            return True
        longest = max((other.ended - other.began for other in beside), default=0)
        return len(beside) * longest >= min(map(seconds, self._values(request, "timeout")))

    def _sites_of_pool(self, request):
        """The sites that may have shared a pool with the request's site."""
        found = set()
        for snapshot in self.timeline.of(request):
            sites = snapshot["sites"]
            found |= {name for name, site in sites.items() if site["pool"] == sites[request.site]["pool"]}
        return found

    def _may_lack_memory(self, request):
        open_ = [request, *self._beside(request)]
        return sum(len(other.body or b"") + max(other.fill, other.received) for other in open_) >= size(self.draw.http["max_memory"]) / 2

    def _may_lack_spool(self, request):
        if len(request.body or b"") <= SPOOLED:
            return False
        beside = self._beside(request, [request.site])
        large = [len(other.body or b"") for other in [request, *beside] if len(other.body or b"") > SPOOLED]
        answers = [other.fill for other in beside if other.fill >= LARGE_ANSWER]
        return sum(large) + sum(answers) >= size(self.draw.http["max_spool"])


