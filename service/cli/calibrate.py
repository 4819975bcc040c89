"""``dynid calibrate``: at robot start-up, unattended: is the robot still the one that was identified?"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from service.cli.outputs import check_output, write_json

_PAUSE = 0.2
"""s between two looks at whether the service is ready."""
FLAGGED = 3
"""Exit code for a robot that is not as it was identified."""


def calibrate(
    robot: Annotated[str, typer.Option(help="Robot of the settings.")],
    profile: Annotated[str, typer.Option(help="Profile under [robots.NAME.calibration] of the settings.")],
    config: Annotated[Path | None, typer.Option(help="Settings file (TOML) of the running service.")] = None,
    url: Annotated[
        str | None, typer.Option(help="Where the service is; by default host and port of the settings.")
    ] = None,
    key_file: Annotated[
        Path | None, typer.Option(help="File with an operator's key; by default the service's own in data_dir.")
    ] = None,
    wait: Annotated[float, typer.Option(min=0.0, help="s to wait for a service that is just starting.")] = 60.0,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the result to this file.")] = None,
) -> None:
    """Move a robot along its calibration profile and compare it with its result in force.

    Exit codes: 0 it is as it was identified, or was identified again and the new result is in force; 3 it has changed,
    and how is said; 1 it could not be told.
    THE ROBOT MOVES: the profile is what somebody wrote into the settings for exactly that.
    """
    from core.errors import InputError
    from service.cli.reidentification import identify_again
    from service.client import Client
    from service.settings import load_settings

    check_output("--json", json_file)
    settings = load_settings(config)
    if robot not in settings.robots:
        raise InputError(f"--robot: there is no robot {robot!r} in the settings; there are {_listed(settings.robots)}")
    profiles = settings.robots[robot].calibration
    if profile not in profiles:
        raise InputError(f"--profile: {robot} has no profile {profile!r}; it has {_listed(profiles)}")
    chosen = profiles[profile]
    scheme = "http" if settings.tls_certificate is None else "https"
    address = url or f"{scheme}://{settings.host}:{settings.port}"
    until = time.monotonic() + wait
    with Client(address, _key(settings, key_file, until)) as client:
        _wait_until_ready(client, robot, until)
        with client.lease(robot, holder="dynid calibrate") as lease:
            client.post(f"/robots/{robot}/permit", lease=lease)
            result = client.calibrate(robot, profile, lease=lease, timeout=chosen.time_limit)
            if result["outcome"] == "flagged" and chosen.reidentify is not None:
                typer.echo(f"{robot} has changed: {result['summary']}; identifying it again")
                result = identify_again(client, robot, chosen, chosen.reidentify, result, lease)
    typer.echo(f"{robot} is {result['outcome']}: {result['summary']}")
    for reason in result.get("reasons", []):
        typer.echo(f"the new result {result['new_result_id']} did not pass: {reason}")
    if json_file is not None:
        write_json(json_file, result)
    if result["outcome"] == "flagged":
        raise typer.Exit(FLAGGED)


def _wait_until_ready(client: Any, robot: str, until: float) -> None:
    """Wait until the service answers and the robot's samples arrive."""
    from service.client import ServiceUnreachableError

    while True:
        try:
            device = client.get(f"/robots/{robot}")["status"]
            if device["connection"] == "streaming":
                return
            reason = f"{robot} is {device['connection']}: {device['reason'] or 'no reason given'}"
        except ServiceUnreachableError as error:
            reason = error.detail
        if time.monotonic() > until:
            raise ServiceUnreachableError(f"not ready in time (--wait): {reason}", code="robot-not-ready")
        time.sleep(_PAUSE)


def _key(settings: Any, key_file: Path | None, until: float) -> str:
    """Return the key to use; the service's own is there once the service has started for the first time."""
    from core.errors import InputError
    from service.api.auth import KEY_FILE

    if settings.api_key is not None and key_file is None:
        return str(settings.api_key.get_secret_value())
    path = key_file or settings.data_dir / KEY_FILE
    while key_file is None and not path.exists() and time.monotonic() < until:
        time.sleep(_PAUSE)
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--key-file: cannot read {path}: {error}") from error


def _listed(names: Any) -> str:
    return ", ".join(sorted(names)) or "none"
