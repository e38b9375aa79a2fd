"""Results of benchmarks, their bars, and the verdicts."""

import json
from dataclasses import asdict, dataclass, field
from statistics import median


@dataclass
class Result:
    """One line of the table. `ratio_bar` and `bar` are the maximum (or, where more is better, the minimum) allowed."""

    name: str
    unit: str
    stoker: list = field(default_factory=list)
    reference: list = field(default_factory=list)
    more_is_better: bool = False
    floor: float | None = None  # the reference must reach this, or it was disturbed and the ratio would flatter
    ratio_bar: float | None = None
    bar: float | None = None
    note: str = ""
    details: dict = field(default_factory=dict)

    def stoker_median(self):
        return median(self.stoker) if self.stoker else None

    def reference_median(self):
        return median(self.reference) if self.reference else None

    def ratios(self):
        """One ratio per pair, because a disturbance usually affects both measurements of a pair."""
        if self.ratio_bar is None and self.floor is None:
            return []  # the reference is only shown, not compared with
        return [s / r for s, r in zip(self.stoker, self.reference) if r]

    def ratio(self):
        return median(self.ratios()) if self.ratios() else None

    def floor_reached(self):
        if self.floor is None or not self.reference:
            return True
        return self._within(self.reference_median(), self.floor)

    def verdict(self):
        verdicts = []
        if self.ratio_bar is not None and self.ratios():
            if not self.floor_reached():
                verdicts.append("refused")
            else:
                verdicts.append("ok" if self._within(self.ratio(), self.ratio_bar) else "MISSED")
        if self.bar is not None and self.stoker:
            verdicts.append("ok" if self._within(self.stoker_median(), self.bar) else "MISSED")
        for worst in ("refused", "MISSED", "ok"):
            if worst in verdicts:
                return worst
        if not self.floor_reached():
            return "refused"
        return ""

    def _within(self, value, limit):
        return value >= limit if self.more_is_better else value <= limit

    def as_json(self):
        return asdict(self) | {
            "stoker_median": self.stoker_median(),
            "reference_median": self.reference_median(),
            "ratio": self.ratio() if self.floor_reached() else None,
            "verdict": self.verdict(),
        }

    def cells(self):
        sign = "≥" if self.more_is_better else "≤"
        bars = [f"{sign} {self.ratio_bar:g}×"] if self.ratio_bar is not None else []
        bars += [f"{sign} {_number(self.bar)}"] if self.bar is not None else []
        ratio = "" if self.ratio() is None else f"{self.ratio():.2f}×"
        if not self.floor_reached():
            ratio = f"refused: floor {_number(self.floor)}"
        return [
            self.name,
            self.unit,
            _number(self.reference_median()),
            _number(self.stoker_median()),
            ratio,
            ", ".join(bars),
            self.verdict(),
            self.note,
        ]


HEAD = ["what", "unit", "reference", "stoker", "ratio", "bar", "", "note"]


def table(results):
    rows = [HEAD] + [result.cells() for result in results]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def write(path, results, machine):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"machine": machine, "results": [result.as_json() for result in results]}, indent=1)
    path.write_text(text + "\n")


def _number(value):
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.1f}"
