"""HTTP on the wire: uvicorn's protocol on a parser in C, with a limit that it does not have by itself."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST_HEAD = 64 * 1024
"""Bytes of one request's line and headers, which come before anybody is asked for a key."""


class LimitedHttp(HttpToolsProtocol):
    """Refuses a request whose head does not end within `LONGEST_HEAD`, and closes the connection."""

    _head = 0
    """Bytes received while a head is incomplete; what is left of the packet before it counts with it."""
    _in_head = True

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head += len(data)
        super().data_received(data)
        if self._in_head and self._head > LONGEST_HEAD and not self.transport.is_closing():
            self.send_400_response(f"The request's line and headers are longer than {LONGEST_HEAD} bytes.")

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._in_head = False

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head, self._head = True, 0
