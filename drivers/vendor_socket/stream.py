"""Acquisition that loses nothing: every frame becomes a sample, and those that are missing are counted."""

from __future__ import annotations

import select
import socket
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.streaming.samples import SampleBlock
from drivers.contract import ControllerInfo, ControllerState, DriverError, DriverProtocolError
from drivers.sequence import SequenceCounter
from drivers.vendor_socket.commands import CommandChannel
from drivers.vendor_socket.connection import context, lost, open_connection
from drivers.vendor_socket.feedback_layout import BinaryFeedback, Sequence
from drivers.vendor_socket.frames import FrameCounts, FrameParser, Frames
from drivers.vendor_socket.json_frames import JsonFrameParser
from drivers.vendor_socket.layout import Layout
from drivers.vendor_socket.samples import SampleMaker
from drivers.vendor_socket.ticks import FrameTicks, StampTicks

TOGETHER = 0.004  # s of samples that are read at once where they come faster
RECEIVE_BYTES = 1 << 18
LONGEST_WAIT = 0.02  # s for that many bytes
SHOWN_BYTES = 40  # of what was not understood
STRANGE_BYTES = 1 << 16  # without a single frame among them
NOTICE_PERIOD = 1.0  # s between two notices of damaged frames


class FeedbackReader:
    """A `drivers.contract.SampleSource` for the feedback that a layout describes.

    Parameters
    ----------
    host : address of the controller.
    layout : its protocol.
    """

    def __init__(self, host: str, layout: Layout) -> None:
        self.host = host
        self._layout = layout
        self._port = layout.feedback.port
        self._maker = SampleMaker(layout)
        self._counter = SequenceCounter(layout.rate_hz)
        self._frame_ticks, self._stamp_ticks = _ticks_of(layout)
        self.counts = FrameCounts()
        """What was read and skipped, over all connections."""
        self._parser = self._new_parser()
        self._socket: socket.socket | None = None
        self._poll = select.poll()
        self._received = 0  # bytes of this connection
        self._known = False  # it has shown a frame
        self._last_time = 0  # ns of this host, of the last frame
        self._newest: tuple[Any, int] | None = None  # frame and status
        self._notices: list[str] = []
        self._told = 0  # damaged frames
        self._told_at = 0.0

    def connect(self) -> ControllerInfo:
        """Connect, let the feedback begin where it has to be asked for, ask who it is.

        Raises
        ------
        DriverUnreachable, DriverTimeout, ConnectionLost, ControllerNotReady
        """
        self.close()
        self._parser = self._new_parser()
        self._received, self._known = 0, False
        self._counter.new_connection()
        self._socket = open_connection(self.host, self._port, "feedback")
        self._socket.setblocking(False)
        self._expect_together(self._socket)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        if self._layout.feedback.stamp is None and self._layout.feedback.sequence is None:
            self._notices.append(f"{self._where}: its frames have no time and no number; losses cannot be counted")
        if not self._layout.confirmed:
            self._notices.append(
                f"{self._where}: layout '{self._layout.name}' is to be confirmed with the vendor's document"
            )
        try:
            return self._ask()
        except DriverError:
            self.close()
            raise

    def read(self, timeout: float) -> SampleBlock | None:
        """Block for at least one sample; see `drivers.contract.SampleSource.read`."""
        deadline = time.monotonic() + timeout
        while True:
            data = self._receive(deadline)
            if data is None:
                return None
            runs = self._parser.feed(data)
            now = time.monotonic_ns()
            blocks = [block for run in runs if (block := self._samples(run, now)).size]
            self._watch_stream(len(data), bool(runs))
            if blocks:
                return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)

    @property
    def state(self) -> ControllerState | None:
        """What the newest sample says about the controller; None while not connected."""
        newest = self._newest
        return None if newest is None else self._maker.state(*newest)

    def take_notices(self) -> list[str]:
        notices, self._notices = self._notices, []
        return notices

    def close(self) -> None:
        self._newest = None
        if self._socket is None:
            return
        self._socket.close()
        self._socket = None

    # --- samples ---------------------------------------------------------------------------------------------

    def _samples(self, frames: Frames, now: int) -> SampleBlock:
        """Return readable frames (m,) that repeat none as samples."""
        block, readable = self._maker.samples(frames, now)
        if block.size < frames.size:
            self.counts.damaged += frames.size - block.size
            if block.size == 0:
                return block
        restarts = self._counter.restarts
        ticks = self._ticks(readable, block["controller_time"], now)
        block["sequence"], missing = self._counter.number(ticks / self._layout.rate_hz, now)
        if self._counter.restarts > restarts:
            self._notices.append(
                f"{self._where}: the controller was restarted; about {missing[0]} samples were missed meanwhile"
            )
        if missing.min() < 0:  # it repeats the one before it
            fresh = missing >= 0
            block, readable, missing = block[fresh], readable[fresh], missing[fresh]
        block["lost"] = missing
        if block.size:
            self._newest = readable[-1], int(block["status"][-1])
        return block

    def _ticks(self, frames: Frames, times: NDArray[np.float64], now: int) -> NDArray[np.int64]:
        """Return how many sample periods have passed at each frame."""
        since = (now - self._last_time) * 1e-9 * self._layout.rate_hz if self._last_time else 0.0
        self._last_time = now
        if self._frame_ticks is not None:
            return self._frame_ticks.count(frames["sequence"].astype(np.int64), since)
        if self._layout.feedback.stamp is not None:
            return self._stamp_ticks.count(times)
        ticks: NDArray[np.int64] = self.counts.frames - frames.size + np.arange(frames.size)
        return ticks

    def _watch_stream(self, received: int, frames: bool) -> None:
        """Tell of damaged frames, and give up a peer that has sent much and never a frame."""
        self._known = self._known or frames
        self._received += received
        if not self._known and self._received > STRANGE_BYTES:
            raise self._protocol_error(
                f"something answers, but not in frames of layout '{self._layout.name}': "
                f"{self._parser.incomplete[:SHOWN_BYTES]!r}; check the address and the layout"
            )
        damaged = self.counts.damaged - self._told
        if damaged and time.monotonic() - self._told_at > NOTICE_PERIOD:
            self._notices.append(f"{self._where}: {damaged} damaged frames were skipped")
            self._told, self._told_at = self.counts.damaged, time.monotonic()

    # --- connection ------------------------------------------------------------------------------------------

    @property
    def _where(self) -> str:
        return f"{self.host}:{self._port}"

    def _new_parser(self) -> FrameParser | JsonFrameParser:
        feedback, n = self._layout.feedback, self._layout.n_joints
        if isinstance(feedback, BinaryFeedback):
            return FrameParser(feedback, n, self.counts)
        return JsonFrameParser(feedback, n, self.counts)

    def _expect_together(self, connection: socket.socket) -> None:
        """Let fast frames come a few at a time: waking up for each costs more than reading it."""
        frames = round(TOGETHER * self._layout.rate_hz)
        if frames > 1 and isinstance(self._layout.feedback, BinaryFeedback):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, frames * self._layout.feedback.least)

    def _ask(self) -> ControllerInfo:
        """Ask for identity and feedback; who has no commands is taken as it is."""
        commands = self._layout.commands
        if commands is None or (commands.texts.read_state is None and commands.texts.start_feedback is None):
            return ControllerInfo("unknown", None)
        with CommandChannel(self.host, self._layout) as channel:
            info = channel.identity()
            if channel.has("start_feedback"):
                rate = self._layout.rate_hz
                channel.ask("start_feedback", rate_hz=rate, period_ms=1e3 / rate)
        return info

    def _receive(self, deadline: float) -> bytes | None:
        """Return what arrives next, a few frames at once if they come fast; None at the deadline."""
        if self._socket is None:
            raise lost(self.host, self._port, "not connected")
        while (left := deadline - time.monotonic()) > 0.0:
            self._poll.poll(1e3 * min(left, LONGEST_WAIT))
            try:
                data = self._socket.recv(RECEIVE_BYTES)  # what there is, be it less than was waited for
            except BlockingIOError:
                continue
            except OSError as error:
                raise lost(self.host, self._port, error.strerror or str(error)) from error
            if not data:
                raise lost(self.host, self._port, "the controller closed it")
            return data
        return None

    def _protocol_error(self, what: str) -> DriverProtocolError:
        return DriverProtocolError(f"{self._where}: {what}", **context(self.host, self._port))


def _ticks_of(layout: Layout) -> tuple[FrameTicks | None, StampTicks]:
    """Return what counts sample periods: the frames' own numbers if they have any, else their stamps."""
    sequence = layout.feedback.sequence
    stamps = StampTicks(layout.rate_hz)
    if sequence is None:
        return None, stamps
    bits = 8 * sequence.width if isinstance(sequence, Sequence) else 62
    return FrameTicks(1 << min(bits, 62), sequence.step), stamps
