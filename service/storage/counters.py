"""Named numbers that only ever grow."""

from __future__ import annotations

from sqlalchemy.orm import Session

from service.storage.tables import CounterRow


def next_value(session: Session, name: str) -> int:
    """Return the next number of the counter, from 1; never again the same, also after a restart."""
    row = session.get(CounterRow, name, with_for_update=True)
    if row is None:
        row = CounterRow(name=name, value=0)
        session.add(row)
    row.value += 1
    session.flush()
    return row.value
