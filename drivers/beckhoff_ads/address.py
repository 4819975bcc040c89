"""Where a PLC is, and how it is spoken to; the driver's settings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, TypeVar

from core.errors import InputError
from drivers.contract import DriverError

Problem = TypeVar("Problem", bound=DriverError)

TCP_PORT = 48898
_NET_ID = re.compile(r"(\d{1,3})(\.\d{1,3}){5}")
_PREFIX = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
SHORTEST_POLL, LONGEST_POLL = 0.005, 0.1  # s


@dataclass(frozen=True)
class PlcAddress:
    """One PLC runtime.

    ``host`` is the IP address of its router, ``ams_net_id`` the router's name in the AMS network, ``ams_port`` the
    runtime behind it, ``symbol_prefix`` the global variable list. The ring is read every ``poll_interval`` s.
    ``local_ams_net_id`` is how the PLC's route calls this computer, by default its IP address and ``.1.1``.

    Raises
    ------
    InputError
    """

    host: str
    ams_net_id: str
    ams_port: int = 851
    symbol_prefix: str = "GVL_Dynid"
    poll_interval: float = 0.02
    local_ams_net_id: str | None = None

    def __post_init__(self) -> None:
        for name in ("ams_net_id", "local_ams_net_id"):
            value = getattr(self, name)
            if value is not None and not is_net_id(value):
                raise InputError(f"{name} is six numbers from 0 to 255 with dots between, not {value!r}")
        if not 1 <= self.ams_port <= 65535:
            raise InputError(f"ams_port is from 1 to 65535 (851 for the first PLC), not {self.ams_port}")
        if _PREFIX.fullmatch(self.symbol_prefix) is None:
            raise InputError(f"symbol_prefix is the name of a global variable list, not {self.symbol_prefix!r}")
        if not SHORTEST_POLL <= self.poll_interval <= LONGEST_POLL:
            raise InputError(
                f"poll_interval is from {SHORTEST_POLL:g} to {LONGEST_POLL:g} s, not {self.poll_interval!r}"
            )

    def __str__(self) -> str:
        return f"{self.host}:{TCP_PORT} ({self.ams_net_id}:{self.ams_port})"

    def problem(self, kind: type[Problem], detail: str, *, code: str | None = None, **context: Any) -> Problem:
        """Return an error of ``kind`` that says where it happened."""
        where = {"host": self.host, "port": TCP_PORT, "ams_net_id": self.ams_net_id, "ams_port": self.ams_port}
        return kind(f"{self}: {detail}", code=code, **where, **context)

    def variable(self, name: str) -> str:
        """Return the symbol of a variable of the global list."""
        return f"{self.symbol_prefix}.{name}"


def is_net_id(text: str) -> bool:
    return _NET_ID.fullmatch(text) is not None and all(int(part) < 256 for part in text.split("."))
