"""The limits of the disk: a job is safe when fdatasync has returned, and no program can be faster than that."""

import os
import sqlite3
import subprocess
import time
from pathlib import Path
from statistics import median

from .clocked import quantile

BLOCK = b"\1" * 4096


def sync_ms(folder, times=200):
    """Returns the median and the 99th percentile of appending a page and waiting for the disk."""
    path, took = Path(folder, "sync"), []
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        for _ in range(times):
            start = time.perf_counter()
            os.write(file, BLOCK)
            os.fdatasync(file)
            took.append((time.perf_counter() - start) * 1e3)
    finally:
        os.close(file)
        path.unlink()
    return median(took), quantile(took, 0.99)


def commit_ms(folder, times=200):
    """Like `sync_ms`, for committing one row to SQLite, which syncs once."""
    path, took = Path(folder, "commit.db"), []
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode = wal")
        db.execute("PRAGMA synchronous = full")
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, body BLOB)")
        for _ in range(times):
            start = time.perf_counter()
            db.execute("INSERT INTO t (body) VALUES (?)", (BLOCK[:512],))
            took.append((time.perf_counter() - start) * 1e3)
    finally:
        db.close()
        path.unlink()
    return median(took), quantile(took, 0.99)


def is_memory(folder):
    """Whether the folder is in memory, where durable results are meaningless."""
    found = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=False).stdout.strip()
    return found in ("tmpfs", "ramfs")
