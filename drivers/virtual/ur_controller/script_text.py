"""Cuts the stream of a script port into programs and single commands."""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_PROGRAM = 1 << 20
_END = re.compile(rb"^end[ \t\r]*$", re.MULTILINE)
_PROGRAM = (b"def ", b"sec ")


class ProgramTooLong(Exception):  # noqa: N818 - says what happened
    """A program, or a line, exceeds what a controller would take."""


class ScriptSplitter:
    """Collects bytes until a program (to its ``end`` in the first column) or a line is complete."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> Iterator[str]:
        """Yield each program or line completed by ``data``.

        Raises
        ------
        ProgramTooLong
            More than ``MAX_PROGRAM`` bytes came without an end.
        """
        self._buffer = (self._buffer + data).lstrip()
        while self._buffer:
            if self._buffer.startswith(_PROGRAM):
                found = _END.search(self._buffer)
                # the line of "end" itself has to be complete: "end" may be the head of "endless"
                cut = -1 if found is None else self._buffer.find(b"\n", found.end())
            else:
                cut = self._buffer.find(b"\n")
            if cut < 0:
                if len(self._buffer) > MAX_PROGRAM:
                    raise ProgramTooLong(f"no end within {MAX_PROGRAM} bytes")
                return
            text, self._buffer = self._buffer[:cut], self._buffer[cut + 1 :].lstrip()
            yield text.decode("utf-8", errors="replace")
