"""How often somebody may do something: a bucket of tokens for each."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

_MOST_KNOWN = 10_000
"""Who has not been seen for longest is forgotten beyond that, which only fills a bucket that nobody uses."""


class RateLimit:
    """Allows ``burst`` at once and ``per_second`` in the long run, for each name on its own."""

    def __init__(self, *, per_second: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = per_second, float(burst), clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when there were so many

    def allows(self, name: str) -> bool:
        """Take a token of ``name``; False when there is none."""
        now = self._clock()
        tokens, since = self._buckets.pop(name, (self._burst, now))
        tokens = min(self._burst, tokens + self._rate * (now - since))
        allowed = tokens >= 1.0
        self._buckets[name] = (tokens - 1.0 if allowed else tokens, now)
        if len(self._buckets) > _MOST_KNOWN:
            self._buckets.popitem(last=False)
        return allowed
