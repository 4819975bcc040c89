"""The driver the device host loads for ``driver = "vendor_socket"``."""

from __future__ import annotations

import os
from pathlib import Path

from core.errors import InputError
from drivers.contract import ApproachSpeed, Capabilities, MotionRefused
from drivers.motion_player import MotionOrder, ProcessPlayer
from drivers.trajectory import PlayableTrajectory
from drivers.vendor_socket.commands import CommandChannel
from drivers.vendor_socket.layout import load_layout
from drivers.vendor_socket.playback import halt
from drivers.vendor_socket.stream import FeedbackReader


class VendorSocketDriver:
    """A `drivers.contract.RobotDriver` for the robot that a layout describes; creating it connects to nothing.

    Parameters
    ----------
    host : address of the controller.
    rate_hz : samples per second, which is the layout's to say.
    layout : name of a layout that ships, or path of a file.

    Raises
    ------
    InputError
        There is no such layout, it is not valid, or its rate is another.
    """

    def __init__(self, host: str, rate_hz: float, layout: str) -> None:
        self.host = host
        self._name = layout
        self._layout = load_layout(layout)
        if rate_hz != self._layout.rate_hz:
            raise InputError(
                f"layout '{self._layout.name}' has {self._layout.rate_hz:g} samples/s, not {rate_hz:g}; "
                f"write rate_hz = {self._layout.rate_hz:g}",
                code="rate-unsupported",
            )
        self.capabilities = Capabilities(
            self._layout.n_joints, self._layout.rate_hz, motion=self._layout.motion_gap is None
        )

    def source(self) -> FeedbackReader:
        return FeedbackReader(self.host, self._layout)

    def player(self, trajectory: Path, approach: ApproachSpeed | None, settle_time: float) -> ProcessPlayer:
        if self._layout.motion_gap is not None:
            raise MotionRefused(
                f"layout '{self._layout.name}' can only be listened to: {self._layout.motion_gap}",
                code="motion-unsupported",
            )
        PlayableTrajectory.load(trajectory, self._layout.n_joints)
        order = MotionOrder(
            self.host,
            self._layout.rate_hz,
            str(trajectory),
            approach,
            settle_time,
            os.getpid(),
            {"layout": self._name},
        )
        return ProcessPlayer("drivers.vendor_socket.motion_process", order)

    def halt(self) -> None:
        halt(self.host, self._layout)

    def recover(self) -> None:
        with CommandChannel(self.host, self._layout) as channel:
            channel.ask("release")


def create(host: str, rate_hz: float, layout: str | None = None) -> VendorSocketDriver:
    """Return the driver; raises `InputError` without a layout."""
    if layout is None:
        raise InputError(
            'the driver vendor_socket needs a layout; write layout = "coman_r5" or the path of a file',
            code="layout-missing",
        )
    return VendorSocketDriver(host, rate_hz, layout)
