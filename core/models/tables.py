"""Tables of a model file that know where they stand, so that a complaint can say it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import ModelError

Array = NDArray[np.float64]
Problem = Callable[[ArrayLike], str | None]
"""Says what is wrong with numbers, if anything is."""


class Table:
    """A table that knows where it stands, and which of its keys nobody has asked for."""

    def __init__(self, values: Mapping[str, Any], source: str, where: str) -> None:
        self.values = values
        self.source = source
        self.where = where
        self.known: set[str] = set()

    def error(self, problem: str, key: str | None = None) -> ModelError:
        element = ".".join(part for part in (self.where, key) if part)
        place = f"{self.source}: {element}" if element else self.source
        return ModelError(f"{place}: {problem}", path=self.source, element=element)

    def get(self, key: str) -> Any:
        self.known.add(key)
        return self.values.get(key)

    def text(self, key: str, *, among: Sequence[str] = (), default: str | None = None) -> str:
        value = self.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or not value:
            raise self.error("a text is missing", key)
        if among and value not in among:
            raise self.error(f"{value!r} is none of {', '.join(among)}", key)
        return value

    def number(self, key: str, *, default: float | None = None, problem: Problem | None = None) -> float:
        value = self.get(key)
        if value is None and default is not None:
            return default
        number = self._finite(value, key)
        self._refuse(key, number, problem)
        return number

    def vector(
        self, key: str, size: int, *, default: Sequence[float] | None = None, problem: Problem | None = None
    ) -> Array:
        value = self.get(key)
        if value is None and default is not None:
            return np.array(default, dtype=np.float64)
        if not isinstance(value, list) or len(value) != size:
            raise self.error(f"needs {size} numbers", key)
        numbers = np.array([self._finite(number, key) for number in value])
        self._refuse(key, numbers, problem)
        return numbers

    def array(self, key: str, shape: tuple[int, int]) -> Array:
        """Return a matrix given row by row."""
        rows = self.get(key)
        if not isinstance(rows, list) or len(rows) != shape[0]:
            raise self.error(f"needs {shape[0]} rows of {shape[1]} numbers", key)
        table = Table({f"{key}[{i}]": row for i, row in enumerate(rows)}, self.source, self.where)
        return np.array([table.vector(row, shape[1]) for row in table.values])

    def bound(self, key: str) -> float:
        """Return the largest size that something may have: not negative, infinite if nothing is said."""
        value = self.number(key, default=math.inf)
        if value < 0:
            raise self.error("is negative", key)
        return value

    def bounds(self, key: str) -> tuple[float, float]:
        """Return the least and the largest value that something may have; infinite if nothing is said."""
        if self.get(key) is None:
            return -math.inf, math.inf
        lower, upper = self.vector(key, 2)
        if lower > upper:
            raise self.error(f"the lower limit, {lower:g}, is above the upper one, {upper:g}", key)
        return float(lower), float(upper)

    def _refuse(self, key: str, value: ArrayLike, problem: Problem | None) -> None:
        said = problem(value) if problem else None
        if said:
            raise self.error(said, key)

    def _finite(self, value: object, key: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            problem = "a number is missing" if value is None else f"{value!r} is not a finite number"
            raise self.error(problem, key)
        return float(value)

    def table(self, key: str) -> Table | None:
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error("is not a table", key)
        return Table(value, self.source, f"{self.where}.{key}" if self.where else key)

    def tensor(self, key: str) -> Array | None:
        """Return a symmetric (3, 3) tensor given as { xx, yy, zz, xy, xz, yz }, the last three zero by default."""
        entries = self.table(key)
        if entries is None:
            return None
        tensor = np.zeros((3, 3))
        for row, column in ("xx", "yy", "zz", "xy", "xz", "yz"):
            i, j = "xyz".index(row), "xyz".index(column)
            tensor[i, j] = tensor[j, i] = entries.number(row + column, default=0.0 if i != j else None)
        entries.finish()
        return tensor

    def tables(self, key: str) -> list[Table]:
        """Return the tables of an array of tables, at least one."""
        values = self.get(key)
        if not isinstance(values, list) or not values or not all(isinstance(value, dict) for value in values):
            raise self.error(f"needs at least one [[{key}]] table", key)
        return [Table(value, self.source, f"{key}[{i}]") for i, value in enumerate(values, start=1)]

    def finish(self) -> None:
        unknown = sorted(set(self.values) - self.known)
        if unknown:
            raise self.error(f"unknown key {unknown[0]!r}; there are {', '.join(sorted(self.known))}")


def all_or_none(tables: Sequence[Table], key: str) -> Array | None:
    """Return one number per table, or nothing if none of them has the key."""
    given = [table.get(key) is not None for table in tables]
    if not any(given):
        return None
    if not all(given):
        raise tables[given.index(False)].error(
            "is missing, though other joints have it; give it for all or for none", key
        )
    return np.array([table.number(key) for table in tables])
