"""The example settings are valid, and name every setting there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from service.settings import ModbusSettings, RobotSettings, Settings, load_settings

EXAMPLE = Path(__file__).parents[2] / "deploy" / "dynid.example.toml"


def test_it_loads_as_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DYNID_CONFIG", raising=False)
    settings = load_settings(EXAMPLE)
    assert settings.robots["cell1"].model == "ur10e"
    assert not settings.robots["cell1"].motion_enabled


def test_it_names_every_setting() -> None:
    named = set(re.findall(r"^(?:# )?(\w+) = ", EXAMPLE.read_text(), re.MULTILINE))
    sections = (Settings, RobotSettings, ModbusSettings)
    wanted = {name for section in sections for name in section.model_fields} - {"robots", "modbus", "name"}
    assert named == wanted
