"""The PLC's command mailbox: a command is a new number in it, and is answered with that number."""

from __future__ import annotations

import secrets
import time

from drivers.beckhoff_ads.variables import Variables
from drivers.contract import DriverTimeout
from drivers.twincat_layout import Command, Result

ANSWER_TIMEOUT = 1.0  # s
_LOOK_PERIOD = 0.002  # s


def send(
    variables: Variables,
    command: Command,
    *,
    version: int = 0,
    speed: float = 0.0,
    acceleration: float = 0.0,
) -> tuple[Result | int, int]:
    """Give a command; returns the PLC's answer and the command's number.

    Raises
    ------
    DriverTimeout
        It does not answer: its program hangs, or another one has commanded meanwhile.
    DriverError
    """
    sequence = 1 + secrets.randbelow(2**32 - 1)
    variables.write("stCommand", sequence, command, version, speed, acceleration)
    deadline = time.monotonic() + ANSWER_TIMEOUT
    while True:
        (answer,) = variables.read("stAnswer")
        if answer["nSequence"] == sequence:
            value = int(answer["eResult"])
            return (Result(value) if value in list(Result) else value), sequence
        if time.monotonic() > deadline:
            raise variables.session.address.problem(
                DriverTimeout, f"the PLC has not answered the command {command.name} within {ANSWER_TIMEOUT:g} s"
            )
        time.sleep(_LOOK_PERIOD)
