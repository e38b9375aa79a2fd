"""Puts many changes into one program: it contains several versions of each function that a change touches, and the number in
the environment variable PLANTED says which version runs. So a hundred bugs need one build."""
import re
import subprocess

import tree

# This code is added to each crate of the copy.
SWITCH = """
/// Whether the change with this number is active.
pub(crate) fn planted(number: usize) -> bool {
    static ACTIVE: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    let read = || std::env::var("PLANTED").map_or(0, |text| text.parse().unwrap_or(0));
    *ACTIVE.get_or_init(read) == number
}
"""
FUNCTION = re.compile(r"^( *)(?:pub(?:\([^)]*\))? )?(?:async )?fn \w")
ERROR = re.compile(r"^error.*\n +--> ([^:\n]+):(\d+):", re.MULTILINE)


def parts(text):
    """Splits a source into pieces: every second piece is the body of a function, the others are the text in between."""
    pieces, indent, end = [[]], None, None
    for line in text.splitlines():
        begun = FUNCTION.match(line) if end is None and indent is None else None
        indent = begun[1] if begun else indent
        if line == end:
            pieces.append([])
            end = None
        pieces[-1].append(line)
        if indent is not None and line.endswith(("{", ";", "}")):
            if line.endswith("{"):
                end = indent + "}"
                pieces.append([])
            indent = None
    return pieces


def weave(path, changed):
    """Merges these changed versions of a source, by number, into one text. Returns the text, and for each of its lines the
    numbers of the changes that the line may come from."""
    old = parts((tree.ROOT / path).read_text())
    news = {number: parts(text) for number, text in changed.items()}
    lines, owners = [], []

    def put(some, numbers):
        lines.extend(some)
        owners.extend([numbers] * len(some))

    for at, piece in enumerate(old):
        others = {number: new[at] for number, new in news.items() if new[at] != piece}
        for number, body in others.items():
            put([f"if crate::planted({number}) {{", *body, "} else"], {number})
        put(["{", *piece, "}"] if others else piece, set(others))
    return "\n".join(lines) + "\n", owners


def build(changes, command):
    """Puts all these changes into the copy and builds it with this command. `changes` has, for each number, a dictionary of
    files with their new texts. Returns the numbers of the changes that the build contains: those that can't be woven or do
    not compile are left out."""
    paths = {path for files in changes.values() for path in files}
    kept = {number for number, files in changes.items() if all(is_woven(path, new) for path, new in files.items())}
    while True:
        owners = {path: put(path, {number: changes[number][path] for number in kept if path in changes[number]}) for path in paths}
        done = subprocess.run(command, cwd=tree.TREE, capture_output=True, text=True)
        if done.returncode == 0:
            return kept
        errors = ERROR.findall(done.stderr.replace(f"{tree.TREE}/", ""))
        failed = {number for path, line in errors for number in responsible(owners.get(path, []), int(line) - 1)}
        if not failed & kept:
            raise SystemExit(f"the copy can't be built: {errors} {done.stderr[-2000:]}")
        kept -= failed


def is_woven(path, new):
    """Whether the new text differs from the source only in the bodies of functions, and belongs to a library."""
    return library_of(path) not in (None, path) and parts(new)[::2] == parts((tree.ROOT / path).read_text())[::2]


def put(path, changed):
    """Writes a source with these changes, by number, into the copy. Returns for each line the numbers of the changes that the
    line may come from."""
    text, owners = weave(path, changed)
    tree.put(path, text.encode())
    if library := library_of(path):
        tree.put(library, (tree.ROOT / library).read_bytes() + SWITCH.encode())
    return owners


def library_of(path):
    """The root file of the library that a source belongs to, if it belongs to one."""
    found = re.match(r"(crates/[^/]+/src/).", path)
    library = found and found[1] + "lib.rs"
    return library if library and (tree.ROOT / library).exists() else None


def responsible(owners, line):
    """The numbers of the changes that a line comes from. If it comes from none, all changes of the file are to blame."""
    changes = owners[line] if line < len(owners) else set()
    return changes or set().union(*owners)


def restore(changes):
    """Restores all files of these changes from the sources."""
    for path in {path for files in changes.values() for path in files}:
        tree.restore(path)
        if library_of(path):
            tree.restore(library_of(path))
