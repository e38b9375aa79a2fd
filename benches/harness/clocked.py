"""Jobs that write down when they ran (php/clocked.php): of those that compare who got what, and how long it waited."""

import struct
import tempfile
from pathlib import Path

from . import processes
from .brokers import PHP, Stoker

RECORD = struct.Struct(">QQQ")  # number, start, end: ns of the monotonic clock


class Clocked:
    """A Stoker whose workers run such jobs, and what they wrote down."""

    def __init__(self, options, folder, workers, **more):
        self.times = Path(tempfile.mkdtemp(dir=folder))
        self.options = options
        self.broker = Stoker(folder, ["php", PHP / "clocked.php", self.times], workers, options.binary, **more)
        self.socket = self.broker.socket

    def __enter__(self):
        self.broker.__enter__()
        return self

    def __exit__(self, *error):
        self.broker.__exit__(*error)

    def ran(self):
        """How many jobs have ended. Costs the broker nothing."""
        return sum(file.stat().st_size for file in self.times.iterdir()) // RECORD.size

    def wait(self, jobs, seconds):
        processes.wait_for(f"{jobs} jobs", lambda: self.ran() >= jobs, seconds=seconds, every=0.02)

    def wait_for_small(self, jobs, first, seconds=60):
        """Until so many jobs with numbers from `first` on have ended."""

        def are_there():
            return sum(number >= first for number, _, _ in self.records()) >= jobs

        processes.wait_for(f"{jobs} jobs", are_there, seconds=seconds, every=0.2)

    def records(self):
        """(number, start, end) of all jobs, by their start."""
        found = []
        for file in self.times.iterdir():
            data = file.read_bytes()
            found += RECORD.iter_unpack(data[: len(data) // RECORD.size * RECORD.size])
        found.sort(key=lambda record: record[1])
        return found


def body(number, microseconds):
    return b"%d %d" % (number, microseconds)


def quantile(values, share):
    """The smallest value that at least this share of all do not exceed."""
    values = sorted(values)
    return values[min(len(values) - 1, max(0, -int(-share * len(values) // 1) - 1))]
