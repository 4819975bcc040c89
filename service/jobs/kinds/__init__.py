"""The kinds of jobs, one module each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.jobs.context import Kind
from service.jobs.kinds.calibrate import CALIBRATE
from service.jobs.kinds.calibrate_sensors import CALIBRATE_SENSORS
from service.jobs.kinds.drive_gains import DRIVE_GAINS
from service.jobs.kinds.excite import EXCITE
from service.jobs.kinds.feedforward import FEEDFORWARD
from service.jobs.kinds.identify import IDENTIFY
from service.jobs.kinds.leg_drives import LEG_DRIVES
from service.jobs.kinds.load_feedforward import LOAD_FEEDFORWARD
from service.jobs.kinds.payload import PAYLOAD
from service.jobs.kinds.play import PLAY
from service.jobs.kinds.record import RECORD
from service.jobs.kinds.validate import VALIDATE
from service.jobs.models import JobKind

KINDS: Mapping[JobKind, Kind[Any]] = {
    kind.name: kind
    for kind in (
        *(PLAY, RECORD, EXCITE, IDENTIFY, VALIDATE, FEEDFORWARD, LOAD_FEEDFORWARD),
        *(CALIBRATE, PAYLOAD, DRIVE_GAINS, CALIBRATE_SENSORS, LEG_DRIVES),
    )
}
