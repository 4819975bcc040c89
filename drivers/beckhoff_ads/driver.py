"""The driver the device host loads for ``driver = "beckhoff_ads"``."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, ClassVar

from drivers.beckhoff_ads import commands, upload
from drivers.beckhoff_ads.address import PlcAddress
from drivers.beckhoff_ads.motion import AdsMotionPlayer, MotionPlan
from drivers.beckhoff_ads.session import AdsLink
from drivers.beckhoff_ads.stream import AdsRingReader
from drivers.beckhoff_ads.variables import Variables
from drivers.contract import ApproachSpeed, Capabilities, ProtectiveStop
from drivers.trajectory import FeedforwardCurrents, PlayableTrajectory
from drivers.twincat_layout import LEGS, Command, Result

REQUEST_TIMEOUT = 0.5  # s


class BeckhoffAdsDriver:
    """A `drivers.contract.FeedforwardDriver` for a parallel robot of six legs behind a TwinCAT PLC.

    Its joints are the legs: q is their length in m, torque the force sensors' reading in N. Creating it connects
    to nothing.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        LEGS, max_rate_hz=1000.0, motion=True, feedforward=True, unit="m"
    )

    def __init__(self, address: PlcAddress, rate_hz: float) -> None:
        self.address = address
        self.rate_hz = rate_hz
        self._link = AdsLink(address)

    def source(self) -> AdsRingReader:
        return AdsRingReader(self._link, self.rate_hz)

    def player(self, trajectory: Path, approach: ApproachSpeed | None, settle_time: float) -> AdsMotionPlayer:
        return AdsMotionPlayer(self._link, MotionPlan(PlayableTrajectory.load(trajectory, LEGS), approach, settle_time))

    def halt(self) -> None:
        """Bring the legs to rest at once. Works also while another process of this computer has the link: it ends."""
        with contextlib.closing(self._link.session(REQUEST_TIMEOUT, exclusive=False)) as session:
            commands.send(Variables(session), Command.HALT)

    def recover(self) -> None:
        with contextlib.closing(self._link.session(REQUEST_TIMEOUT)) as session:
            result, _ = commands.send(Variables(session), Command.RESET)
        if result != Result.DONE:
            raise self.address.problem(
                ProtectiveStop,
                "the PLC does not release the robot; release the emergency stop at the machine first",
                code="fault-persists",
            )

    # --- feedforward -----------------------------------------------------------------------------------

    def load_feedforward(self, trajectory: Path, table: Path) -> int:
        """Have the PLC add a table of currents whenever it plays ``trajectory``.

        The two are bound by the CRC of the trajectory's rows: with another one the table is not added.
        """
        played = upload.trajectory_rows(PlayableTrajectory.load(trajectory, LEGS))
        currents = FeedforwardCurrents.load(table, LEGS)
        with contextlib.closing(self._link.session(REQUEST_TIMEOUT)) as session:
            return upload.upload(
                Variables(session),
                upload.FEEDFORWARD,
                upload.feedforward_rows(currents),
                currents.period,
                trajectory_crc=upload.crc(played),
            )

    def clear_feedforward(self) -> None:
        with contextlib.closing(self._link.session(REQUEST_TIMEOUT)) as session:
            upload.withdraw(Variables(session), upload.FEEDFORWARD)


def create(host: str, rate_hz: float, **options: Any) -> BeckhoffAdsDriver:
    """Make the driver; ``options`` are those of `PlcAddress`."""
    return BeckhoffAdsDriver(PlcAddress(host, **options), rate_hz)
