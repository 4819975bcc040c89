"""A virtual robot as a child process of whoever needs one: tests, the demonstration, a trial of the service."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from queue import Empty, Queue
from types import TracebackType
from typing import Any, Self

from core.errors import DynidError

_ANSWER_TIMEOUT = 5.0
_END_TIMEOUT = 5.0
_KEPT_LOG_LINES = 200


class VirtualRobotError(DynidError):
    """The virtual robot could not start, has died, or does not answer; ``code`` may come from the child."""

    code = "virtual-robot-failed"


class VirtualRobot:
    """One virtual robot on ``host``; start and stop it as a context manager.

    It listens on the ports that a real controller has, so each robot needs a loopback address of its own.
    When this process ends, however it ends, the robot ends too.

    Parameters
    ----------
    label : what it is called in messages.
    module : what ``python -m`` runs.
    host : loopback address.
    options : of the module, besides ``--host``.
    startup_timeout : s to wait until all ports listen.
    """

    def __init__(self, label: str, module: str, host: str, options: Sequence[str], startup_timeout: float) -> None:
        self.host = host
        self.ready: dict[str, Any] = {}
        """What the robot said when it was ready: ports, pid, model, serial."""
        self._label = label
        self._command = [sys.executable, "-m", module, "--host", host, *options, "--supervised"]
        self._startup_timeout = startup_timeout
        self._process: subprocess.Popen[str] | None = None
        self._answers: Queue[str | None] = Queue()
        self._log: deque[str] = deque(maxlen=_KEPT_LOG_LINES)
        self._readers: list[threading.Thread] = []

    def start(self) -> Self:
        """Start the robot and return once clients can connect.

        Raises
        ------
        VirtualRobotError
            It did not start; ``port-in-use`` where another program has one of its ports.
        """
        if self._process is not None:
            raise VirtualRobotError(f"the {self._label} at {self.host} runs already")
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for its owner, who ends the robot in good order
        )
        self._answers = Queue()
        self._log.clear()
        self._readers = [
            threading.Thread(target=self._collect_answers, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._log.extend, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        try:
            self.ready = self._await_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the robot; harmless when it has ended."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # it has ended already, with a request unread
                process.stdin.close()  # tells it to end
        try:
            process.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for reader in self._readers:
            reader.join()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Process id of the running robot."""
        return self._running().pid

    @property
    def log(self) -> str:
        """The last lines that the robot logged."""
        return "".join(self._log)

    def request(self, do: str, **arguments: object) -> dict[str, Any]:
        """Inject a fault or ask for counters: see the ``faults`` module of its controller.

        Raises
        ------
        VirtualRobotError
            The robot has died, does not answer, or does not know the request.
        """
        pipe = self._running().stdin
        if pipe is not None:
            try:
                pipe.write(json.dumps({"do": do, **arguments}) + "\n")
                pipe.flush()
            except BrokenPipeError as error:
                raise self._died() from error
        answer = self._next_answer(_ANSWER_TIMEOUT)
        if not answer.pop("ok", False):
            raise VirtualRobotError(f"{self._label} at {self.host}: {answer.get('detail')}")
        return answer

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise VirtualRobotError(f"the {self._label} at {self.host} is not running; start it first")
        return self._process

    def _await_ready(self) -> dict[str, Any]:
        said = self._next_answer(self._startup_timeout)
        if not said.pop("ready", False):
            detail, code = said.pop("detail", "it gave no reason"), said.pop("code", None)
            raise VirtualRobotError(f"the {self._label} does not start: {detail}", code=code, **said)
        return said

    def _collect_answers(self, stream: Iterable[str]) -> None:
        for line in stream:
            self._answers.put(line)
        self._answers.put(None)

    def _next_answer(self, timeout: float) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=timeout)
        except Empty:
            raise VirtualRobotError(
                f"the {self._label} at {self.host} said nothing within {timeout:g} s", host=self.host
            ) from None
        if line is None:
            raise self._died()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _died(self) -> VirtualRobotError:
        process = self._running()
        self._readers[1].join(_END_TIMEOUT)
        code = process.wait(_END_TIMEOUT)
        return VirtualRobotError(
            f"the {self._label} at {self.host} ended with exit code {code}:\n{self.log.strip()}",
            host=self.host,
            exit_code=code,
        )


class VirtualUR10e(VirtualRobot):
    """A virtual UR10e: RTDE, dashboard and script ports; faults: ``drivers.virtual.ur_controller.faults``.

    Parameters
    ----------
    host
        Loopback address.
    seed
        Number of the individual robot: same seed, same robot.
    model
        Model file that its controller believes in; the catalogue's UR10e by default.
    version
        Controller version to report, four numbers.
    unlock_delay
        s before a protective stop can be unlocked (5 on a real robot).
    startup_timeout
        s to wait until all ports listen; the first start on a machine compiles for some seconds.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        seed: int = 0,
        *,
        model: Path | None = None,
        version: str = "5.25.1.0",
        unlock_delay: float = 5.0,
        startup_timeout: float = 90.0,
    ) -> None:
        options = ["--seed", str(seed), "--version", version, "--unlock-delay", str(unlock_delay)]
        if model is not None:
            options += ["--model", str(model)]
        super().__init__("virtual UR10e", "drivers.virtual.ur10e", host, options, startup_timeout)
        self.seed = seed


class VirtualComanR5(VirtualRobot):
    """A virtual COMAN R5: feedback on 7788, commands on 7789; faults: ``drivers.virtual.coman_r5.faults``.

    Parameters
    ----------
    host
        Loopback address.
    seed
        Number of the individual robot: same seed, same robot.
    unlock_delay
        s before a protective stop can be released.
    startup_timeout
        s to wait until its ports listen; the first start on a machine compiles for some seconds.
    """

    def __init__(
        self, host: str = "127.0.0.1", seed: int = 0, *, unlock_delay: float = 5.0, startup_timeout: float = 90.0
    ) -> None:
        options = ["--seed", str(seed), "--unlock-delay", str(unlock_delay)]
        super().__init__("virtual COMAN R5", "drivers.virtual.coman_r5", host, options, startup_timeout)
        self.seed = seed


class VirtualUpru6(VirtualRobot):
    """A virtual 6-UPRU behind a TwinCAT PLC: AMS router on TCP port 48898; faults: ``drivers.virtual.twincat.faults``.

    Its AMS net id is ``net_id``; the router serves one connection per computer, as a real one does.

    Parameters
    ----------
    host
        Loopback address.
    seed
        Number of the individual robot: same seed, same robot.
    model
        Model file that is believed in; the catalogue's ``upru6`` by default.
    startup_timeout
        s to wait until its port listens; the first start on a machine compiles for half a minute.
    """

    def __init__(
        self, host: str = "127.0.0.1", seed: int = 0, *, model: Path | None = None, startup_timeout: float = 180.0
    ) -> None:
        options = ["--seed", str(seed)]
        if model is not None:
            options += ["--model", str(model)]
        super().__init__("virtual 6-UPRU", "drivers.virtual.upru6", host, options, startup_timeout)
        self.seed = seed
        self.net_id = f"{host}.1.1"
