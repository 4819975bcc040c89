"""The COMAN source's iteration: segment after segment, each designed on top of those before it.

The rows of segments 1..k-1 stay stacked above those of segment k; random restarts, kept when the criterion
falls, until 15 in a row did not help. What the source minimised with a general solver is minimised here by the
interior-point method.
"""

from __future__ import annotations

from core.excitation.interior_point import FROM_AFAR, POLISH, descend
from core.excitation.search import Search

RESTARTS = 15


def search_segment(referee: Search) -> None:
    """Restart until 15 restarts in a row did not improve the segment, or time is up."""
    without_a_fall = 0
    while without_a_fall < RESTARTS and not referee.over():
        before = referee.best_value
        referee.offer(descend(referee, referee.random_start(), (*FROM_AFAR, *POLISH)))
        without_a_fall = 0 if referee.best_value < before else without_a_fall + 1
