from __future__ import annotations

import csv
import io
import json
import zlib

import numpy as np
import pytest
from fastapi import HTTPException

from service.api.conditional import not_modified
from service.api.representations import TableFormat, TableQuantity, choose_format, encode, etag_of
from service.errors import NotFoundError
from service.storage import FeedforwardTableRow, utc_now

TORQUE = np.random.default_rng(1).normal(scale=50.0, size=(7, 3)).astype("<f4")


def table(*, current: bool = True) -> FeedforwardTableRow:
    return FeedforwardTableRow(
        id="fft_1",
        robot="arm",
        version=3,
        result_id="res_1",
        trajectory_id="trj_1",
        cycle_time=0.002,
        samples=7,
        n_joints=3,
        crc32=zlib.crc32(TORQUE.tobytes()),
        digest="d1",
        torque=TORQUE.tobytes(),
        current=(TORQUE / 10).astype("<f4").tobytes() if current else None,
        document={},
        created_at=utc_now(),
    )


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", TableFormat.JSON),
        ("*/*", TableFormat.JSON),
        ("text/csv", TableFormat.CSV),
        ("text/*", TableFormat.CSV),
        ("application/octet-stream", TableFormat.BINARY),
        ("application/json;q=0.1, text/csv;q=0.5", TableFormat.CSV),
        ("*/*, application/json;q=0", TableFormat.CSV),
        ("text/html, application/*;q=0.2", TableFormat.JSON),
        ("application/json;q=nonsense, text/csv;q=0.1", TableFormat.CSV),
    ],
)
def test_format_follows_the_accept_header(accept: str, expected: TableFormat) -> None:
    assert choose_format(None, accept) is expected


def test_name_of_the_format_wins_and_what_cannot_be_had_is_refused() -> None:
    assert choose_format(TableFormat.CSV, "application/json") is TableFormat.CSV
    with pytest.raises(HTTPException) as caught:
        choose_format(None, "image/png, */*;q=0")
    assert caught.value.status_code == 406


def test_all_formats_bring_every_float32_back_exactly() -> None:
    row = table()
    from_json = json.loads(encode(row, {"id": "fft_1"}, TableFormat.JSON, TableQuantity.TORQUE))
    assert from_json["id"] == "fft_1"
    np.testing.assert_array_equal(np.array(from_json["torque"], "<f4"), TORQUE)
    text = encode(row, {}, TableFormat.CSV, TableQuantity.TORQUE).decode()
    header, *lines = csv.reader(io.StringIO(text))
    assert header[:2] == ["time [s]", "torque 1 [N.m]"]
    assert header[4:] == ["current 1 [A]", "current 2 [A]", "current 3 [A]"]
    columns = np.array(lines, float)
    np.testing.assert_allclose(columns[:, 0], np.arange(7) * 0.002)
    np.testing.assert_array_equal(columns[:, 1:4].astype("<f4"), TORQUE)
    np.testing.assert_array_equal(columns[:, 4:].astype("<f4"), (TORQUE / 10).astype("<f4"))
    assert encode(row, {}, TableFormat.BINARY, TableQuantity.TORQUE) == TORQUE.tobytes()
    assert encode(row, {}, TableFormat.BINARY, TableQuantity.CURRENT) == row.current


def test_table_without_gains_has_no_current() -> None:
    row = table(current=False)
    assert json.loads(encode(row, {}, TableFormat.JSON, TableQuantity.TORQUE))["current"] is None
    assert encode(row, {}, TableFormat.CSV, TableQuantity.TORQUE).splitlines()[0].count(b",") == 3
    with pytest.raises(NotFoundError) as caught:
        encode(row, {}, TableFormat.BINARY, TableQuantity.CURRENT)
    assert caught.value.code == "table-without-current"


def test_entity_tags_differ_between_representations() -> None:
    tags = {etag_of(table(), form, quantity) for form in TableFormat for quantity in TableQuantity}
    assert len(tags) == 4  # only the bare array depends on the quantity
    assert all(tag.startswith('"') and tag.endswith('"') for tag in tags)


@pytest.mark.parametrize(
    ("header", "unchanged"),
    [(None, False), ('"a"', True), ('W/"a"', True), ('"b", "a"', True), ("*", True), ('"b"', False), ("a", False)],
)
def test_if_none_match(header: str | None, unchanged: bool) -> None:
    response = not_modified('"a"', header)
    assert (response is not None) is unchanged
    if response is not None:
        assert (response.status_code, response.headers["etag"]) == (304, '"a"')
