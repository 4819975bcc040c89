"""MCAP recordings: judged by an independent decoder, by hand-computed bytes, and by cutting files up."""

from __future__ import annotations

import contextlib
import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcap.reader import make_reader
from mcap.writer import CompressionType, Writer
from mcap_ros2.decoder import DecoderFactory

from core.errors import RecordingError
from core.recordings.joint_sample import SCHEMA_NAME, joints_of_schema, schema_text, topic
from core.recordings.mcap_log import McapSampleWriter, StoredLog, describe, read_mcap, read_samples
from core.recordings.partial_file import partial_path
from core.streaming.samples import JOINT_FIELDS, SampleBlock, sample_dtype


def make_samples(count: int, n_joints: int = 6, first: int = 1000) -> SampleBlock:
    samples = np.zeros(count, sample_dtype(n_joints))
    rng = np.random.default_rng(count + n_joints)
    samples["sequence"] = first + np.arange(count)
    samples["controller_time"] = 50.0 + 0.002 * np.arange(count)
    samples["receive_time"] = 10**12 + 2_000_000 * np.arange(count)
    samples["status"] = 3
    for name in JOINT_FIELDS:
        samples[name] = rng.normal(size=(count, n_joints))
    return samples


def write(path: Path, samples: SampleBlock, per_chunk: int = 25, **context: str) -> StoredLog:
    n_joints = samples["q"].shape[1]
    writer = McapSampleWriter.create(path, n_joints, robot="cell-1", context=context)
    for start in range(0, samples.size, per_chunk):
        writer.write(samples[start : start + per_chunk])
    return writer.finish({"interrupted": "false"})


def decode_independently(path: Path) -> list[Any]:
    """All messages as the ``mcap`` and ``mcap-ros2-support`` packages read them, checksums included."""
    with path.open("rb") as file:
        reader = make_reader(file, validate_crcs=True, decoder_factories=[DecoderFactory()])
        return list(reader.iter_decoded_messages())


# --- whole files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_joints", [1, 6, 7])
def test_an_independent_decoder_reads_every_field(tmp_path: Path, n_joints: int) -> None:
    samples = make_samples(130, n_joints)
    stored = write(tmp_path / "a.mcap", samples)
    decoded = decode_independently(stored.path)
    assert len(decoded) == 130
    for row, (schema, channel, record, message) in enumerate(decoded):
        assert (schema.name, channel.topic) == (SCHEMA_NAME, "/cell_1/samples")
        assert record.sequence == message.sequence == samples["sequence"][row]
        for name in samples.dtype.names:
            np.testing.assert_array_equal(getattr(message, name), samples[name][row])


def test_bytes_follow_the_cdr_rules(tmp_path: Path) -> None:
    samples = make_samples(2)
    write(tmp_path / "a.mcap", samples)
    with (tmp_path / "a.mcap").open("rb") as file:
        _, _, message = next(make_reader(file).iter_messages())
    payload = message.data
    assert payload[:4] == bytes([0, 1, 0, 0])  # plain CDR, little endian, no options
    assert len(payload) == 4 + 32 + 8 * 6 * 8
    body = payload[4:]  # alignment counts from here
    assert struct.unpack_from("<Qdq", body, 0) == (1000, 50.0, 10**12)
    assert struct.unpack_from("<II", body, 24) == (3, 0)
    for place, name in enumerate(JOINT_FIELDS):
        np.testing.assert_array_equal(struct.unpack_from("<6d", body, 32 + 48 * place), samples[name][0])


def test_log_time_is_wall_time(tmp_path: Path) -> None:
    samples = make_samples(60)
    write(tmp_path / "a.mcap", samples)
    facts = read_samples(tmp_path / "a.mcap").facts["dynid.recording"]
    offset = int(facts["realtime_minus_monotonic_ns"])
    times = [message.log_time for _, _, message, _ in decode_independently(tmp_path / "a.mcap")]
    assert times == [int(receive) + offset for receive in samples["receive_time"]]


def test_the_summary_serves_indexed_readers(tmp_path: Path) -> None:
    samples = make_samples(100)
    stored = write(tmp_path / "a.mcap", samples, per_chunk=25, recording_id="rec_1")
    with stored.path.open("rb") as file:
        reader = make_reader(file)
        summary = reader.get_summary()
        assert summary is not None
        assert summary.statistics is not None
        assert summary.statistics.message_count == 100
        assert len(summary.chunk_indexes) == 4
        metadata = {record.name: record.metadata for record in reader.iter_metadata()}
        start = summary.chunk_indexes[2].message_start_time
        late = [m.sequence for _, _, m in reader.iter_messages(starting_at=start)]
    assert late == list(range(1050, 1100))
    assert metadata["dynid.recording"]["robot"] == "cell-1"
    assert metadata["dynid.context"] == {"recording_id": "rec_1"}
    assert metadata["dynid.summary"] == {
        "interrupted": "false",
        "samples": "100",
        "lost": "0",
        "lapped": "0",
        "controller_time_first": "50.0",
        "receive_time_first": "1000000000000",
        "controller_time_last": "50.198",
        "receive_time_last": "1000198000000",
    }


def test_round_trip_to_a_recording(tmp_path: Path) -> None:
    samples = make_samples(100)
    samples["torque"] = np.nan
    stored = write(tmp_path / "a.mcap", samples)
    recording = read_mcap(stored.path)
    assert recording.torque is None
    assert recording.name == "a.mcap"
    assert recording.provenance["sha256"] == stored.sha256
    np.testing.assert_array_equal(recording.t, samples["controller_time"])
    for name in set(recording.SIGNALS) - {"torque"}:
        signal = getattr(recording, name)
        np.testing.assert_array_equal(signal, samples[name])
        assert signal.flags.c_contiguous
    part = read_mcap(stored.path, (11, 20))
    np.testing.assert_array_equal(part.q, samples["q"][10:20])
    assert part.provenance["rows"] == [11, 20]
    with pytest.raises(RecordingError, match="rows 11-101 do not lie within 1-100"):
        read_mcap(stored.path, (11, 101))


def test_hash_and_size_are_those_of_the_file(tmp_path: Path) -> None:
    stored = write(tmp_path / "a.mcap", make_samples(50))
    (line,) = subprocess.check_output(["sha256sum", stored.path], text=True).splitlines()
    assert line.split()[0] == stored.sha256
    assert stored.path.stat().st_size == stored.bytes
    assert not partial_path(stored.path).exists()


def test_partly_measured_torque_is_refused(tmp_path: Path) -> None:
    samples = make_samples(50)
    samples["torque"][10, 2] = np.nan
    write(tmp_path / "a.mcap", samples)
    with pytest.raises(RecordingError, match="torque of joint 3 is not finite at sample 11"):
        read_mcap(tmp_path / "a.mcap")


def test_lost_and_lapped_are_told_apart(tmp_path: Path) -> None:
    samples = np.delete(make_samples(100), [0, 1, 20, 21, 22, *range(50, 60)])
    writer = McapSampleWriter.create(tmp_path / "a.mcap", 6, robot="r")
    writer.note_lapped(2)  # before the first sample: not between first and last
    writer.write(samples[samples["sequence"] < 1050])
    writer.note_lapped(10)
    writer.write(samples[samples["sequence"] >= 1060])
    stored = writer.finish()
    assert (stored.samples, stored.lost, stored.lapped) == (85, 3, 12)
    assert describe(stored.path)[0] == stored
    back = read_samples(stored.path)
    assert (back.lapped, back.lapped_inside) == (12, 10)
    assert read_mcap(stored.path).lost == 13


def test_files_rewritten_by_other_tools_are_read(tmp_path: Path) -> None:
    samples = make_samples(80)
    original = write(tmp_path / "a.mcap", samples)
    for name, options in {
        "lz4": {"compression": CompressionType.LZ4, "chunk_size": 7000},
        "unchunked": {"use_chunking": False},
    }.items():
        with original.path.open("rb") as file, (tmp_path / name).open("wb") as out:
            writer = Writer(out, **options)
            writer.start("ros2")
            other = writer.register_channel("/other", "json", writer.register_schema("s", "jsonschema", b"{}"))
            ours = None
            for schema, channel, message in make_reader(file).iter_messages():
                if ours is None:
                    identifier = writer.register_schema(schema.name, schema.encoding, schema.data)
                    ours = writer.register_channel(channel.topic, channel.message_encoding, identifier)
                writer.add_message(other, message.log_time, b"{}", message.publish_time)
                writer.add_message(ours, message.log_time, message.data, message.publish_time, message.sequence)
            writer.finish()
        np.testing.assert_array_equal(read_samples(tmp_path / name).samples, samples)


# --- damaged files ---------------------------------------------------------------------------------------


def test_a_file_cut_anywhere_gives_what_is_whole(tmp_path: Path) -> None:
    samples = make_samples(100)
    stored = write(tmp_path / "a.mcap", samples, per_chunk=20)
    data = stored.path.read_bytes()
    target = tmp_path / "cut.mcap"
    rng = np.random.default_rng(5)
    found = set()
    begin = data.index(b"dynid.recording") + 200  # behind what every file begins with
    for end in [*rng.integers(begin, len(data), 60), len(data) - 1, len(data) - 9]:
        partial_path(target).write_bytes(data[:end])
        whole = read_whole(partial_path(target))
        np.testing.assert_array_equal(whole, samples[: whole.size])
        assert whole.size % 20 == 0
        found.add(whole.size)
        resumed, seen = McapSampleWriter.resume(target)
        np.testing.assert_array_equal(seen.samples, whole)
        finished = resumed.finish({"salvaged": "true"})
        assert finished.samples == whole.size
        assert len(decode_independently(target)) == whole.size
        if whole.size:
            again = read_samples(target)
            np.testing.assert_array_equal(again.samples, whole)
            assert again.facts["dynid.summary"]["salvaged"] == "true"
            assert again.sha256 == finished.sha256
        target.unlink()
    assert found == {0, 20, 40, 60, 80, 100}


def read_whole(path: Path) -> SampleBlock:
    """Samples of a damaged file, having checked that it is not taken for a whole one."""
    with pytest.raises(RecordingError) as caught:
        read_samples(path)
    assert caught.value.code == "recording-truncated"
    try:
        stored = read_samples(path, allow_truncated=True)
    except RecordingError as error:
        assert error.code == "recording-empty"
        return np.empty(0, sample_dtype(6))
    assert stored.damage is not None
    assert stored.facts["damage"]["offset"] == caught.value.context["offset"]
    return stored.samples


def test_a_resumed_file_can_be_written_on(tmp_path: Path) -> None:
    samples = make_samples(90)
    path = tmp_path / "a.mcap"
    writer = McapSampleWriter.create(path, 6, robot="r")
    writer.write(samples[:30])
    writer.note_lapped(10)
    writer.close()
    resumed, _ = McapSampleWriter.resume(path)
    assert resumed.last_sequence == 1029
    resumed.write(samples[40:])
    stored = resumed.finish()
    assert (stored.samples, stored.lost, stored.lapped) == (80, 0, 10)
    np.testing.assert_array_equal(read_samples(path).samples, np.delete(samples, range(30, 40)))


@pytest.mark.parametrize("damage", ["flip", "zeros"])
def test_damage_within_is_found_by_its_checksum(tmp_path: Path, damage: str) -> None:
    samples = make_samples(100)
    stored = write(tmp_path / "a.mcap", samples, per_chunk=20)
    data = bytearray(stored.path.read_bytes())
    with stored.path.open("rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    third = summary.chunk_indexes[2].chunk_start_offset
    if damage == "flip":
        data[third + 3000] ^= 1
    else:
        data[third:] = bytes(len(data) - third)
    stored.path.write_bytes(data)
    with pytest.raises(RecordingError, match=f"damaged at byte {third} .*the 40 samples before it"):
        read_mcap(stored.path)
    recording = read_mcap(stored.path, allow_truncated=True)
    np.testing.assert_array_equal(recording.q, samples["q"][:40])
    assert recording.provenance["damage"]["offset"] == third


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(flips=st.lists(st.tuples(st.integers(0, 2**20), st.integers(1, 255)), min_size=1, max_size=4))
def test_no_damage_ends_in_another_error(tmp_path: Path, flips: list[tuple[int, int]]) -> None:
    path = tmp_path / "a.mcap"
    if not path.exists():
        write(path, make_samples(9, 1), per_chunk=3, operator="A")
    data = bytearray(path.read_bytes())
    for position, mask in flips:
        data[position % len(data)] ^= mask
    partial_path(tmp_path / "b.mcap").write_bytes(data)
    with contextlib.suppress(RecordingError):
        read_mcap(partial_path(tmp_path / "b.mcap"), allow_truncated=True)
    with contextlib.suppress(RecordingError):
        writer, _ = McapSampleWriter.resume(tmp_path / "b.mcap")
        writer.finish()
    (tmp_path / "b.mcap").unlink(missing_ok=True)


# --- files that are not ours -----------------------------------------------------------------------------


def foreign(path: Path, *channels: tuple[str, str, str, bytes], data: bytes = b"") -> None:
    with path.open("wb") as out:
        writer = Writer(out, compression=CompressionType.NONE)
        writer.start()
        for name, schema, encoding, text in channels:
            identifier = writer.register_schema(schema, "ros2msg", text)
            channel = writer.register_channel(name, encoding, identifier)
            writer.add_message(channel, 1, data or bytes(420), 1)
        writer.finish()


def joint_sample(n_joints: int) -> bytes:
    return schema_text(n_joints).encode()


NOT_OURS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "empty": (lambda p: p.write_bytes(b""), "is empty"),
    "text": (lambda p: p.write_text("time,q1\n0,0\n"), "is not an MCAP file"),
    "tiny": (lambda p: p.write_bytes(b"\x89MC"), "is not an MCAP file"),
    "missing": (lambda p: None, "No such file"),
    "folder": (lambda p: p.mkdir(), "Is a directory"),
    "no channel": (foreign, "no channel at all"),
    "other schema": (
        lambda p: foreign(p, ("/joint_states", "sensor_msgs/msg/JointState", "cdr", b"string[] name")),
        r"/joint_states \(sensor_msgs/msg/JointState, cdr\)",
    ),
    "other encoding": (
        lambda p: foreign(p, ("/r/samples", SCHEMA_NAME, "json", joint_sample(6))),
        "JointSample messages in CDR",
    ),
    "other layout": (
        lambda p: foreign(p, ("/r/samples", SCHEMA_NAME, "cdr", joint_sample(6).replace(b"uint32", b"uint64"))),
        "laid out differently",
    ),
    "two robots": (
        lambda p: foreign(p, *((f"/{r}/samples", SCHEMA_NAME, "cdr", joint_sample(6)) for r in "ab")),
        "several robots",
    ),
    "wrong size": (
        lambda p: foreign(p, ("/r/samples", SCHEMA_NAME, "cdr", joint_sample(6)), data=bytes(99)),
        "size is not that of their schema",
    ),
    "big endian": (
        lambda p: foreign(p, ("/r/samples", SCHEMA_NAME, "cdr", joint_sample(6))),
        "not plain little-endian CDR",
    ),
    "no samples": (lambda p: McapSampleWriter.create(p, 6, robot="r").finish(), "holds no samples"),
}


@pytest.mark.parametrize("case", NOT_OURS)
def test_each_kind_of_foreign_file_is_named(tmp_path: Path, case: str) -> None:
    make, message = NOT_OURS[case]
    path = tmp_path / "file.mcap"
    make(path)
    with pytest.raises(RecordingError, match=message) as caught:
        read_mcap(path)
    assert str(path) in caught.value.detail


def test_the_schema_is_known_by_its_fields_not_its_comments() -> None:
    bare = "\n".join(line.split("#")[0] for line in schema_text(7).splitlines())
    assert joints_of_schema(bare) == 7
    assert joints_of_schema(bare + "float64 extra\n") is None
    assert joints_of_schema("") is None
    assert topic("arm-2") == "/arm_2/samples"


# --- writing ---------------------------------------------------------------------------------------------


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    writer = McapSampleWriter.create(path, 6, robot="r")
    for attempt in (lambda: McapSampleWriter.create(path, 6, robot="r"), lambda: McapSampleWriter.resume(path)):
        with pytest.raises(RecordingError, match="being written"):
            attempt()
    writer.write(make_samples(10))
    path.write_text("somebody else's")
    with pytest.raises(RecordingError, match="already"):
        writer.finish()
    writer.close()
    assert path.read_text() == "somebody else's"
    assert read_samples(partial_path(path)).samples.size == 10
    with pytest.raises(RecordingError, match="already"):
        McapSampleWriter.create(path, 6, robot="r")


def test_a_file_can_be_cut_back_to_a_mark(tmp_path: Path) -> None:
    samples = make_samples(60)
    writer = McapSampleWriter.create(tmp_path / "a.mcap", 6, robot="r")
    writer.write(samples[:20])
    mark = writer.mark()
    for _ in range(2):
        writer.note_lapped(5)
        writer.write(samples[25:])
        writer.cut_back(mark)
    writer.write(samples[20:30])
    stored = writer.finish()
    assert (stored.samples, stored.lost, stored.lapped) == (30, 0, 0)
    assert describe(stored.path)[0] == stored  # hash and size too
    assert [m.sequence for _, _, m, _ in decode_independently(stored.path)] == list(range(1000, 1030))


def test_a_discarded_file_is_gone(tmp_path: Path) -> None:
    writer = McapSampleWriter.create(tmp_path / "a.mcap", 6, robot="r")
    writer.write(make_samples(10))
    writer.discard()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RecordingError, match="does not exist"):
        McapSampleWriter.resume(tmp_path / "a.mcap")


def test_a_restarted_controller_does_not_continue_a_recording(tmp_path: Path) -> None:
    samples = make_samples(20)
    writer = McapSampleWriter.create(tmp_path / "a.mcap", 6, robot="r")
    writer.write(samples[:10])
    with pytest.raises(RecordingError, match="from 1009 to 1005") as caught:
        writer.write(samples[5:])
    assert caught.value.code == "sequence-not-increasing"
    with pytest.raises(RecordingError, match="from 1019 to 1010"):
        writer.write(samples[[10, 19, 10]])
    writer.write(samples[10:])
    assert writer.finish().samples == 20


FILLS_THE_DISK = """
import json, resource, sys
from pathlib import Path
import numpy as np
from core.recordings.mcap_log import McapSampleWriter
from core.streaming.samples import sample_dtype
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
writer = McapSampleWriter.create(Path(sys.argv[1]), 6, robot="r")
block = np.zeros(10, sample_dtype(6))
try:
    for start in range(0, 10_000, 10):
        block["sequence"] = start + np.arange(10)
        writer.write(block)
except OSError as error:
    print(json.dumps([error.errno, writer.samples]))
"""


def test_a_full_disk_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    out = subprocess.check_output([sys.executable, "-c", FILLS_THE_DISK, path], text=True)
    _, written = json.loads(out)
    assert 150 < written < 220  # of 470 bytes each
    writer, stored = McapSampleWriter.resume(path)
    assert stored.damage is not None
    assert stored.damage.reason == "it ends without a footer"  # not: within a record
    assert stored.samples.size == written
    assert writer.finish().samples == written
