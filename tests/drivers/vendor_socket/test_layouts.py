"""Layout files: those that ship, what they make of a frame, and what is refused with which words."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.streaming.samples import STATUS_FAULT, STATUS_MOVING, STATUS_PROGRAM_RUNNING, STATUS_PROTECTIVE_STOP
from drivers.vendor_socket.feedback_layout import BinaryFeedback
from drivers.vendor_socket.frames import FrameParser
from drivers.vendor_socket.json_frames import JsonFrameParser
from drivers.vendor_socket.layout import LayoutError, load_layout
from drivers.vendor_socket.samples import SampleMaker

DEG = np.pi / 180.0
SHIPPED = Path(__file__).parents[3] / "drivers" / "vendor_socket" / "layouts"


def samples(name: str, stream: bytes) -> Any:
    layout = load_layout(name)
    feedback, n = layout.feedback, layout.n_joints
    reader = FrameParser(feedback, n) if isinstance(feedback, BinaryFeedback) else JsonFrameParser(feedback, n)
    maker = SampleMaker(layout)
    frames = np.concatenate(reader.feed(stream))
    return maker.samples(frames, 5)[0]


def test_coman_r5(frame_bytes: Any) -> None:
    block = samples("coman_r5", frame_bytes.r5(1000, q=0.2, current_ma=-1500.0, status=1 | 2 | 4))
    np.testing.assert_allclose(block["q"][0], 0.2 + 0.01 * np.arange(6))
    np.testing.assert_allclose(block["qd"][0], 0.5)
    np.testing.assert_allclose(block["current"][0], -1.5, rtol=1e-6)
    np.testing.assert_allclose(block["target_current"][0], 1.0, rtol=1e-6)
    assert np.isnan(block["torque"]).all()
    assert block["controller_time"][0] == pytest.approx(1.0)
    assert block["status"][0] == STATUS_MOVING | STATUS_PROGRAM_RUNNING | STATUS_PROTECTIVE_STOP


def test_dobot(frame_bytes: Any) -> None:
    block = samples("dobot", frame_bytes.dobot(1_700_000_000_008, mode=9) + frame_bytes.dobot(1_700_000_000_016))
    np.testing.assert_allclose(block["q"][0], (90.0 + np.arange(6)) * DEG)
    np.testing.assert_allclose(block["qd"][0], np.pi)
    np.testing.assert_allclose(block["current"][0], 1.5)
    assert block["controller_time"][0] == pytest.approx(1_700_000_000.008, abs=1e-6)
    assert block["status"][0] == STATUS_FAULT


def test_elite_ec(frame_bytes: Any) -> None:
    """Six of eight values, big-endian; older firmware does not tell speeds, so motion is seen from the positions."""
    block = samples("elite_ec", b"".join(frame_bytes.elite(8 * n, 607) for n in range(3)))
    np.testing.assert_allclose(block["q"][1], (90.0 + np.arange(6)) * DEG)
    np.testing.assert_allclose(block["qd"][1], 45.0 * DEG)
    assert (block["status"] == STATUS_MOVING).all()
    block = samples("elite_ec", b"".join(frame_bytes.elite(8 * n, 365, q_deg=0.1 * max(n - 1, 0)) for n in range(4)))
    assert np.isnan(block["qd"]).all()
    assert block["status"].tolist() == [0, 0, STATUS_MOVING, STATUS_MOVING]


def test_xarm(frame_bytes: Any) -> None:
    block = samples("xarm", frame_bytes.xarm(5000) + frame_bytes.xarm(10000))
    np.testing.assert_allclose(block["q"][0], 0.5 + 0.125 * np.arange(7))
    np.testing.assert_allclose(block["current"][0], 2.0)
    np.testing.assert_allclose(block["torque"][0], 16.0)
    assert block["controller_time"][1] == pytest.approx(0.01)


def test_jaka(frame_bytes: Any) -> None:
    block = samples("jaka", frame_bytes.jaka())
    np.testing.assert_allclose(block["q"][0], (90.0 + np.arange(6)) * DEG)
    np.testing.assert_allclose(block["target_q"][0], 90.0 * DEG)
    assert np.isnan(block["qd"]).all()


def test_what_each_can_do() -> None:
    gaps = {path.stem: load_layout(path.stem).motion_gap for path in SHIPPED.glob("*.toml")}
    assert gaps == {
        "coman_r5": None,
        "dobot": None,
        "elite_ec": "its feedback lacks target_q, by which a motion is watched",
        "jaka": "its feedback lacks qd, by which a motion is watched",
        "xarm": "it describes no commands",
    }
    assert not load_layout("coman_r5").confirmed
    assert "to be confirmed with the vendor's document" in load_layout("coman_r5").source


Change = Callable[[dict[str, Any]], None]


def change(path: str, value: Any) -> Change:
    """Set, or with None remove, what a dotted path names."""

    def apply(document: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        for parent in parents:
            document = document[parent]
        if value is None:
            del document[last]
        else:
            document[last] = value

    return apply


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (change("feedback.signal", {}), "feedback.signal is not known here"),
        (change("rate_hz", None), "rate_hz is required"),
        (change("feedback.stamp", None), "feedback.stamp is required"),
        (change("feedback.signals.q", None), "feedback.signals: q is missing"),
        (change("feedback.signals.q.unit", "degrees"), "unknown unit 'degrees'; known: rad, deg"),
        (change("feedback.signals.q.type", "f23"), "feedback.signals.q.type Input should be 'u8', 'i8'"),
        (change("feedback.signals.q.offset", 230), "begins at byte 230, within feedback.signals.target_qd"),
        (change("feedback.signals.target_current.offset", 272), "bytes 272 to 296 are not within a frame of 272"),
        (change("feedback.signals.qd.offset", 60), "feedback.signals.qd begins at byte 60, within feedback.signals.q"),
        (change("feedback.signals.q.joints", [0, 1, 2, 3, 4, 6]), "6 of 6 values are used, the robot has 6 joints"),
        (change("feedback.checksum.kind", "crc33"), "unknown kind 'crc33'; known: crc32, crc16_modbus"),
        (change("feedback.magic", None), "give magic or a size field"),
        (change("feedback.magic.hex", "5z"), "feedback.magic"),
        (change("feedback.status.fault.values", [1]), "give either mask or values"),
        (change("commands.texts.stop", "Stop(<speed>)"), "unknown placeholder <speed>; known: id"),
        (change("commands.accepted", "("), "'(' is not a regular expression"),
        (change("commands.identity.model", "no group"), "identity.model: needs one group"),
        (change("commands.period", None), "texts.servo_point needs period and lookahead"),
        (change("version", 2), "version Input should be 1"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, spoil: Change, words: str) -> None:
    document = tomllib.loads((SHIPPED / "coman_r5.toml").read_text(encoding="utf-8"))
    spoil(document)
    file = tmp_path / "mine.toml"
    file.write_text(toml(document), encoding="utf-8")
    with pytest.raises(LayoutError) as refused:
        load_layout(str(file))
    assert words in refused.value.detail
    assert str(file) in refused.value.detail


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(LayoutError, match="one of coman_r5, dobot, elite_ec, jaka, xarm"):
        load_layout("coman_r6")
    (tmp_path / "torn.toml").write_text("format = ")
    with pytest.raises(LayoutError, match="not valid TOML"):
        load_layout(str(tmp_path / "torn.toml"))


def toml(document: dict[str, Any], prefix: str = "") -> str:
    """Write tables and plain values."""
    import json

    plain = [f"{key} = {json.dumps(value)}" for key, value in document.items() if not isinstance(value, dict)]
    tables = [
        f"\n[{prefix}{key}]\n{toml(value, f'{prefix}{key}.')}"
        for key, value in document.items()
        if isinstance(value, dict)
    ]
    return "\n".join([*plain, *tables])
