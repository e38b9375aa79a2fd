"""Checks frame.h against the golden vectors: `make check`. Argument: the program built from vectors.c.

The benchmark programs read frames that a server has already checked, so frame.h must reject only those invalid vectors
whose lengths do not add up; it does not check names and metadata.
"""

import json
import subprocess
import sys
from pathlib import Path

VECTORS = Path(__file__).resolve().parents[2] / "sdk" / "conformance" / "frames.json"
LENGTH_FAULTS = {"too_short", "too_long", "overrun"}
LONGEST = 64 * 1024


def expected(frame, hex):
    name = len(frame["name"].encode())
    body = len(frame["body_hex"]) // 2
    meta = len(hex) // 2 - 20 - name - body
    fields = [frame[key] for key in ("type", "flags", "code", "prio", "id", "ttl", "attempt")]
    return " ".join(str(field) for field in [*fields, name, meta, body]) + " " + hex[:40]


def main():
    vectors = json.loads(VECTORS.read_text())
    cases = [
        (v["name"], v["hex"], expected(v["frame"], v["hex"]))
        for v in vectors["valid"] + vectors["decode_only"]
        if "body_hex" in v["frame"] and len(v["hex"]) // 2 <= LONGEST
    ]
    cases += [(v["name"], v["hex"], "refused") for v in vectors["invalid"] if v["error"] in LENGTH_FAULTS]
    found = subprocess.run(
        [sys.argv[1]], input="".join(hex + "\n" for _, hex, _ in cases), capture_output=True, text=True, timeout=30
    ).stdout.splitlines()
    wrong = [(name, want, got) for (name, _, want), got in zip(cases, found, strict=True) if want != got]
    for name, want, got in wrong:
        print(f"{name}: expected '{want}', got '{got}'")
    print(f"{len(cases)} vectors, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
