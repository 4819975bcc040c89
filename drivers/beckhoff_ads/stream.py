"""Acquisition that loses nothing: one bulk read of the PLC's ring every few milliseconds."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from core.streaming.samples import SampleBlock
from drivers.beckhoff_ads import outputs
from drivers.beckhoff_ads.address import PlcAddress
from drivers.beckhoff_ads.ring import CycleCounter, RingCursor
from drivers.beckhoff_ads.session import RUN, AdsLink, Session, SymbolsChanged
from drivers.beckhoff_ads.variables import ProgramStamp, Variables
from drivers.contract import (
    ConnectionLost,
    ControllerInfo,
    ControllerState,
    DriverError,
    DriverProtocolError,
    DriverTimeout,
    UnsupportedController,
)
from drivers.twincat_layout import SAMPLE, STATE

REQUEST_TIMEOUT = 0.2  # s
LARGEST_READ = 512  # samples in one request
MARGIN = 12  # slots read beyond what should have come, for a reader that is a little late
SILENCE = 0.5  # s without a new sample, after which the PLC is asked what it is doing


class AdsRingReader:
    """A `drivers.contract.SampleSource`.

    Parameters
    ----------
    link : to the PLC.
    rate_hz : samples per second; must be the rate of the PLC's task.
    """

    def __init__(self, link: AdsLink, rate_hz: float) -> None:
        self._link = link
        self._rate_hz = rate_hz
        self._session: Session | None = None
        self._variables: Variables
        self._stamp: ProgramStamp
        self._cursor: RingCursor | None = None
        self._counter: CycleCounter | None = None
        self._state: np.void | None = None
        self._notices: list[str] = []
        self._next_poll = 0.0
        self._last_poll = 0.0
        self._last_sample = 0.0

    @property
    def address(self) -> PlcAddress:
        return self._link.address

    def connect(self) -> ControllerInfo:
        """Open a session and look the program's variables up. Samples that wait since the last one are not lost.

        Raises
        ------
        DriverError
        """
        self.close()
        self._session = session = self._link.session(REQUEST_TIMEOUT)
        try:
            self._look_up(session)
            version = session.device_version()
        except SymbolsChanged as change:
            self.close()
            raise self.address.problem(
                DriverProtocolError, f"the PLC's program is being changed ({change})"
            ) from change
        except DriverError:
            self.close()
            raise
        info = self._variables.info
        serial, model = (bytes(info[name]).decode("latin-1") or None for name in ("sSerial", "sModel"))
        return ControllerInfo(version, serial, model, bool(info["bVirtual"]))

    def read(self, timeout: float) -> SampleBlock | None:
        """Block for at least one sample; see `drivers.contract.SampleSource.read`."""
        if self._session is None:
            raise self.address.problem(ConnectionLost, "not connected")
        deadline = time.monotonic() + timeout
        while True:
            now = time.monotonic()
            if self._next_poll > now:
                time.sleep(self._next_poll - now)
            block = self._poll(self._session)
            if block is not None:
                return block
            if time.monotonic() >= deadline:
                self._ask_why_silent(self._session)
                return None

    @property
    def state(self) -> ControllerState | None:
        """What the newest state says about the controller; None while not connected."""
        state = self._state
        return None if state is None else outputs.controller_state(state)

    def take_notices(self) -> list[str]:
        notices, self._notices = self._notices, []
        return notices

    def close(self) -> None:
        self._state = None
        session, self._session = self._session, None
        if session is not None:
            session.close()

    # --- the program's variables -----------------------------------------------------------------------

    def _look_up(self, session: Session) -> None:
        """Find everything anew: at the beginning, and after a change of the program."""
        self._variables = variables = Variables(session)
        cycle = int(variables.info["nCycle"])
        if cycle <= 0 or abs(1e9 / cycle - self._rate_hz) > 1e-6 * self._rate_hz:
            raise self.address.problem(
                UnsupportedController,
                f"{self._rate_hz:g} samples/s were asked for, the PLC's task runs every {1e-6 * cycle:g} ms; set "
                f"rate_hz = {1e9 / max(cycle, 1):g}",
            )
        stamp, head, _ = self._read_ring(session, [])
        self._follow_program(stamp, head, cycle)
        session.notify(
            self.address.variable("stState"),
            STATE.dtype.itemsize,
            lambda raw: self._take_state(np.frombuffer(raw, STATE.dtype)[0]),
        )
        self._take_state(*variables.read("stState"))
        self._last_poll = self._last_sample = time.monotonic()

    def _follow_program(self, stamp: ProgramStamp, head: int, cycle: int) -> None:
        """Go on in the ring where that can be, and say what has happened to the program meanwhile."""
        cursor = self._cursor
        same_run = cursor is not None and stamp.continues(self._stamp) and cursor.waiting(head) >= 0
        if cursor is None or not same_run:
            self._cursor = RingCursor(self._variables.lengths["aRing"], head if cursor is None else 0)
        if self._counter is None:
            self._counter = CycleCounter(cycle)
        elif not stamp.continues(self._stamp):
            self._notices.append(f"{self.address}: another PLC program was loaded; its variables were looked up again")
        elif stamp.online_changes != self._stamp.online_changes:
            self._notices.append(
                f"{self.address}: the PLC program was changed online; its variables were looked up again"
            )
        elif not same_run:
            self._notices.append(f"{self.address}: the PLC program was restarted")
        self._stamp = stamp

    def _read_ring(
        self, session: Session, pieces: list[tuple[int, int]]
    ) -> tuple[ProgramStamp, int, tuple[NDArray[np.void], int]]:
        """Read the ring at ``pieces`` between two looks at nHead, and those between two looks at the program."""
        variables = self._variables
        program, head = variables.program_pieces(), variables.piece("nHead")
        ring = [variables.elements("aRing", first, count) for first, count in pieces]
        parts = session.sum_read("the ring", [*program, head, *ring, head, *program])
        before, after = ProgramStamp.of(parts[: len(program)]), ProgramStamp.of(parts[-len(program) :])
        if before != after:
            raise SymbolsChanged("while the ring was read")
        first_head, *slots, last_head = parts[len(program) : -len(program)]
        records = np.frombuffer(b"".join(slots), SAMPLE.dtype)
        return before, int.from_bytes(first_head, "little"), (records, int.from_bytes(last_head, "little"))

    # --- samples ---------------------------------------------------------------------------------------

    def _poll(self, session: Session) -> SampleBlock | None:
        """Read what has come since the last poll; None when nothing has."""
        try:
            return self._read_new(session)
        except DriverTimeout:
            return None
        except SymbolsChanged:
            session.forget_notifications()
            self._look_up_again(session)
            return None

    def _look_up_again(self, session: Session) -> None:
        try:
            self._look_up(session)
        except SymbolsChanged as change:
            raise self.address.problem(ConnectionLost, f"the PLC's program keeps changing ({change})") from change

    def _read_new(self, session: Session) -> SampleBlock | None:
        cursor, counter = self._cursor, self._counter
        assert cursor is not None  # noqa: S101 - connected
        assert counter is not None  # noqa: S101
        now = time.monotonic()
        due = round((now - self._last_poll) * self._rate_hz) + MARGIN
        stamp, head, (slots, head_after) = self._read_ring(session, cursor.pieces(min(due, LARGEST_READ)))
        received = time.monotonic_ns()
        self._last_poll = now
        self._next_poll = max(self._next_poll + self.address.poll_interval, now)
        if stamp != self._stamp or cursor.waiting(head) < 0:
            raise SymbolsChanged("another program")
        overrun = cursor.overrun
        cursor.catch_up(head)
        if cursor.overrun > overrun:
            slots = slots[:0]  # these are other samples now
        records = cursor.take(slots, head, head_after)
        if cursor.waiting(head) > 0:
            self._next_poll = now  # more is waiting than one request holds
            self._last_poll -= cursor.waiting(head) / self._rate_hz
        if records.size == 0:
            return None
        self._last_sample = 1e-9 * received
        sequence, lost = counter.number(records["tDC"])
        return outputs.samples(records, sequence, lost, received)

    def _ask_why_silent(self, session: Session) -> None:
        """A PLC that answers but has no new samples: it was stopped, or its task hangs."""
        if time.monotonic() - self._last_sample < SILENCE:
            return
        try:
            state = session.state()
        except DriverTimeout:
            return
        if state != RUN:
            raise session.not_running(state)

    # --- states ----------------------------------------------------------------------------------------

    def _take_state(self, state: np.void) -> None:
        """Take note of a state; called by this object's thread first, then by the library's."""
        self._notices += [f"{self.address}: {news}" for news in outputs.news(state, self._state)]
        self._state = state
