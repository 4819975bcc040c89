"""One RTDE client as a state machine: bytes in, bytes out, no sockets."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from drivers.virtual.ur_controller.variables import (
    IN_USE,
    NOT_FOUND,
    InputRecipe,
    InputVariables,
    OutputImage,
    output_type,
)
from drivers.virtual.ur_controller.wire import (
    DATA_PACKAGE,
    HEADER,
    PROTOCOL_VERSION,
    FrameSplitter,
    MessageLevel,
    PackageType,
    ProtocolError,
    package,
    parse_names,
    parse_output_setup,
    parse_protocol_version,
    text_message,
)

CONTROL_RATE = 500  # Hz; RTDE of an e-Series controller is no faster
_MAX_RECIPES = 255
_MAX_NAMES = 2048  # bytes that a list of variable names may take


@dataclass
class RtdeState:
    """What all sessions of one controller share."""

    version: tuple[int, int, int, int]
    outputs: OutputImage = field(default_factory=OutputImage)
    inputs: InputVariables = field(default_factory=InputVariables)
    cycle: int = 0
    """Number of the current control cycle."""


class RtdeSession:
    """The state of one client's connection.

    ``receive`` never raises for what a client sends: when the bytes cannot be RTDE, ``violation`` names the
    reason, and the connection has to be closed after its last reply has gone out.
    """

    def __init__(self, state: RtdeState) -> None:
        self._state = state
        self._frames = FrameSplitter()
        self._negotiated = False
        self._recipes: list[InputRecipe] = []
        self._gather: NDArray[np.intp] | None = None
        self._prefix = b""
        self._frequency = 0.0
        self.started = False
        self.violation: str | None = None
        self.inputs_received = 0
        self.inputs_rejected = 0
        self._before_negotiation: dict[int, Callable[[bytes], bytes]] = {
            PackageType.REQUEST_PROTOCOL_VERSION: self._negotiate,
            PackageType.GET_CONTROLLER_VERSION: self._tell_version,
            PackageType.TEXT_MESSAGE: lambda _payload: b"",  # a client's log line
        }
        self._after_negotiation: dict[int, Callable[[bytes], bytes]] = {
            PackageType.SETUP_OUTPUTS: self._set_up_outputs,
            PackageType.SETUP_INPUTS: self._set_up_inputs,
            PackageType.START: self._start,
            PackageType.PAUSE: self._pause,
        }

    def receive(self, data: bytes) -> bytes:
        """Handle what came in and return what has to go out."""
        replies = bytearray()
        try:
            for kind, payload in self._frames.feed(data):
                replies += self._handle(kind, payload)
        except ProtocolError as error:
            self.violation = str(error)
            replies += text_message(self.violation, MessageLevel.EXCEPTION)
        return bytes(replies)

    def data_package(self) -> bytes | None:
        """Return this control cycle's package, or None where none is due."""
        if not self.started or self._gather is None:
            return None
        cycle = self._state.cycle
        if self._frequency < CONTROL_RATE:
            due = int(cycle * self._frequency / CONTROL_RATE)
            if due == int((cycle - 1) * self._frequency / CONTROL_RATE):
                return None
        return self._prefix + self._state.outputs.gather(self._gather)

    def close(self) -> None:
        """Release the input variables this client owned."""
        self.started = False
        self._state.inputs.release(self)

    def _handle(self, kind: int, payload: bytes) -> bytes:
        if kind == DATA_PACKAGE:
            return self._accept_data(payload)
        handler = self._before_negotiation.get(kind)
        if handler is None:
            handler = self._after_negotiation.get(kind)
            if handler is None:
                raise ProtocolError(f"unknown package type {kind}")
            if not self._negotiated:
                raise ProtocolError("negotiate protocol version 2 first; version 1 is not served here")
        return handler(payload)

    def _negotiate(self, payload: bytes) -> bytes:
        self._negotiated = parse_protocol_version(payload) == PROTOCOL_VERSION
        return package(PackageType.REQUEST_PROTOCOL_VERSION, bytes([self._negotiated]))

    def _tell_version(self, _payload: bytes) -> bytes:
        version = struct.pack(">4I", *self._state.version)
        return package(PackageType.GET_CONTROLLER_VERSION, version)

    def _start(self, _payload: bytes) -> bytes:
        self.started = self._gather is not None or bool(self._recipes)
        return package(PackageType.START, bytes([self.started]))

    def _pause(self, _payload: bytes) -> bytes:
        self.started = False
        return package(PackageType.PAUSE, b"\x01")

    def _set_up_outputs(self, payload: bytes) -> bytes:
        frequency, names = parse_output_setup(payload)
        types = [output_type(name, self._state.version) for name in names]
        self._gather = None
        complaint = None
        if not 1.0 <= frequency <= CONTROL_RATE:
            complaint = f"output frequency must be within 1..{CONTROL_RATE} Hz, got {frequency:g}"
        elif len(payload) - 8 > _MAX_NAMES:
            complaint = f"the list of variables takes {len(payload) - 8} bytes, {_MAX_NAMES} are allowed"
        elif names and NOT_FOUND not in types:
            self._gather = self._state.outputs.gather_index(names)
            self._frequency = frequency
            size = HEADER.size + 1 + len(self._gather)
            self._prefix = HEADER.pack(size, DATA_PACKAGE) + b"\x01"
        recipe_id = bytes([self._gather is not None])
        reply = package(PackageType.SETUP_OUTPUTS, recipe_id + ",".join(types).encode())
        return text_message(complaint, MessageLevel.ERROR) + reply if complaint else reply

    def _set_up_inputs(self, payload: bytes) -> bytes:
        names = parse_names(payload)
        if len(self._recipes) == _MAX_RECIPES:
            raise ProtocolError(f"more than {_MAX_RECIPES} input recipes")
        types = self._state.inputs.claim(names, self)
        recipe_id = 0
        if names and NOT_FOUND not in types and IN_USE not in types:
            self._recipes.append(InputRecipe.of(names))
            recipe_id = len(self._recipes)
        return package(PackageType.SETUP_INPUTS, bytes([recipe_id]) + ",".join(types).encode())

    def _accept_data(self, payload: bytes) -> bytes:
        recipe_id = payload[0] if payload else 0
        if not 1 <= recipe_id <= len(self._recipes):
            self.inputs_rejected += 1
            return text_message(f"unknown input recipe {recipe_id}", MessageLevel.ERROR)
        recipe = self._recipes[recipe_id - 1]
        # Longer packages occur with the real client (getForwardKinematics); their rest is dropped.
        if len(payload) - 1 < recipe.layout.size:
            self.inputs_rejected += 1
            return text_message(
                f"input recipe {recipe_id} takes {recipe.layout.size} bytes, got {len(payload) - 1}",
                MessageLevel.ERROR,
            )
        self.inputs_received += 1
        self._state.inputs.write(recipe, payload, 1, self._state.cycle)
        return b""
