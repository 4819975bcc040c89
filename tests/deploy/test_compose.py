"""The compose file starts a service whose settings are valid, and commands that there are."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import yaml

from service.settings import load_settings

SERVICES = yaml.safe_load((Path(__file__).parents[2] / "docker-compose.yml").read_text(encoding="utf-8"))["services"]


def test_the_settings_of_the_service_are_valid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DYNID_CONFIG", raising=False)
    for name, value in SERVICES["dynid"]["environment"].items():
        monkeypatch.setenv(name, value.replace("/var/lib/dynid", str(tmp_path)))
    settings = load_settings(None)
    assert settings.robots["virtual"].virtual
    assert all(port.startswith("127.0.0.1:") for port in SERVICES["dynid"]["ports"])


@pytest.mark.parametrize("name", [name for name, service in SERVICES.items() if "command" in service])
def test_commands_are_of_modules_that_there_are(name: str) -> None:
    command = SERVICES[name]["command"]
    assert command[:2] == ["python", "-m"]
    assert importlib.util.find_spec(command[2]) is not None
