"""The declared map: its documents are those in the repository, and it fits Modbus."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import pytest

from service.modbus.documents import DOCUMENTS, main
from service.modbus.register_map import BLOCKS, RESULTS, Space

FOLDER = Path(__file__).parents[3] / "deploy" / "modbus"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_documents_are_those_of_the_code(name: str, tmp_path: Path) -> None:
    main(tmp_path)
    written = (tmp_path / name).read_text(encoding="utf-8")
    kept = (FOLDER / name).read_text(encoding="utf-8")
    assert kept == written, "run python -m service.modbus.documents deploy/modbus"


@pytest.mark.parametrize("space", Space)
def test_blocks_do_not_overlap_and_one_request_reads_each(space: Space) -> None:
    blocks = sorted((block for block in BLOCKS if block.space is space), key=lambda block: block.start)
    assert blocks
    assert all(block.registers <= 125 for block in blocks)
    assert all(first.start + first.registers <= second.start for first, second in pairwise(blocks))
    assert blocks[-1].start + blocks[-1].registers <= 0x10000


def test_the_most_significant_word_comes_first() -> None:
    assert RESULTS.encode({"table_crc": 0x12345678}) == [0x1234, 0x5678]
    assert RESULTS.encode({"table_cycle": 1.0}) == [0x3F80, 0x0000]
    registers = [0] * RESULTS.registers
    begin = RESULTS.address("table_cycle")
    registers[begin : begin + 2] = RESULTS.encode({"table_cycle": math.nan})
    assert math.isnan(RESULTS.decode(registers, "table_cycle"))
