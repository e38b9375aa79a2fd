"""Compares the ledgers: which jobs were accepted, which ran, and what the store reports about the others."""

from collections import defaultdict

from rig.ledger import number_of

MS = 1_000_000


def judge(trial, failed, counts):
    """`failed`: jobs that failed according to the store, id -> error class. Returns the figures and the violations."""
    return Judge(trial, failed, counts).judge()


class Judge:
    def __init__(self, trial, failed, counts):
        self.pushes = trial.books.pushes
        self.kills = trial.kills
        self.failed, self.counts = failed, counts
        self.wrong = list(trial.wrong) + list(trial.books.wrong)
        self.runs = defaultdict(list)  # by the number of the push
        for run in sorted(trial.ledger.runs, key=lambda run: run.began):
            self.runs[run.n].append(run)
        self.trial = trial
        self.figures = {}

    def judge(self):
        self.accounts()
        self.lost()
        self.duplicates()
        self.order()
        self.uniques()
        self.attempts()
        self.times()
        self.pauses()
        self.store_counts()
        return self.figures, self.wrong

    def say(self, text):
        self.wrong.append(text)

    def accounts(self):
        accepted = [push for push in self.pushes.values() if push.accepted]
        failed_numbers = set()
        by_job = {push.job: push for push in accepted}
        expected = quarantined = 0
        for job, error in self.failed.items():
            push = by_job.get(job) or self.push_of(job)
            if push is None:
                self.say(f"job {job} failed ({error}), but was pushed by nobody")
                continue
            failed_numbers.add(push.n)
            if error == "Quarantined" or "Died" in error or "Crash" in error:
                quarantined += 1
                self.earned(push, job)
            elif push.will_fail:
                expected += 1
            else:
                self.say(f"job {push.n} ({push.queue}) failed with {error}, but should have succeeded")
        self.failed_numbers = failed_numbers
        self.figures |= {
            "pushes": len(self.pushes),
            "accepted": len(accepted),
            "refused": sum(push.refusals for push in self.pushes.values()),
            "in_doubt": sum(push.doubts for push in self.pushes.values()),
            "repeated": self.trial.books.repeats,
            "done": sum(push.n in self.trial.ledger.done for push in accepted),
            "failed_as_told": expected,
            "quarantined": quarantined,
        }

    def push_of(self, job):
        for runs in self.runs.values():
            if any(run.job == job for run in runs):
                return self.pushes[runs[0].n]
        return None

    def earned(self, push, job):
        """A job in quarantine must have seen three deaths that may have been its own."""
        since = push.sent
        deaths = sum(not kill.graceful and kill.after is not None and kill.after >= since for kill in self.kills)
        if deaths < 3:
            self.say(f"job {push.n} ({job}) is in quarantine after {deaths} deaths")

    def lost(self):
        lost, stuck, once_cut, refused_and_ran = [], [], 0, 0
        deaths = sum(not kill.graceful for kill in self.kills)
        for push in self.pushes.values():
            runs = self.runs[push.n]
            ids = {run.job for run in runs} | push.ids
            # A job that was recorded as delivered but did not run before a shutdown is pushed again by the server.
            if len(ids) > (2 if push.once and len(runs) <= 1 else 1):
                self.say(f"push {push.n} ({push.queue}) made more than one job: {sorted(ids)}")
            if push.refusals and not push.accepted and not push.doubts and runs:
                refused_and_ran += 1
                self.say(f"push {push.n} ({push.queue}) was refused and ran")
            if push.taken and not push.accepted and runs and not push.doubts:
                self.say(f"push {push.n} was answered with another job, and ran")
            if not push.accepted or push.n in self.trial.ledger.done or push.n in self.failed_numbers:
                continue
            if push.is_done_early and self.may_be_cut(push, runs):
                once_cut += 1  # acknowledged, but its worker died before or while it ran
                continue
            if number_of(push.job) in self.trial.stuck:
                stuck.append(push)
            else:
                lost.append(push)
        if once_cut > deaths * 400:
            self.say(f"{once_cut} jobs of a queue that acknowledges on delivery never ended: more than can have run")
        early = {number for kill in self.kills for number in kill.lost}
        for what, push in [("LOST", push) for push in lost[:20]] + [("STUCK", push) for push in stuck[:20]]:
            self.say(
                f"{what}: push {push.n}, job {push.job} ({push.queue}), accepted at {push.accepted}, "
                f"runs {[(run.tag, run.attempt, run.outcome) for run in self.runs[push.n]]}"
            )
        found = {push.n for push in lost} | early
        self.figures |= {"lost": len(found), "once_cut": once_cut, "refused_and_ran": refused_and_ran}
        self.figures["mistyped_refusals"] = self.trial.books.mistyped

    def may_be_cut(self, push, runs):
        """Whether a job that is done before its end may have no run that ended well: its code failed, or a kill
        interrupted it or came between its acknowledgement and its start."""
        if runs:
            return any(run.cut or run.outcome == "failed" for run in runs)
        return push.once and any(not kill.graceful and (kill.after or 0) >= push.sent for kill in self.kills)

    def duplicates(self):
        duplicated = forbidden = 0
        for n, runs in self.runs.items():
            queue = self.pushes[n].queue
            if self.pushes[n].once and len(runs) > 1:
                forbidden += 1
                self.say(f"job {n} of a queue that acknowledges on delivery ({queue}) ran {len(runs)} times")
            acked = min((run.acked for run in runs if run.acked), default=1 << 63)
            if any(run.began > acked for run in runs):
                forbidden += 1
                self.say(f"job {n} ({queue}) ran again after it had been acknowledged")
            for at, run in enumerate(runs):
                earlier = [
                    past
                    for past in runs[:at]
                    if past.outcome == "done" or (past.outcome == "failed" and run.attempt <= past.attempt)
                ]
                if not earlier:
                    continue
                duplicated += 1
                for past in earlier:
                    if not any(self.allows(kill, past, run) for kill in self.kills):
                        forbidden += 1
                        self.say(
                            f"job {n} ({queue}, {run.job}) ran again, run {run.tag}, although run {past.tag} had "
                            f"ended ({past.outcome}) and no kill lay between its end and the store's knowing"
                        )
                        break
        allowed = sum(self.allowance(kill) for kill in self.kills)
        self.figures |= {"duplicated": duplicated, "allowed": allowed, "forbidden": forbidden}

    @staticmethod
    def allows(kill, past, run):
        if kill.graceful or kill.after is None or past.ended > kill.after or run.began < kill.before:
            return False
        if kill.last_runs is not None:
            return past.tag in kill.last_runs
        if kill.unfinished is not None:
            return kill.unfinished.get(past.number, 1 << 20) <= past.attempt
        return past.ended >= kill.before - kill.within

    def allowance(self, kill):
        """Counts the runs that had started at this kill, and whose outcome the store had not committed."""
        count = 0
        if kill.graceful:
            return 0
        for runs in self.runs.values():
            for run in runs:
                if run.began > kill.before or kill.after is None or run.cut not in (None, kill):
                    continue
                if kill.last_runs is not None:
                    count += run.tag in kill.last_runs
                elif kill.unfinished is not None:
                    seen = kill.unfinished.get(run.number)
                    count += seen is not None and seen <= run.attempt and run is self.last_before(runs, kill)
                else:
                    count += run.ended is None and run.cut is kill
                    count += run.ended is not None and kill.before - kill.within <= run.ended <= kill.after
        return count

    @staticmethod
    def last_before(runs, kill):
        return [run for run in runs if run.began <= kill.before][-1]

    def order(self):
        wrong = 0
        by_key = defaultdict(list)
        for push in self.pushes.values():
            if (push.seq or push.in_order) and push.accepted:
                by_key[push.queue, push.key].append(push)
        life = self.trial.ledger.life
        runs_of_keys = 0
        for key, pushes in by_key.items():
            if pushes[0].in_order:
                # Jobs of one key that are pushed again after a rejection are in another order than their pushes.
                pushes.sort(key=lambda push: number_of(push.job))
                for seq, push in enumerate(pushes, 1):
                    push.seq = seq
            pushes.sort(key=lambda push: push.seq)
            first_done = {
                push.seq: min((run.ended for run in self.runs[push.n] if run.outcome == "done"), default=None)
                for push in pushes
            }
            given_up = {push.seq for push in pushes if push.n in self.failed_numbers or push.once}
            runs = [(life.get(run.pid, 1 << 30), run.began, run, push.seq) for push in pushes for run in self.runs[push.n]]
            runs.sort(key=lambda entry: entry[:2])
            runs_of_keys += len(runs)
            highest, epoch, settled = 0, None, 0
            order = [push.seq for push in pushes]
            for now, _, run, seq in runs:
                if now != epoch:
                    # Jobs that had ended, but whose outcome was lost with the server, may run again, in order.
                    highest, epoch = 0, now
                while settled < len(order) and (
                    order[settled] in given_up or (first_done[order[settled]] or 1 << 63) <= run.began
                ):
                    settled += 1
                if seq < highest:
                    wrong += 1
                    self.say(f"order of {key}: {seq} began (run {run.tag}) after {highest} had")
                if settled < len(order) and order[settled] < seq:
                    wrong += 1
                    self.say(f"order of {key}: {seq} began (run {run.tag}) before {order[settled]} had ended")
                highest = max(highest, seq)
        self.figures |= {"ordered_runs": runs_of_keys, "order_violations": wrong}

    def uniques(self):
        wrong = 0
        by_key = defaultdict(list)
        for push in self.pushes.values():
            if push.unique and push.accepted:
                by_key[push.unique].append(push)
        for key, pushes in by_key.items():
            pushes.sort(key=lambda push: number_of(push.job))
            for push, after in zip(pushes, pushes[1:]):
                runs = self.runs[push.n]
                # A job that was sent to a worker counts as started, even if the worker died before the job's first
                # line.
                if not runs or (push.until_start and runs[0].crashes):
                    continue
                # A job counts as started when it is sent to its worker, which may be stopped or starved for a while. A
                # job that is acknowledged on delivery ends at that moment; one that acknowledges itself may end at any
                # time after it began.
                if push.until_start or push.once:
                    held = runs[0].began - 1_000 * MS
                elif push.is_done_early:
                    held = runs[0].began
                else:
                    held = max(run.ended or run.began for run in runs)
                if after.accepted < held:
                    wrong += 1
                    self.say(
                        f"unique key {key}: job {after.n} was accepted {(held - after.accepted) / MS:.1f} ms before "
                        f"job {push.n} {'began' if push.until_start else 'ended'}"
                    )
        self.figures["unique_violations"] = wrong

    def attempts(self):
        """A run that was not ended by the job's code does not count as an attempt; a graceful restart counts as nothing at all."""
        burned = interrupted = 0
        deaths = [kill for kill in self.kills if not kill.graceful and kill.after is not None]
        for n, runs in self.runs.items():
            crashes, since = 0, self.pushes[n].sent
            for at, run in enumerate(runs):
                ended = sum(past.outcome is not None for past in runs[:at])
                if run.attempt > ended:
                    burned += 1
                    self.say(f"job {n}: run {run.tag} is said to be attempt {run.attempt} after {ended} that ended")
                between = sum(kill.hits for kill in deaths if kill.after >= since and kill.before <= run.began)
                if run.crashes - crashes > between:
                    burned += 1
                    self.say(f"job {n}: run {run.tag} is said to have crashed {run.crashes} times, {between} deaths lay between")
                crashes, since = run.crashes, run.began
                if run.cut is not None and run.cut.graceful:
                    interrupted += 1
                    self.say(f"job {n}: a graceful restart cut run {run.tag} off")
                if run.outcome is None and run.cut is None:
                    self.say(f"job {n}: run {run.tag} neither ended nor was it cut off")
        self.figures |= {"burned_attempts": burned, "interrupted_gracefully": interrupted}

    def times(self):
        early = 0
        for push in self.pushes.values():
            runs = self.runs[push.n]
            if push.delay_ms and runs and runs[0].began < push.sent + (push.delay_ms - 2) * MS:
                early += 1
                self.say(f"job {push.n} began {push.delay_ms - (runs[0].began - push.sent) / MS:.1f} ms too early")
        self.figures["early"] = early

    def pauses(self):
        wrong = 0
        for since, until in self.trial.paused:
            for push in self.pushes.values():
                if push.queue == "held":
                    for run in self.runs[push.n]:
                        # Tasks that a worker already had when the queue was paused may still begin.
                        if since + 1_500 * MS < run.began < until:
                            wrong += 1
                            self.say(f"job {push.n} began {(run.began - since) / MS:.0f} ms after its queue was paused")
        self.figures["paused_runs"] = wrong

    def store_counts(self):
        """The store's own counters must agree with the ledgers: every job that ended was counted once."""
        known = set()
        for push in self.pushes.values():
            known |= push.ids | {run.job for run in self.runs[push.n]}
        counted = self.counts["done"] + self.counts["failed"] + self.counts["cancelled"]
        self.figures |= {"jobs_known": len(known), "jobs_counted": counted}
        # A push without a response may have made a job that was acknowledged on delivery and never ran.
        unknown = sum(
            push.once and push.doubts > 0 and not push.ids and not self.runs[push.n]
            for push in self.pushes.values()
        )
        if not len(known) <= counted <= len(known) + unknown:
            self.say(f"the store counts {counted} ended jobs, the ledgers know {len(known)}")
