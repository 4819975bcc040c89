"""Tables of figures over seeds, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Section:
    """One part of the report: rows of a table, then remarks."""

    title: str
    introduction: str
    headings: Sequence[str] = ("", "measured, mean ± spread over seeds", "published")
    rows: list[Sequence[str]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def add(self, what: str, values: Sequence[float], published: str = "", digits: int = 3) -> None:
        self.rows.append((what, spread(values, digits), published))

    def markdown(self) -> str:
        rows = [self.headings, ["---"] * len(self.headings), *self.rows]
        table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
        remarks = "".join(f"\n- {remark}" for remark in self.remarks)
        return f"## {self.title}\n\n{self.introduction}\n\n{table}\n{remarks}\n"


def spread(values: Sequence[float], digits: int = 3) -> str:
    mean, deviation = float(np.mean(values)), float(np.std(values))
    return f"{mean:.{digits}g} ± {deviation:.2g}" if len(values) > 1 else f"{mean:.{digits}g}"


def change(before: Sequence[float], after: Sequence[float]) -> list[float]:
    """Return per cent, seed by seed."""
    return [100.0 * (b / a - 1.0) for a, b in zip(before, after, strict=True)]
