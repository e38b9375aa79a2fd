#!/usr/bin/env python3
"""Checks the links of every Markdown page: the file has to exist, and so has the heading that an anchor names.

    docs/links.py

Paths such as `docs/guides/jobs.md` are checked in sources (SOURCES) too. Addresses of other sites are not.
"""

import functools
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)\s]+)\)")
MENTION = re.compile(r"\bdocs/[\w./-]*\w\.(?:md|json|py)\b")
SOURCES = {".c", ".h", ".md", ".php", ".py", ".rs"}
CODE = re.compile(r"^(```|~~~).*?^\1$", re.MULTILINE | re.DOTALL)


def tracked():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


@functools.cache
def anchors(page):
    """The names that GitHub gives to the headings of a page."""
    found, seen = set(), {}
    for heading in re.findall(r"^#+ +(.+?) *#*$", CODE.sub("", page.read_text()), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        seen[name] = seen.get(name, -1) + 1
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
    return found


def broken(page):
    """The links of a page that lead nowhere."""
    for target in LINK.findall(CODE.sub("", page.read_text())):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            yield f"{target}: no such file"
        elif anchor and (file.suffix != ".md" or anchor not in anchors(file)):
            yield f"{target}: no such heading"


def stale(file):
    """The paths of documents that a file mentions, and that do not exist."""
    for name in MENTION.findall(file.read_text()):
        if not (ROOT / name).exists():
            yield f"{name}: no such file"


def main():
    files = tracked()
    pages = [file for file in files if file.suffix == ".md"]
    links = [(page, problem) for page in pages for problem in broken(page)]
    mentions = [(file, problem) for file in files if file.suffix in SOURCES for problem in stale(file)]
    for file, problem in links + mentions:
        print(f"{file.relative_to(ROOT)}: {problem}", file=sys.stderr)
    sys.exit(1 if links or mentions else 0)


if __name__ == "__main__":
    main()
