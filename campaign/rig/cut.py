"""Simulates a power cut for a store: any change that no completed fsync covers may be missing.

`powercut.c` has logged these changes. All of them are undone first; then a random part is redone: nothing, the first
ones, or any of them, and of a write any of its sectors.
"""

import contextlib
import os
import struct
from pathlib import Path

RECORD = struct.Struct("=IIQQQQ")  # magic kind off len old_len old_size
MAGIC, WRITE, TRUNCATE, SYNCED, FAILED = 0x43757400, 1, 2, 3, 4
SECTOR = 512
SUFFIXES = {"db": "", "wal": "-wal", "journal": "-journal"}


def records(data):
    at = 0
    while at + RECORD.size <= len(data):
        magic, kind, off, length, old_len, old_size = RECORD.unpack_from(data, at)
        end = at + RECORD.size + old_len + length
        if magic != MAGIC or end > len(data):
            return  # the server died while writing this record; the change itself had not begun
        old = data[at + RECORD.size : at + RECORD.size + old_len]
        yield kind, off, old, data[end - length : end], old_size
        at = end


def cut(store, logs, dice):
    """Simulates a power cut. The store must not be open. Returns the number of unsynced writes and of lost ones."""
    store, logs = Path(store), Path(logs)
    unsynced = lost = 0
    bring_back(store, logs, dice)
    for name, suffix in SUFFIXES.items():
        log, file = logs / f"{name}.log", Path(f"{store}{suffix}")
        if log.exists():
            if file.exists():
                more, gone = cut_file(file, log.read_bytes(), dice)
                unsynced, lost = unsynced + more, lost + gone
            log.unlink()
    Path(f"{store}-shm").unlink(missing_ok=True)
    return unsynced, lost


def bring_back(store, logs, dice):
    """Restores old file names at random, because names reach the disk only with their folder."""
    names = logs / "folder.log"
    for line in names.read_text().splitlines() if names.exists() else []:
        what, name = line.split()
        file, kept = Path(f"{store}{SUFFIXES[name]}"), logs / f"{name}.unlinked"
        if what == "C" and dice.random() < 0.5:
            file.unlink(missing_ok=True)
        elif kept.exists() and (what == "R" or what == "U" and not file.exists()) and dice.random() < 0.5:
            os.replace(kept, file)
            (logs / f"{name}.log").unlink(missing_ok=True)
            with contextlib.suppress(FileNotFoundError):
                os.rename(logs / f"{name}.unlinked.log", logs / f"{name}.log")
    names.unlink(missing_ok=True)


def cut_file(file, log, dice):
    """Undoes all changes, then redoes the synced ones in order, and of the others those that survive."""
    changes = list(records(log))
    unsynced = lost = 0
    with open(file, "r+b") as handle:
        for kind, off, old, _, old_size in reversed(changes):
            if kind in (WRITE, TRUNCATE):
                handle.seek(off)
                handle.write(old)
            if kind == WRITE:
                handle.truncate(old_size)
        waiting = []
        for change in [*changes, (FAILED, 0, b"", b"", 0)]:
            if change[0] not in (SYNCED, FAILED):
                waiting.append(change)
                continue
            kept = [True] * len(waiting) if change[0] == SYNCED else choose(len(waiting), dice)
            for one, keep in zip(waiting, kept):
                make(handle, one, keep, dice)
            unsynced, lost = unsynced + (len(kept) if change[0] == FAILED else 0), lost + kept.count(False)
            waiting = []
    return unsynced, lost


def make(handle, change, keep, dice):
    kind, off, _, new, _ = change
    if kind == TRUNCATE and keep:
        handle.truncate(off)
    elif kind == WRITE and keep:
        write(handle, off, new, 1.0, dice)
    elif kind == WRITE and dice.random() < 0.1:
        write(handle, off, new, 0.5, dice)


def choose(count, dice):
    """Draws which changes survive."""
    how = dice.choice(["none", "first", "some", "most"])
    if how == "none":
        return [False] * count
    if how == "first":
        first = dice.randint(0, count)
        return [n < first for n in range(count)]
    share = 0.5 if how == "some" else 0.9
    return [dice.random() < share for _ in range(count)]


def write(handle, off, new, share, dice):
    """Writes each sector of the bytes with the probability `share`."""
    at = 0
    while at < len(new):
        end = min(len(new), (off + at) // SECTOR * SECTOR + SECTOR - off)
        if share >= 1.0 or dice.random() < share:
            handle.seek(off + at)
            handle.write(new[at:end])
        at = end
