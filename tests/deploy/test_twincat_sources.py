"""The PLC's sources declare what the driver expects to find."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from drivers import twincat_layout as layout
from drivers.virtual.twincat import path, program

SOURCES = Path(__file__).parents[2] / "deploy" / "twincat"
FILES = sorted(path for path in SOURCES.iterdir() if path.suffix.startswith(".Tc"))
ENUMERATIONS = (layout.Mode, layout.Command, layout.Result, layout.End, layout.Error, layout.TableState)


def tree(path: Path) -> ElementTree.Element:
    return ElementTree.fromstring(path.read_bytes())  # noqa: S314 - this repository's own files


def declaration(name: str) -> str:
    (path,) = SOURCES.glob(f"{name}.Tc*")
    return str(tree(path).findtext(".//Declaration"))


def declared(text: str) -> list[tuple[str, str]]:
    """Return name and type of all variables of a declaration."""
    return re.findall(r"^\s+(\w+) : ([^;:]+?)(?: :=[^;]*)?;", text, re.MULTILINE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_is_named_for_its_object(path: Path) -> None:
    (item,) = tree(path)
    assert item.get("Name") == path.stem
    assert path.stem in declaration(path.stem) or item.tag == "GVL"


def test_no_two_objects_share_an_id() -> None:
    ids = [element.get("Id") for path in FILES for element in tree(path).iter() if element.get("Id")]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("structure", layout.STRUCTURES, ids=lambda structure: structure.name)
def test_a_structure_is_the_drivers(structure: layout.Structure) -> None:
    text = declaration(structure.name)
    assert "{attribute 'pack_mode' := '1'}" in text
    assert declared(text) == [(member.name, member.declared) for member in structure.members]


@pytest.mark.parametrize("enumeration", ENUMERATIONS, ids=lambda enumeration: enumeration.__name__)
def test_numbers_mean_the_same(enumeration: type[layout.Mode]) -> None:
    values = re.findall(r"(\w+) := (\d+)", declaration(f"E_Dynid{enumeration.__name__}"))
    assert values == [(member.name, str(int(member))) for member in enumeration]


def test_the_global_variables_are_the_drivers() -> None:
    found = dict(declared(declaration("GVL_Dynid")))
    for name, kind in layout.VARIABLES.items():
        assert found.pop(name) == (kind if isinstance(kind, str) else kind.name)
    for name, structure in layout.ARRAYS.items():
        length = layout.array_length(found[name])
        assert length is not None
        assert found.pop(name) == layout.array_type(structure, length)
    assert not found


def test_settings_agree_with_the_layout() -> None:
    settings = declaration("GVL_DynidSettings")
    values = dict(re.findall(r"(\w+) : UDINT := (\S+);", settings))
    assert int(values["LAYOUT"]) == layout.VERSION
    variables = dict(declared(declaration("GVL_Dynid")))
    assert layout.array_length(variables["aRing"]) == int(values["RING_LENGTH"])
    assert 2**32 % int(values["RING_LENGTH"]) == 0
    tables = {layout.array_length(variables[name]) for name in ("aTrajectory", "aFeedforward")}
    tables |= {layout.array_length(kind) for _, kind in declared(declaration("GVL_DynidChecked"))}
    assert tables == {int(values["TABLE_LENGTH"])}
    bits = {f"STATUS_{status.name}": f"16#{int(status):X}" for status in layout.Status}
    assert {name: value for name, value in values.items() if name.startswith("STATUS_")} == bits


def test_settings_are_those_of_the_virtual_controller() -> None:
    values = dict(re.findall(r"(\w+) : (?:LREAL|UDINT) := ([\d.]+);", declaration("GVL_DynidSettings")))
    of_program = ("CYCLE", "START_TOLERANCE", "WATCHDOG", "HALT_DECELERATION", "FASTEST_LEG", "FOLLOWING_LIMIT")
    names = (*of_program, "MOVING_SPEED", "RING_LENGTH", "TABLE_LENGTH")
    expected = {name: getattr(program, name) for name in names} | {"STOP_RAMP": path.STOP_RAMP, "FADE": path.FADE}
    assert {name: float(values[name]) for name in expected} == expected
