"""Small mistakes that can be made in a Rust source. Each has a file, a line, a description and the new text of the file."""
import hashlib
import re

# Patterns in a line of code, and what replaces each of them.
SWAPS = [
    (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r" == ", " != "), (r" != ", " == "),
    (r" && ", " || "), (r" \|\| ", " && "), (r" \+ ", " - "), (r" - ", " + "), (r" \+= ", " -= "), (r" -= ", " += "),
    (r"\btrue\b", "false"), (r"\bfalse\b", "true"), (r"(?<![\w!])!(?=[a-z(])", ""), (r"\.is_some\(\)", ".is_none()"),
    (r"\.is_none\(\)", ".is_some()"), (r"\.min\(", ".max("), (r"\.max\(", ".min("), (r"saturating_add\(", "saturating_sub("),
    (r"saturating_sub\(", "saturating_add("), (r"\.first\(\)", ".last()"), (r"\.pop_front\(", ".pop_back("),
    (r"\.push_back\(", ".push_front("), (r"\.is_empty\(\)", ".len() == 1"),
]
# A statement that may be left out: it has an effect, and its value is not used.
STATEMENT = re.compile(r"^(\s+)(?!let |return|use |const |assert|debug_assert|if |for |while |match |loop|\}|\.)[\w*(].*")
CONDITION = re.compile(r"^(\s*(?:\} else )?if )(?!let )(.+)( \{)$")
GUARD = re.compile(r"^(\s*(?:return|continue|break)\b.*;)$")


def of(path, text):
    """All mutants of a source, as (line, description, new text)."""
    lines = text.split("\n")
    end = next((at for at, line in enumerate(lines) if line.startswith("#[cfg(test)]")), len(lines))
    found = []
    for at in range(end):
        code = lines[at].split("//")[0].rstrip()
        if not code.strip() or code.lstrip().startswith(("#", "use ", "mod ", "pub(crate) const", "const ", "assert")):
            continue
        for what, count, new in of_line(lines, at, code):
            changed = "\n".join(lines[:at] + new + lines[at + count:])
            found.append((at + 1, what, changed))
    return found


def of_line(lines, at, code):
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', lambda quoted: "\0" * len(quoted.group()), code)
    for pattern, replacement in SWAPS:
        for hit in re.finditer(pattern, outside):
            new = code[:hit.start()] + replacement + code[hit.end():]
            yield f"{hit.group().strip()} becomes {replacement.strip() or 'nothing'}", 1, [new]
    condition = CONDITION.match(code)
    if condition:
        yield "the condition is negated", 1, [f"{condition[1]}!({condition[2]}){condition[3]}"]
    if GUARD.match(code):
        yield "the early end is left out", 1, []
    count = statement(lines, at)
    if count:
        yield "the statement is left out", count, []


def statement(lines, at):
    """The number of lines of the statement that begins here; 0 if there is none that may be left out."""
    if not STATEMENT.match(lines[at]) or not begins(lines, at):
        return 0
    depth = 0
    for count, line in enumerate(lines[at:at + 30], 1):
        code = re.sub(r'"(?:[^"\\]|\\.)*"', "", line.split("//")[0])
        depth += sum(code.count(letter) for letter in "([{") - sum(code.count(letter) for letter in ")]}")
        if depth < 0:
            return 0
        if depth == 0 and code.rstrip().endswith(";"):
            return count
        if depth == 0 and code.rstrip().endswith((",", "}", "=>")):
            return 0
    return 0


def begins(lines, at):
    """Whether a statement may begin here, because the line before it ended a statement or opened a block."""
    before = [line.split("//")[0].rstrip() for line in lines[:at]]
    before = [line for line in before if line.strip()]
    return bool(before) and before[-1].endswith((";", "{", "}"))


def draw(seed, sources, equivalent=frozenset()):
    """All mutants of these sources except the equivalent ones, as (path, line, description, new text), in an order that comes
    from the seed. The place of a mutant in this order does not depend on other code."""
    found, seen = [], {}
    for path, text in sorted(sources.items()):
        lines = text.split("\n")
        for line, what, new in of(path, text):
            name = (path, what, lines[line - 1].strip())
            seen[name] = seen.get(name, 0) + 1
            place = hashlib.sha256(repr((seed, name, seen[name])).encode()).digest()
            if name not in equivalent:
                found.append((place, (path, line, what, new)))
    return [mutant for _, mutant in sorted(found)]


def equivalent(path):
    """The mutants that this list names. They change nothing that can be observed."""
    lines = [line.split(" | ") for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return frozenset((path, what, code) for path, what, code, _ in lines)
