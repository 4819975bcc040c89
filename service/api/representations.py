"""Feedforward tables as JSON, CSV or bare float32, and the choice between them.

The functions that encode are for a thread: a table of a minute holds some hundred thousand numbers.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import numpy as np
from fastapi import Depends, Header, HTTPException, Query, Response
from numpy.typing import NDArray

from service.api.conditional import not_modified
from service.api.models import TableSummary
from service.errors import NotFoundError
from service.storage.tables import FeedforwardTableRow


class TableFormat(StrEnum):
    """Representations of a table."""

    JSON = "json"
    CSV = "csv"
    BINARY = "binary"


class TableQuantity(StrEnum):
    """What the bare float32 array holds."""

    TORQUE = "torque"
    CURRENT = "current"


MEDIA_TYPES: Mapping[TableFormat, str] = {
    TableFormat.JSON: "application/json",
    TableFormat.CSV: "text/csv",
    TableFormat.BINARY: "application/octet-stream",
}
"""In order of preference where the client has none."""


def choose_format(asked: TableFormat | None, accept: str) -> TableFormat:
    """Return the format asked for by name, else the best that Accept allows (RFC 9110, 12.5.1).

    Raises
    ------
    HTTPException
        406 when the header allows none of them.
    """
    if asked is not None:
        return asked
    ranges = _media_ranges(accept or "*/*")
    quality = {kind: _quality(media, ranges) for kind, media in MEDIA_TYPES.items()}
    best = max(quality, key=lambda kind: quality[kind])  # the first of equals
    if quality[best] <= 0.0:
        raise HTTPException(
            406, f"a table can be had as {', '.join(MEDIA_TYPES.values())}, none of which {accept!r} allows"
        )
    return best


def etag_of(table: FeedforwardTableRow, form: TableFormat, quantity: TableQuantity) -> str:
    """Return a strong entity tag: it differs between tables and between representations of one."""
    part = f"-{quantity}" if form is TableFormat.BINARY else ""
    return f'"{table.version}-{table.digest}-{form}{part}"'


def encode(
    table: FeedforwardTableRow, described: Mapping[str, Any], form: TableFormat, quantity: TableQuantity
) -> bytes:
    """Return the table in the format; ``described`` are its facts as JSON holds them.

    Raises
    ------
    NotFoundError
        The current of a table that was built without drive gains.
    """
    if form is TableFormat.BINARY:
        return _column_bytes(table, quantity)
    torque = _matrix(table, table.torque)
    current = None if table.current is None else _matrix(table, table.current)
    if form is TableFormat.CSV:
        return _csv(table.cycle_time, torque, current)
    numbers = {
        "torque": _shortest(torque),
        "current": None if current is None else _shortest(current),
    }
    return json.dumps({**described, **numbers}, allow_nan=False).encode()


@dataclass(frozen=True)
class Representation:
    """Which representation of a table a request selects, and which ones its client has."""

    form: TableFormat
    quantity: TableQuantity
    if_none_match: str | None

    def not_modified(self, table: FeedforwardTableRow) -> Response | None:
        """Return the 304 for a client that has this table so, else None."""
        return not_modified(etag_of(table, self.form, self.quantity), self.if_none_match)

    def represent(self, table: FeedforwardTableRow) -> Response:
        """Return the table as it is wanted; errors as of `encode`. For a thread."""
        described = TableSummary.model_validate(table).model_dump(mode="json")
        body = encode(table, described, self.form, self.quantity)
        return Response(
            body,
            media_type=MEDIA_TYPES[self.form],
            headers={
                "ETag": etag_of(table, self.form, self.quantity),
                "Vary": "Accept",
                "Cache-Control": "no-cache",
                "Dynid-Shape": f"{table.samples},{table.n_joints}",
                "Dynid-Cycle-Time": f"{table.cycle_time:.9g}",
                "Dynid-Version": str(table.version),
                "Dynid-CRC32": str(zlib.crc32(body) if self.form is TableFormat.BINARY else table.crc32),
            },
        )


def _wanted(
    format: Annotated[TableFormat | None, Query(description="Takes precedence over the Accept header.")] = None,
    quantity: Annotated[TableQuantity, Query(description="What the bare array holds.")] = TableQuantity.TORQUE,
    accept: Annotated[str, Header()] = "*/*",
    if_none_match: Annotated[str | None, Header()] = None,
) -> Representation:
    return Representation(choose_format(format, accept), quantity, if_none_match)


Wanted = Annotated[Representation, Depends(_wanted)]


def _column_bytes(table: FeedforwardTableRow, quantity: TableQuantity) -> bytes:
    if quantity is TableQuantity.TORQUE:
        return table.torque
    if table.current is None:
        raise NotFoundError(
            f"table {table.id} has no current: it was built without drive gains",
            code="table-without-current",
            id=table.id,
        )
    return table.current


def _matrix(table: FeedforwardTableRow, data: bytes) -> NDArray[np.float32]:
    return np.frombuffer(data, dtype="<f4").reshape(table.samples, table.n_joints)


def _csv(cycle_time: float, torque: NDArray[np.float32], current: NDArray[np.float32] | None) -> bytes:
    """Times with the torques and currents at them; nine digits bring every float32 back exactly."""
    joints = range(1, torque.shape[1] + 1)
    names = ["time [s]", *(f"torque {j} [N.m]" for j in joints)]
    blocks = [np.arange(torque.shape[0])[:, None] * cycle_time, torque]
    if current is not None:
        names += [f"current {j} [A]" for j in joints]
        blocks.append(current)
    line = ",".join(["%.9g"] * len(names))
    rows = (line % tuple(row) for row in np.hstack(blocks).tolist())
    return ("\r\n".join([",".join(names), *rows]) + "\r\n").encode("ascii")


def _shortest(values: NDArray[np.float32]) -> list[list[float]]:
    """Numbers as lists, with the nine digits that single precision has, not the double's seventeen."""
    return [[float(f"{value:.9g}") for value in row] for row in values.tolist()]


def _media_ranges(accept: str) -> list[tuple[str, float]]:
    ranges = []
    for part in accept.split(","):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        quality = 1.0
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip().lower() == "q":
                try:
                    quality = float(value)
                except ValueError:
                    quality = 0.0
        if media:
            ranges.append((media.lower(), quality))
    return ranges


def _quality(media: str, ranges: list[tuple[str, float]]) -> float:
    """Quality of the most specific range that covers ``media``."""
    for covering in (media, media.split("/", maxsplit=1)[0] + "/*", "*/*"):
        for given, quality in ranges:
            if given == covering:
                return quality
    return 0.0
