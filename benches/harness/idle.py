"""The cost of an idle server: memory of angel and server, and how often they wake up."""

import time

from . import processes
from .brokers import Stoker
from .report import Result

SETTLE_SECONDS = 3


# The bars are for a server whose jobs are in memory; the results with the durable store are printed beside them.
STORES = [("memory", "", 4, 14, 10), ("sqlite", ", durable", None, None, None)]


def run(options, folder):
    if not options.binary:
        return
    options.say(f"idle: {options.idle_seconds} s with each store")
    for store, label, *bars in STORES:
        yield from measure(store, label, bars, options, folder)


def measure(store, label, bars, options, folder):
    anonymous = Result(f"idle, angel and server: anonymous{label}", "MB", bar=bars[0])
    resident = Result(f"idle, angel and server: RSS in sum{label}", "MB", bar=bars[1])
    switches = Result(f"idle, angel and server: context switches{label}", "/minute", bar=bars[2])
    with Stoker(folder, None, 0, options.binary, store=store) as broker:
        time.sleep(SETTLE_SECONDS)
        pids = broker.pids()
        before = processes.context_switches(pids)
        time.sleep(options.idle_seconds)
        woken = processes.context_switches(pids) - before
        switches.stoker.append(woken * 60 / options.idle_seconds)
        anonymous_kb, resident_kb = processes.memory_kb(pids)
        anonymous.stoker.append(anonymous_kb / 1024)
        resident.stoker.append(resident_kb / 1024)
        for pid in pids:
            one = processes.memory_kb([pid])
            anonymous.details[str(len(anonymous.details))] = {
                "anonymous_kb": one[0],
                "rss_kb": one[1],
                "threads": len(processes.threads(pid)),
            }
    switches.note = f"{len(pids)} processes, {woken} in {options.idle_seconds} s"
    return [anonymous, resident, switches]
