"""The register map as CSV and Markdown: ``python -m service.modbus.documents deploy/modbus`` writes both."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from service.modbus.register_map import BLOCKS, MAP_VERSION, WINDOW_BLOCKS, WINDOW_FLOATS, Block

_COLUMNS = ("address", "registers", "name", "type", "count", "access", "unit", "meaning")


_INTRODUCTION = f"""\
Made from `service/modbus/register_map.py` by `python -m service.modbus.documents deploy/modbus`; do not edit.

Addresses are those of the protocol and count from 0 (what some tools call 30001 and 40001 is address 0). Each register
is big endian; `u32` and IEEE 754 `f32` take two, the most significant word first (ABCD). A `f32` that is not available
is NaN. Functions: 4 for input registers; 3, 6, 16, 22 and 23 for holding registers; other known ones are answered with
exception 1, addresses outside the map and writes to what is only read with exception 2, units that are not configured
with exception 11.

The service answers one request after the other on a connection: send the next one after the answer. A single request is
never torn. Who reads a block in several requests compares `seq_begin` with `seq_end`.

To read a feedforward table: write `select_row` and `select_quantity` of a window that no other client uses, and read
the window, or do both at once with function 23. Row k is due k times `table_cycle` after the start of the motion; a
window shows as many whole rows as {WINDOW_FLOATS} values hold. To read all of the table, go on by `rows` until the last
row. The pages are of one table when `row` and `quantity` are what was written, and `version` and `crc` are the same in
all of them; if not, a newer table came meanwhile, or another client uses the window: begin again. The CRC-32 (IEEE
802.3) of the values received, as little endian float32, has to be `crc`."""


def _rows(block: Block) -> Iterator[tuple[str, ...]]:
    for field in block.fields:
        yield (
            str(block.address(field.name)),
            str(field.registers),
            field.name,
            str(field.kind),
            str(field.count),
            "read, write" if field.writable else "read",
            field.unit,
            field.meaning,
        )


def as_csv() -> str:
    """Return one line per field of every block."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("block", "space", *_COLUMNS))
    for block in BLOCKS:
        writer.writerows((block.name, str(block.space), *row) for row in _rows(block))
    return text.getvalue()


def as_markdown() -> str:
    """Return the map for people."""
    first, second = WINDOW_BLOCKS[:2]
    parts = [f"# Modbus register map, version {MAP_VERSION}", _INTRODUCTION]
    for block in BLOCKS:
        if block in WINDOW_BLOCKS[1:]:
            continue
        title = f"Window n, n = 0 to {len(WINDOW_BLOCKS) - 1}" if block is first else block.name.capitalize()
        parts.append(f"## {title}")
        end = block.start + block.registers - 1
        where = f"{block.space.capitalize()} registers {block.start} to {end}"
        shifted = (
            f" for window 0; those of window n are {second.start - first.start} n higher" if block is first else ""
        )
        parts.append(f"{where}{shifted}. {block.meaning}")
        rows = [_COLUMNS, ("---",) * len(_COLUMNS), *_rows(block)]
        parts.append("\n".join(f"| {' | '.join(row)} |" for row in rows))
    return "\n\n".join(parts) + "\n"


DOCUMENTS: Mapping[str, Callable[[], str]] = {"register_map.csv": as_csv, "register_map.md": as_markdown}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in DOCUMENTS.items():
        (folder / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
