"""Jobs that record when they ran (php/clocked.php), for benchmarks that compare shares and waiting times."""

import struct
import tempfile
from pathlib import Path

from . import processes
from .brokers import PHP, Stoker

RECORD = struct.Struct(">QQQ")  # number, start, end: ns of the monotonic clock


class Clocked:
    """A Stoker whose workers run clocked jobs, and the times that these recorded."""

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
        """The number of jobs that have ended. Reading it costs the server nothing."""
        return sum(file.stat().st_size for file in self.times.iterdir()) // RECORD.size

    def wait(self, jobs, seconds):
        processes.wait_for(f"{jobs} jobs", lambda: self.ran() >= jobs, seconds=seconds, every=0.02)

    def wait_for_small(self, jobs, first, seconds=60):
        """Waits until `jobs` jobs with numbers from `first` on have ended."""

        def are_there():
            return sum(number >= first for number, _, _ in self.records()) >= jobs

        processes.wait_for(f"{jobs} jobs", are_there, seconds=seconds, every=0.2)

    def records(self):
        """Returns (number, start, end) of all jobs, sorted by start."""
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
