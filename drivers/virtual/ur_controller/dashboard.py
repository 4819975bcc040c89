"""The dashboard: one line in, one line out.

Source of commands and answers: Universal Robots, Dashboard Server e-Series guide, as far as the virtual robot
has something to say. The model's name says that the robot is virtual.
"""

from __future__ import annotations

from collections.abc import Callable

from drivers.virtual.ur_controller.control_script import PROGRAM_NAME
from drivers.virtual.ur_controller.controller import MODEL, Controller, RobotMode, RuntimeState, SafetyMode

BANNER = "Connected: Universal Robots Dashboard Server"
_NEEDS_REMOTE_CONTROL = frozenset(
    ("play", "pause", "stop", "unlock protective stop", "power on", "power off", "brake release")
)


class Dashboard:
    """Answers commands about one controller."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._answers: dict[str, Callable[[], str]] = {
            "polyscopeversion": self._version,
            "version": self._version,
            "get serial number": lambda: controller.identity.serial,
            "get robot model": lambda: MODEL,
            "get operational mode": lambda: "NONE",
            "is in remote control": lambda: str(controller.remote_control).lower(),
            "robotmode": lambda: f"Robotmode: {controller.mode.name}",
            "safetymode": lambda: f"Safetymode: {controller.safety.name}",
            "safetystatus": lambda: f"Safetystatus: {controller.safety.name}",
            "running": lambda: f"Program running: {str(self._playing).lower()}",
            "programstate": self._program_state,
            "get loaded program": lambda: "No program loaded",
            "isprogramsaved": lambda: f"true {PROGRAM_NAME}",
            "play": lambda: "Failed to execute: play",  # nothing is loaded: programs come over the script port
            "pause": lambda: "Failed to execute: pause",
            "stop": self._stop,
            "unlock protective stop": self._unlock,
            "power on": lambda: self._power(RobotMode.IDLE, "Powering on"),
            "power off": lambda: self._power(RobotMode.POWER_OFF, "Powering off"),
            "brake release": lambda: self._power(RobotMode.RUNNING, "Brake releasing"),
            "close popup": lambda: "closing popup",
            "close safety popup": lambda: "closing safety popup",
            "quit": lambda: "Disconnected",
        }

    def answer(self, command: str) -> str:
        """Return the reply to one command line."""
        known = command.strip().lower()
        if known in _NEEDS_REMOTE_CONTROL and not self._controller.remote_control:
            return f"Command is not allowed: {known!r} needs remote control"
        if known in self._answers:
            return self._answers[known]()
        if known.startswith("popup"):
            return "showing popup"
        if known.startswith("addtolog"):
            return "Added log message"
        return f"could not understand: '{command.strip()}'"

    @property
    def _playing(self) -> bool:
        return self._controller.runtime is RuntimeState.PLAYING

    def _version(self) -> str:
        return "URSoftware {}.{}.{}.{} (virtual)".format(*self._controller.identity.version)

    def _program_state(self) -> str:
        runtime = self._controller.runtime
        state = RuntimeState.STOPPED if runtime is RuntimeState.STOPPING else runtime
        return f"{state.name} {PROGRAM_NAME}"

    def _stop(self) -> str:
        self._controller.stop_program("stopped at the dashboard")
        return "Stopped"

    def _unlock(self) -> str:
        refusal = self._controller.unlock_protective_stop()
        if refusal is None or self._controller.safety is SafetyMode.NORMAL:
            return "Protective stop releasing"
        return (
            "Cannot unlock protective stop until 5s after occurrence. "
            "Always inspect cause of protective stop before unlocking"
        )

    def _power(self, mode: RobotMode, answer: str) -> str:
        self._controller.set_power(mode)
        return answer
