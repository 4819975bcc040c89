"""JointState messages, written by other people's packages into bags and MCAP files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcap_ros2.writer import Writer as McapWriter
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as BagWriter
from rosbags.typesys import Stores, get_typestore

from core.errors import RecordingError
from core.recordings import Recording, read

N = 60
T = np.arange(N) * 0.008
Q = np.random.default_rng(0).normal(size=(N, 2))
START = 1_700_000_000_000_000_001
STAMPS = (START + np.rint(T * 1e9).astype(np.int64)).tolist()
STORE = get_typestore(Stores.ROS2_HUMBLE)
DEFINITION = """\
std_msgs/Header header
string[] name
float64[] position
float64[] velocity
float64[] effort
================================================================================
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
================================================================================
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
"""


def messages(
    names: tuple[str, ...] = ("elbow", "base"), *, stamped: bool = True, velocity: bool = True, q: np.ndarray = Q
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Time of arrival (ns) and content; arrival is 5 ms after the stamp."""
    for stamp, position in zip(STAMPS, q.tolist(), strict=True):
        header = {"sec": stamp // 10**9, "nanosec": stamp % 10**9} if stamped else {"sec": 0, "nanosec": 0}
        speed = [2.0 * x for x in position] if velocity else []
        yield (
            stamp + 5_000_000,
            {
                "header": {"stamp": header, "frame_id": "world"},
                "name": list(names),
                "position": position,
                "velocity": speed,
                "effort": [3.0 * x for x in position],
            },
        )


def write_mcap(path: Path, topics: dict[str, Any]) -> None:
    with path.open("wb") as file:
        writer = McapWriter(file, chunk_size=2000)
        schema = writer.register_msgdef("sensor_msgs/msg/JointState", DEFINITION)
        merged = sorted(((at, topic, m) for topic, found in topics.items() for at, m in found), key=lambda x: x[:2])
        for at, topic, message in merged:
            writer.write_message(topic, schema, message, at, at)
        writer.finish()


def write_bag(path: Path, storage: StoragePlugin, found: Any, *, little_endian: bool = True) -> None:
    header, stamp, state = (
        STORE.types[name]
        for name in ("std_msgs/msg/Header", "builtin_interfaces/msg/Time", "sensor_msgs/msg/JointState")
    )
    with BagWriter(path, version=9, storage_plugin=storage) as bag:
        connection = bag.add_connection("/joint_states", state.__msgtype__, typestore=STORE)
        bag.add_connection("/rosout", "rcl_interfaces/msg/Log", typestore=STORE)
        for at, m in found:
            message = state(
                header(stamp(**m["header"]["stamp"]), m["header"]["frame_id"]),
                m["name"],
                *(np.array(m[field]) for field in ("position", "velocity", "effort")),
            )
            payload = STORE.serialize_cdr(message, state.__msgtype__, little_endian=little_endian)
            bag.write(connection, at, payload)


def check(recording: Recording) -> None:
    assert recording.t == pytest.approx(T, abs=1e-9)
    assert np.array_equal(recording.q, Q)
    assert np.array_equal(recording.qd, 2.0 * Q)
    assert np.array_equal(recording.torque, 3.0 * Q)
    assert recording.joint_names == ("elbow", "base")
    assert recording.provenance["topic"] == "/joint_states"
    assert recording.provenance["first_stamp_ns"] == START
    assert recording.provenance["clock"] == "stamps"


def test_mcap_files_of_joint_states_are_read(tmp_path):
    path = tmp_path / "run.mcap"
    write_mcap(path, {"/joint_states": messages()})
    check(read(path, "mcap"))
    check(read(path, "rosbag"))
    assert np.array_equal(read(path, "mcap", (11, 20)).q, Q[10:20])


@pytest.mark.parametrize("storage", [StoragePlugin.SQLITE3, StoragePlugin.MCAP])
@pytest.mark.parametrize("little_endian", [True, False])
def test_bags_of_both_storages_and_byte_orders_are_read(tmp_path, storage, little_endian):
    path = tmp_path / "bag"
    write_bag(path, storage, messages(), little_endian=little_endian)
    recording = read(path, "rosbag")
    check(recording)
    assert len(recording.provenance["sha256"]) == 64
    (file,) = (p for p in path.iterdir() if p.suffix in (".db3", ".mcap"))
    check(read(file, "rosbag"))


def test_effort_may_be_current_velocity_absent_and_stamps_zero(tmp_path):
    path = tmp_path / "run.mcap"
    write_mcap(path, {"/joint_states": messages(stamped=False, velocity=False)})
    recording = read(path, "mcap", columns={"effort": "current"})
    assert recording.qd is None
    assert recording.torque is None
    assert np.array_equal(recording.current, 3.0 * Q)
    assert recording.t == pytest.approx(T, abs=1e-9)
    assert recording.provenance["clock"] == "arrival"
    in_degrees = {"t": "stamp", "q": {"columns": "position", "unit": "deg"}}
    assert read(path, "mcap", columns=in_degrees).q == pytest.approx(np.radians(Q))


def test_topics_and_joints_are_chosen_by_the_map(tmp_path):
    path = tmp_path / "run.mcap"
    write_mcap(path, {"/arm": messages(), "/gripper": messages(("finger", "thumb"))})
    with pytest.raises(RecordingError, match="there are several; there are /arm, /gripper") as refusal:
        read(path, "mcap")
    assert refusal.value.code == "recording-topic"
    assert read(path, "mcap", columns={"topic": "/gripper"}).joint_names == ("finger", "thumb")
    with pytest.raises(RecordingError, match="topic /leg has none"):
        read(path, "mcap", columns={"topic": "/leg"})

    one = tmp_path / "one.mcap"  # both publishers on one topic, as joint_state_broadcasters do
    late = [(at + 1, message) for at, message in messages(("finger", "thumb"))]
    write_mcap(one, {"/joint_states": [*messages(), *late]})
    with pytest.raises(
        RecordingError, match=r"message 2 is of other joints than the first \(finger, thumb\)"
    ) as refusal:
        read(one, "mcap")
    assert refusal.value.code == "joint-names-differ"
    recording = read(one, "mcap", columns={"joint_names": ["base", "elbow"]})
    assert np.array_equal(recording.q, Q[:, ::-1])
    assert recording.provenance["messages_of_other_joints"] == N
    for names, message in ((["base", "finger"], "has no"), (["wrist"], "no message is of wrist")):
        with pytest.raises(RecordingError, match=message):
            read(one, "mcap", columns={"joint_names": names})


def test_order_of_joints_may_change_from_message_to_message(tmp_path):
    path = tmp_path / "run.mcap"
    both = zip(messages(), messages(("base", "elbow"), q=Q[:, ::-1]), strict=True)
    write_mcap(path, {"/joint_states": [pair[i % 2] for i, pair in enumerate(both)]})
    check(read(path, "mcap"))


def test_damaged_files_are_refused_and_repaired(tmp_path):
    path = tmp_path / "run.mcap"
    write_mcap(path, {"/joint_states": messages()})
    repeated = tmp_path / "repeated.mcap"
    write_mcap(repeated, {"/joint_states": [m for i, m in enumerate(messages()) for _ in range(1 + (i == 30))]})
    with pytest.raises(RecordingError, match="time does not increase at row 32") as refusal:
        read(repeated, "mcap")
    assert refusal.value.code == "recording-time-order"
    torn = tmp_path / "torn.mcap"
    content = path.read_bytes()
    torn.write_bytes(content[: len(content) // 2])
    with pytest.raises(RecordingError, match="damaged at byte") as refusal:
        read(torn, "mcap")
    assert refusal.value.code == "recording-truncated"
    whole = read(torn, "mcap", repair=True)
    assert 5 < whole.t.size < N
    assert np.array_equal(whole.q, Q[: whole.t.size])
    assert whole.provenance["damage"]["offset"] > 0
    bag = tmp_path / "bag"
    write_bag(bag, StoragePlugin.SQLITE3, messages())
    next(bag.glob("*.db3")).write_bytes(b"SQLite format 3\0" + b"\1" * 5000)
    with pytest.raises(RecordingError, match="cannot be read as a ROS 2 bag") as refusal:
        read(bag, "rosbag")
    assert refusal.value.code == "recording-foreign"


def test_values_that_do_not_match_the_names_are_refused(tmp_path):
    path = tmp_path / "run.mcap"
    write_mcap(path, {"/joint_states": messages(("elbow", "base", "wrist"))})
    with pytest.raises(RecordingError, match=r"message 1 is no .*: it has 2 values of position for 3 names") as refusal:
        read(path, "mcap")
    assert refusal.value.code == "recording-torn"


def test_files_without_joint_states_say_what_they_hold(tmp_path):
    with pytest.raises(RecordingError, match="there is no such file or folder"):
        read(tmp_path / "none", "rosbag")
    bag = tmp_path / "bag"
    with BagWriter(bag, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        writer.add_connection("/rosout", "rcl_interfaces/msg/Log", typestore=STORE)
    with pytest.raises(RecordingError, match=r"holds no sensor_msgs/msg/JointState messages, but /rosout") as refusal:
        read(bag, "rosbag")
    assert refusal.value.code == "recording-foreign"
