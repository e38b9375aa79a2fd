"""The libraries that are preloaded into a server, and the shared file that makes a disk fail."""

import ctypes
import mmap
import shutil
import subprocess
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent
PAGES = 1 << 17
FOREVER = (1 << 32) - 1


def may_build():
    return shutil.which("cc") is not None


def build(folder, name):
    library = Path(folder) / f"{name}.so"
    command = ["cc", "-O2", "-shared", "-fPIC", "-o", library, SOURCES / f"{name}.c", "-ldl", "-pthread"]
    subprocess.run(command, check=True)
    return library


class Pages(ctypes.Structure):
    """`struct pages` of failing.c."""

    _fields_ = [
        ("number", ctypes.c_uint64),
        ("born", ctypes.c_uint64),
        ("dirty", ctypes.c_uint8 * PAGES),
        ("lost", ctypes.c_uint8 * PAGES),
    ]


class Control(ctypes.Structure):
    """`struct control` of failing.c."""

    _fields_ = [
        *((name, ctypes.c_uint32) for name in "syncs writes left stop_at counting calls".split()),
        *((name, ctypes.c_uint32) for name in "failed_syncs failed_writes synced_again".split()),
        ("stopped_at", ctypes.c_uint64),
        ("pages", Pages * 2),
    ]


class FailingDisk:
    """The failing disk under one store."""

    def __init__(self, folder, store):
        path = Path(folder) / "failing"
        path.write_bytes(bytes(ctypes.sizeof(Control)))
        with open(path, "r+b") as file:
            self.control = Control.from_buffer(mmap.mmap(file.fileno(), 0))
        self.env = {"FAILING_STORE": str(store), "FAILING_CONTROL": str(path)}

    def fail(self, syncs=0, writes=0, times=FOREVER):
        """From now on this many of a thousand calls fail."""
        control = self.control
        control.syncs, control.writes, control.left = syncs, writes, times

    def stop_at(self, call, counting):
        """The server stops itself at its call number `call`, counted from now (`counting` = 1) or from the first
        failure (0)."""
        control = self.control
        control.stop_at = control.calls = control.counting = control.stopped_at = 0
        control.stop_at, control.counting = call, counting

    def heal(self):
        control = self.control
        control.syncs = control.writes = control.left = control.stop_at = 0

    def power_was_cut(self):
        """After a power cut the next server reads what is on the disk, so no page is dirty or lost."""
        for pages in self.control.pages:
            ctypes.memset(pages.dirty, 0, PAGES)
            ctypes.memset(pages.lost, 0, PAGES)

    @property
    def failures(self):
        return self.control.failed_syncs + self.control.failed_writes
