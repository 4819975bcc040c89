"""Settings: one TOML file, overridden by ``DYNID_*`` environment variables, overridden by arguments.

The file is named by argument or by ``DYNID_CONFIG``; relative paths in it are relative to the file, so that
a configuration folder can be moved. Nested keys are written with two underscores in the environment:
``DYNID_ROBOTS__CELL1__HOST=192.168.1.10``. A key that is not known is an error, not a silent typo.

Defaults are the safe ones: the service listens on the loopback interface only, asks for its API key, and
moves no robot before ``motion_enabled = true`` is written for that robot.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict, SettingsError

from core.errors import DynidError
from service.logs import LogFormat

ENV_PREFIX = "DYNID_"
CONFIG_VARIABLE = "DYNID_CONFIG"
SHORTEST_KEY = 16

DriverName = Literal["universal_robots", "beckhoff_ads", "vendor_socket"]
RobotName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ConfigurationError(DynidError):
    """The settings are not valid; the message names the file or variable and the key."""

    code = "configuration-invalid"


Point = tuple[float, float, float]


class WorkspaceSettings(BaseModel):
    """Where the arm may be, checked before every motion and its approach; in the model's root frame, m."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    floor: Annotated[float | None, Field(description="Height no moving link may fall below.", allow_inf_nan=False)] = (
        None
    )
    box: Annotated[tuple[Point, Point] | None, Field(description="Least and largest x, y, z of the tool point.")] = None
    self_collision: Annotated[
        float | None, Field(ge=0, description="Least distance between links that are not neighbours.")
    ] = None


class AdsSettings(BaseModel):
    """How the PLC of a robot with the driver ``beckhoff_ads`` is spoken to."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ams_net_id: Annotated[str, Field(description="AMS net id of the PLC's router, six numbers with dots.")]
    ams_port: Annotated[int, Field(ge=1, le=65535, description="AMS port of the PLC runtime.")] = 851
    symbol_prefix: Annotated[str, Field(description="Global variable list with this project's variables.")] = (
        "GVL_Dynid"
    )
    poll_interval: Annotated[float, Field(ge=0.005, le=0.1, description="s between reads of the sample ring.")] = 0.02
    local_ams_net_id: Annotated[
        str | None, Field(description="What the PLC's route calls this computer; its IP address and .1.1 if absent.")
    ] = None


class ApproachSettings(BaseModel):
    """How the first pose of a motion is reached."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    speed: Annotated[Positive, Field(description="Of the fastest joint, rad/s (m/s).")]
    acceleration: Annotated[Positive, Field(description="Of the fastest joint, rad/s² (m/s²).")]


class ReidentificationSettings(BaseModel):
    """What 'dynid calibrate' does about a changed robot: identify it from the profile's motion, and put that in force
    if it passes on another one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    trajectory: Annotated[str, Field(min_length=1, description="Name of a stored trajectory to judge on.")]
    max_relative_residual: Annotated[
        float, Field(gt=0, le=1, description="Largest RMS of a joint's residual over that of its torque.")
    ]


class CalibrationProfile(BaseModel):
    """A motion that tells whether a robot is still as it was identified; used by ``dynid calibrate``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    trajectory: Annotated[str, Field(min_length=1, description="Name of a stored trajectory; the newest is taken.")]
    approach: ApproachSettings
    level: Annotated[float, Field(gt=0, lt=0.5, description="Probability of a false alarm.")] = 1e-3
    time_limit: Annotated[Positive, Field(description="s from first to last, after which it is cancelled.")] = 120.0
    reidentify: Annotated[
        ReidentificationSettings | None,
        Field(
            description="Identify a robot that has changed again; without this it is flagged, for a person to judge."
        ),
    ] = None

    @model_validator(mode="after")
    def _is_judged_on_another_motion(self) -> Self:
        if self.reidentify is not None and self.reidentify.trajectory == self.trajectory:
            raise ValueError("reidentify.trajectory must be another motion than the one that is identified from")
        return self


class RobotSettings(BaseModel):
    """One robot. ``name`` is its key under ``[robots]`` and need not be repeated."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: RobotName
    driver: DriverName
    host: Annotated[str, Field(min_length=1, description="Address of the controller.")]
    model: Annotated[str, Field(min_length=1, description="Catalogue name, or path of a model file.")]
    rate_hz: Annotated[float, Field(gt=0, le=4000, description="Samples per second to ask for.")] = 500.0
    virtual: Annotated[bool, Field(description="True for a simulated controller; shown wherever it is named.")] = False
    motion_enabled: Annotated[bool, Field(description="Without this the robot is only listened to.")] = False
    ring_seconds: Annotated[float, Field(ge=2, le=3600, description="Live samples kept in memory, s.")] = 60.0
    drive_gains: Annotated[
        tuple[Positive, ...] | None,
        Field(description="Joint torque per motor current, N·m/A, one per joint."),
    ] = None
    start_tolerance: Annotated[Positive, Field(description="How far from the first pose a motion may start, rad.")] = (
        0.01
    )
    tracking_limit: Annotated[Positive, Field(description="Tracking error that stops a motion, rad.")] = 0.1
    temperature_limit: Annotated[
        Positive | None, Field(description="Joint temperature that stops a motion, °C; absent: not watched.")
    ] = None
    workspace: Annotated[
        WorkspaceSettings, Field(description="Floor, box and self-collision; what is absent is not checked.")
    ] = WorkspaceSettings()
    settle_time: Annotated[float, Field(ge=0, le=60, description="Rest before and after a motion, s.")] = 0.5
    calibration: Annotated[
        dict[str, CalibrationProfile], Field(description="Profiles of 'dynid calibrate', by name.")
    ] = {}
    drift_monitor: Annotated[
        bool, Field(description="Compare the live stream with the result in force, and tell when a joint drifts.")
    ] = False
    ads: Annotated[AdsSettings | None, Field(description="Of the driver beckhoff_ads, which needs it.")] = None
    layout: Annotated[
        str | None,
        Field(min_length=1, description="Of the driver vendor_socket, which needs it: name of a layout, or its path."),
    ] = None

    @property
    def driver_options(self) -> dict[str, str | int | float]:
        """The driver's own settings, as its maker takes them."""
        if self.layout is not None:
            return {"layout": self.layout}
        return {} if self.ads is None else self.ads.model_dump(exclude_none=True)

    @model_validator(mode="after")
    def _has_what_its_driver_needs(self) -> Self:
        if (self.ads is not None) != (self.driver == "beckhoff_ads"):
            needs = "needs" if self.ads is None else "takes no"
            raise ValueError(f"the driver {self.driver} {needs} settings 'ads' (ads = {{ ams_net_id = ... }})")
        if (self.layout is not None) != (self.driver == "vendor_socket"):
            needs = "needs a" if self.layout is None else "takes no"
            raise ValueError(f'the driver {self.driver} {needs} layout (such as layout = "coman_r5")')
        return self

    @field_validator("model")
    @classmethod
    def _model_file_exists(cls, value: str) -> str:
        if is_model_path(value) and not Path(value).is_file():
            raise ValueError(f"no model file at {value}; give a catalogue name or the path of a URDF or TOML file")
        return value


class ModbusSettings(BaseModel):
    """What PLCs poll over Modbus TCP; absent, it is not served. Modbus knows neither keys nor encryption."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, description="0 takes any free port; 502 needs privileges.")] = 5020
    allow_public_bind: Annotated[
        bool, Field(description="Required for a host that is not loopback: whoever reaches it reads everything.")
    ] = False
    units: Annotated[
        dict[RobotName, Annotated[int, Field(ge=1, le=255)]],
        Field(min_length=1, description="Which robots are served, each under its own unit number."),
    ]
    commands: Annotated[
        frozenset[Literal["start_calibration", "acknowledge"]],
        Field(description="What may be asked for; without any the mailbox cannot be written."),
    ] = frozenset()
    calibrations: Annotated[
        dict[RobotName, str],
        Field(description="By robot, the calibration profile that start_calibration plays: THE ROBOT MOVES."),
    ] = {}
    max_connections: Annotated[int, Field(ge=1, le=1000, description="One more is closed at once.")] = 32
    idle_seconds: Annotated[float, Field(gt=0, le=86400, description="A silent connection is closed.")] = 300.0

    @field_validator("units")
    @classmethod
    def _units_differ(cls, value: dict[str, int]) -> dict[str, int]:
        if len(set(value.values())) < len(value):
            raise ValueError("two robots have the same unit; give each its own")
        return value

    @model_validator(mode="after")
    def _calibrations_are_permitted(self) -> Self:
        if bool(self.calibrations) != ("start_calibration" in self.commands):
            raise ValueError(
                "the command start_calibration and the table calibrations (which robot along which profile) belong "
                "together; give both or neither"
            )
        unserved = sorted(set(self.calibrations) - set(self.units))
        if unserved:
            raise ValueError(f"calibrations names {unserved[0]}, which has no unit")
        return self

    @model_validator(mode="after")
    def _bind_is_safe(self) -> Self:
        if not _is_loopback(self.host) and not self.allow_public_bind:
            raise ValueError(
                f"host {self.host} can be reached from other machines, and Modbus has no security of its own; write "
                "allow_public_bind = true if that is meant, on a network that only the PLC is on"
            )
        return self


def _default_data_dir() -> Path:
    home = os.environ.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "dynid"


class Settings(BaseSettings):
    """Everything the service can be told. Use `load_settings` to read the file and report errors well."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True, validate_default=True
    )

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, description="0 takes any free port.")] = 8080
    tls_certificate: Annotated[Path | None, Field(description="PEM file with the certificate chain.")] = None
    tls_key: Annotated[Path | None, Field(description="PEM file with its private key.")] = None
    behind_proxy: Annotated[
        bool, Field(description="A proxy in front ends TLS; a host that is not loopback needs this, or a certificate.")
    ] = False

    authentication: bool = True
    api_key: Annotated[SecretStr | None, Field(description="Generated into data_dir/api-key when absent.")] = None
    metrics_public: Annotated[bool, Field(description="Serve /metrics without a key.")] = False
    max_body_bytes: Annotated[int, Field(ge=1024, description="Largest request body.")] = 4 * 1024 * 1024

    data_dir: Annotated[Path, Field(description="Recordings, database, key.")] = Field(
        default_factory=_default_data_dir
    )
    runtime_dir: Annotated[
        Path | None, Field(description="Rings and sockets, in memory; by default derived from data_dir.")
    ] = None
    database_url: Annotated[str | None, Field(description="SQLAlchemy URL; SQLite in data_dir when absent.")] = None
    disk_floor_bytes: Annotated[
        int, Field(ge=0, description="Nothing is recorded while less than this is free in data_dir.")
    ] = 1 << 30
    keep_recordings_days: Annotated[
        Positive | None, Field(description="Recordings of no result are deleted after so many days; absent: never.")
    ] = None

    workers: Annotated[int, Field(ge=1, le=256, description="Processes that compute.")] = 2
    queue_limit: Annotated[int, Field(ge=1, description="Computations that may wait.")] = 16
    lease_seconds: Annotated[float, Field(ge=1, le=3600, description="Lease lifetime when none is asked for.")] = 30.0
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Annotated[LogFormat, Field(description="json: one object per line, for programs.")] = "text"

    robots: dict[RobotName, RobotSettings] = {}
    modbus: Annotated[ModbusSettings | None, Field(description="Off when absent.")] = None

    @field_validator("api_key")
    @classmethod
    def _key_is_long(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < SHORTEST_KEY:
            raise ValueError(f"an API key needs at least {SHORTEST_KEY} characters")
        return value

    @field_validator("data_dir", "runtime_dir")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        return None if value is None else value.expanduser().absolute()

    @field_validator("robots", mode="before")
    @classmethod
    def _name_from_key(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        named: dict[object, object] = {}
        for key, robot in value.items():
            if not isinstance(robot, Mapping):
                named[key] = robot
                continue
            if robot.get("name", key) != key:
                raise ValueError(f"robot '{key}' is named '{robot['name']}' inside; leave the name out")
            named[key] = {**robot, "name": key}
        return named

    @model_validator(mode="after")
    def _certificate_is_whole(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key belong together; give both or neither")
        for file in (self.tls_certificate, self.tls_key):
            if file is not None and not file.is_file():
                raise ValueError(f"there is no file {file}")
        return self

    @model_validator(mode="after")
    def _units_are_robots(self) -> Self:
        for robot in {} if self.modbus is None else self.modbus.units:
            if robot not in self.robots:
                known = ", ".join(sorted(self.robots)) or "none is configured"
                raise ValueError(f"modbus.units: no robot '{robot}'; known: {known}")
        for robot, profile in {} if self.modbus is None else self.modbus.calibrations.items():
            if profile not in self.robots[robot].calibration:
                known = ", ".join(sorted(self.robots[robot].calibration)) or "none"
                raise ValueError(f"modbus.calibrations: {robot} has no calibration profile '{profile}'; it has {known}")
        return self

    @model_validator(mode="after")
    def _bind_is_safe(self) -> Self:
        if _is_loopback(self.host):
            return self
        if not (self.tls_certificate or self.behind_proxy):
            raise ValueError(
                f"host {self.host} can be reached from other machines, and this service moves robots; give "
                "tls_certificate and tls_key, or write behind_proxy = true where a proxy in front ends TLS"
            )
        if not self.authentication:
            raise ValueError(f"host {self.host} can be reached from other machines; authentication cannot be off")
        return self

    @property
    def runtime_path(self) -> Path:
        """``runtime_dir``, or a folder in shared memory that belongs to this user and this ``data_dir``."""
        if self.runtime_dir is not None:
            return self.runtime_dir
        memory = Path("/dev/shm")  # noqa: S108 - checked for ownership and mode when it is made
        base = memory if memory.is_dir() else Path(tempfile.gettempdir())
        digest = hashlib.sha256(str(self.data_dir).encode()).hexdigest()[:8]
        return base / f"dynid-{os.getuid()}-{digest}"

    @property
    def database(self) -> str:
        """SQLAlchemy URL of the database."""
        return self.database_url or f"sqlite:///{self.data_dir / 'dynid.sqlite3'}"


def load_settings(path: Path | None = None, **overrides: Any) -> Settings:
    """Read the file (``path``, else ``DYNID_CONFIG``, else none), the environment and ``overrides``.

    Raises
    ------
    ConfigurationError
        A file that is missing or not TOML, or a key or value that is not valid.
    """
    named = os.environ.get(CONFIG_VARIABLE)
    file = path if path is not None else Path(named) if named else None
    from_file = {} if file is None else _resolve_paths(_read_toml(file), file.absolute().parent)
    try:
        from_env = EnvSettingsSource(Settings)()
        return Settings(**_merge(_merge(from_file, from_env), overrides))
    except ValidationError as error:
        raise _explain(error, file, from_file) from error
    except SettingsError as error:
        raise ConfigurationError(f"environment: {error}") from error


def is_model_path(model: str) -> bool:
    """Tell a path of a model file from a catalogue name: it has a folder or a suffix."""
    return "/" in model or bool(Path(model).suffix)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigurationError(f"no configuration file at {file}", path=str(file)) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read {file}: {error}", path=str(file)) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file} is not valid TOML: {error}", path=str(file)) from error


def _resolve_paths(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    resolved = dict(values)
    for key in ("data_dir", "runtime_dir", "tls_certificate", "tls_key"):
        if isinstance(resolved.get(key), str):
            resolved[key] = str(folder / Path(resolved[key]).expanduser())
    robots = resolved.get("robots")
    if isinstance(robots, dict):
        resolved["robots"] = {name: _resolve_robot(robot, folder) for name, robot in robots.items()}
    return resolved


def _resolve_robot(robot: Any, folder: Path) -> Any:
    if not isinstance(robot, dict):
        return robot
    files = {
        key: str(folder / Path(value).expanduser())
        for key in ("model", "layout")
        if isinstance(value := robot.get(key), str) and is_model_path(value)
    }
    return {**robot, **files}


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[key] = _merge(below, value) if both else value  # type: ignore[arg-type]
    return merged


_MESSAGES = {"extra_forbidden": "is not a setting", "missing": "is required"}


def _explain(error: ValidationError, file: Path | None, from_file: Mapping[str, Any]) -> ConfigurationError:
    problems = []
    for item in error.errors(include_url=False):
        location = tuple(str(part) for part in item["loc"] if part != "[key]")
        source = _source(location, file, from_file)
        message = _MESSAGES.get(item["type"], re.sub(r"^Value error, ", "", item["msg"]))
        given = item.get("input")
        shown = f" (got {given!r})" if isinstance(given, str | int | float) and location != ("api_key",) else ""
        problems.append({"source": source, "key": ".".join(location), "message": message + shown})
    text = "; ".join(f"{p['source']}: {p['key'] + ': ' if p['key'] else ''}{p['message']}" for p in problems)
    return ConfigurationError(text, problems=problems)


def _source(location: tuple[str, ...], file: Path | None, from_file: Mapping[str, Any]) -> str:
    """Name where a value came from: the variable, the file, or neither (a missing key, an argument)."""
    for depth in range(len(location), 0, -1):
        variable = ENV_PREFIX + "__".join(location[:depth]).upper()
        if any(name.upper() == variable for name in os.environ):
            return f"environment variable {variable}"
    if file is not None and (not location or location[0] in from_file):
        return str(file)
    return "settings" if file is None else f"settings ({file})"
