"""The recorder as a real process: what it stores, and how it ends."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.errors import RecordingError
from core.recordings.mcap_log import describe, read_mcap, read_samples
from core.recordings.partial_file import partial_path
from core.streaming.samples import JOINT_FIELDS
from service.recording import RecorderHandle, RecordingHeader, RecordingSummary, salvage
from service.storage import Database, RecordingRow, recordings

HEADER = RecordingHeader(robot="cell1", model_digest="abc", context={"job_id": "job_1"})


def run(coroutine: Any) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, timeout=60))


@asynccontextmanager
async def recording(feeder: Any, path: Path, from_position: int = 0, **options: Any) -> AsyncIterator[RecorderHandle]:
    handle = RecorderHandle(**options)
    try:
        await handle.start(feeder.path, from_position, "rec_1", path, HEADER)
        yield handle
    finally:
        await handle.close()


async def reached(feeder: Any, position: int) -> None:
    await asyncio.to_thread(feeder.wait_for, position)


async def stored(handle: RecorderHandle, position: int) -> None:
    """Return once the recorder says that it has read up to ``position``."""
    while handle.progress is None or handle.progress.position < position:
        await asyncio.sleep(0.01)


def check_content(path: Path, first: int, last: int) -> None:
    """The file holds exactly the samples ``first`` .. ``last - 1`` of a feeder, every value of them."""
    samples = read_samples(path).samples
    numbers = np.arange(first, last)
    np.testing.assert_array_equal(samples["sequence"], 5000 + numbers)
    for place, name in enumerate(JOINT_FIELDS):
        np.testing.assert_array_equal(samples[name], np.repeat((numbers + place / 10)[:, None], 6, axis=1))


@pytest.mark.parametrize("late", [False, True])
def test_records_exactly_what_was_asked_for(feeder: Any, tmp_path: Path, late: bool) -> None:
    path = tmp_path / "cell1" / "rec_1.mcap"

    async def scenario() -> RecordingSummary:
        await reached(feeder, 200)
        async with recording(feeder, path, from_position=120) as handle:
            await reached(feeder, 1000)
            if late:  # what came after the end has been stored already
                await stored(handle, 1300)
            return await handle.finish(at_position=1001)

    summary = run(scenario())
    check_content(path, 120, 1001)
    assert (summary.samples, summary.lost, summary.lapped) == (881, 0, 0)
    assert (summary.from_position, summary.next_position) == (120, 1001)
    assert (summary.interrupted, summary.reason, summary.restarts) == (False, None, 0)
    found, facts = describe(path)
    assert (found.sha256, found.bytes) == (summary.sha256, summary.bytes)
    assert facts["dynid.context"]["recording_id"] == "rec_1"
    assert facts["dynid.context"]["model_digest"] == "abc"
    assert facts["dynid.context"]["job_id"] == "job_1"
    assert facts["dynid.summary"]["interrupted"] == "false"
    assert read_mcap(path).lost == 0
    assert [file.name for file in path.parent.iterdir()] == ["rec_1.mcap"]


def test_finish_without_a_position_ends_now(feeder: Any, tmp_path: Path) -> None:
    async def scenario() -> tuple[int, RecordingSummary, int]:
        async with recording(feeder, tmp_path / "a.mcap") as handle:
            before = feeder.head
            summary = await handle.finish()
            return before, summary, feeder.head

    before, summary, after = run(scenario())
    assert before <= summary.next_position <= after
    check_content(tmp_path / "a.mcap", 0, summary.next_position)


def test_an_end_that_never_comes_is_given_up(ring: Any, tmp_path: Path) -> None:
    ring.push(300)

    async def scenario() -> RecordingSummary:
        async with recording(ring, tmp_path / "a.mcap") as handle:
            return await handle.finish(at_position=310)

    summary = run(scenario())
    assert (summary.samples, summary.interrupted) == (300, True)
    assert summary.reason == "the last 10 samples never came"


def test_lapped_samples_are_counted_where_they_are_missing(make_ring: Any, tmp_path: Path) -> None:
    ring = make_ring(500)
    ring.push(300)

    async def scenario() -> RecordingSummary:
        async with recording(ring, tmp_path / "a.mcap") as handle:
            await stored(handle, 300)
            assert handle.pid is not None
            os.kill(handle.pid, signal.SIGSTOP)
            ring.push(400)
            ring.push(400)
            os.kill(handle.pid, signal.SIGCONT)
            return await handle.finish(at_position=1100)

    summary = run(scenario())
    assert (summary.samples, summary.lost, summary.lapped) == (800, 0, 300)
    assert summary.reason is None
    assert read_mcap(tmp_path / "a.mcap").lost == 300
    numbers = read_samples(tmp_path / "a.mcap").samples["sequence"] - 5000
    np.testing.assert_array_equal(numbers, [*range(300), *range(600, 1100)])


def test_a_late_start_counts_what_it_missed(make_ring: Any, tmp_path: Path) -> None:
    ring = make_ring(500)
    ring.push(400)
    ring.push(400)

    async def scenario() -> RecordingSummary:
        async with recording(ring, tmp_path / "a.mcap", from_position=100) as handle:
            return await handle.finish(at_position=800)

    summary = run(scenario())
    assert (summary.samples, summary.lost, summary.lapped) == (500, 0, 200)
    assert read_mcap(tmp_path / "a.mcap").lost == 0  # nothing between its first and its last


def test_an_end_overwritten_before_it_was_read(make_ring: Any, tmp_path: Path) -> None:
    ring = make_ring(500)
    ring.push(100)

    async def scenario() -> RecordingSummary:
        async with recording(ring, tmp_path / "a.mcap") as handle:
            await stored(handle, 100)
            assert handle.pid is not None
            os.kill(handle.pid, signal.SIGSTOP)
            ring.push(450)
            ring.push(450)
            os.kill(handle.pid, signal.SIGCONT)
            return await handle.finish(at_position=200)

    summary = run(scenario())
    assert (summary.samples, summary.lapped, summary.next_position) == (100, 100, 200)


# --- ends that nobody asked for --------------------------------------------------------------------------


def test_the_device_host_ends(feeder: Any, tmp_path: Path) -> None:
    async def scenario() -> tuple[RecordingSummary | None, RecordingSummary]:
        async with recording(feeder, tmp_path / "a.mcap") as handle:
            await reached(feeder, 200)
            feeder.stop()
            feeder.ring.unlink()
            return await handle.watch(), await handle.finish(at_position=10_000)

    seen, summary = run(scenario())
    assert seen == summary
    assert (summary.samples, summary.interrupted) == (feeder.head, True)
    assert "device host" in (summary.reason or "")
    check_content(tmp_path / "a.mcap", 0, feeder.head)


def test_the_controller_is_restarted(ring: Any, tmp_path: Path) -> None:
    ring.push(150)

    async def scenario() -> RecordingSummary | None:
        async with recording(ring, tmp_path / "a.mcap") as handle:
            block = np.concatenate([ring.samples(150, 50), ring.samples(0, 50)])
            ring.ring.push(block)
            return await handle.watch()

    summary = run(scenario())
    assert summary is not None
    assert (summary.samples, summary.next_position) == (200, 200)
    assert summary.reason == "the controller was restarted during this recording"
    check_content(tmp_path / "a.mcap", 0, 200)


@pytest.mark.parametrize("how", ["close", "sigterm"])
def test_let_go_of_it_completes_its_file(feeder: Any, tmp_path: Path, how: str) -> None:
    async def scenario() -> None:
        async with recording(feeder, tmp_path / "a.mcap") as handle:
            await reached(feeder, 300)
            if how == "sigterm":
                assert handle.pid is not None
                os.kill(handle.pid, signal.SIGTERM)
                await handle.watch()

    run(scenario())
    found, facts = describe(tmp_path / "a.mcap")
    assert found.samples >= 300
    assert facts["dynid.summary"]["interrupted"] == "true"
    assert ("service" if how == "close" else "told to end") in facts["dynid.summary"]["reason"]
    check_content(tmp_path / "a.mcap", 0, found.samples)


def test_aborting_removes_the_file(feeder: Any, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with recording(feeder, tmp_path / "a.mcap") as handle:
            await reached(feeder, 100)
            await handle.abort()
            with pytest.raises(RecordingError) as caught:
                await handle.finish()
            assert caught.value.code == "recording-aborted"

    run(scenario())
    assert list(tmp_path.iterdir()) == []


def test_a_recording_without_samples_is_none(ring: Any, tmp_path: Path) -> None:
    ring.push(50)

    async def scenario() -> None:
        async with recording(ring, tmp_path / "a.mcap", from_position=50) as handle:
            await handle.finish(at_position=50)

    with pytest.raises(RecordingError, match="before there was a sample") as caught:
        run(scenario())
    assert caught.value.code == "recording-empty"
    assert list(tmp_path.iterdir()) == []


# --- what goes wrong at the start ------------------------------------------------------------------------


def test_starting_fails_clearly(ring: Any, tmp_path: Path) -> None:
    ring.push(10)
    (tmp_path / "taken.mcap").write_text("a file")
    (tmp_path / "file").write_text("not a folder")
    cases: list[tuple[Path, Path, RecordingHeader, str]] = [
        (tmp_path / "none", tmp_path / "a.mcap", HEADER, "ring-invalid"),
        (ring.path, tmp_path / "taken.mcap", HEADER, "recording-exists"),
        (ring.path, tmp_path / "file" / "a.mcap", HEADER, "recording-unwritable"),
        (ring.path, tmp_path / "a.mcap", RecordingHeader("cell1", ring_epoch=1), "ring-gone"),
    ]

    async def start(ring_path: Path, path: Path, header: RecordingHeader) -> str:
        with pytest.raises(RecordingError) as caught:
            await RecorderHandle().start(ring_path, 0, "rec_1", path, header)
        return caught.value.code

    async def scenario() -> list[str]:
        return await asyncio.gather(*(start(*case[:3]) for case in cases))

    assert run(scenario()) == [case[3] for case in cases]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "taken.mcap"]


@pytest.mark.parametrize("killed", [False, True])
def test_a_launched_recorder_waits_for_its_order(feeder: Any, tmp_path: Path, killed: bool) -> None:
    path = tmp_path / "a.mcap"

    async def scenario() -> RecordingSummary:
        handle = RecorderHandle()
        try:
            await handle.launch()
            assert handle.pid is not None
            assert not list(tmp_path.iterdir())
            if killed:
                os.kill(handle.pid, signal.SIGKILL)
            await handle.start(feeder.path, 0, "rec_1", path, HEADER)
            await reached(feeder, 300)
            return await handle.finish(at_position=250)
        finally:
            await handle.close()

    summary = run(scenario())
    assert (summary.samples, summary.restarts) == (250, int(killed))
    check_content(path, 0, 250)


def test_a_launched_recorder_that_is_not_needed_ends(tmp_path: Path) -> None:
    async def scenario() -> int:
        handle = RecorderHandle()
        await handle.launch()
        await handle.close()
        assert handle.pid is not None
        return handle.pid

    with pytest.raises(ProcessLookupError):
        os.kill(run(scenario()), 0)


def test_a_recorder_that_cannot_be_started(feeder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-such-program"))

    async def scenario() -> None:
        async with recording(feeder, tmp_path / "a.mcap"):
            pass

    with pytest.raises(RecordingError, match="no recorder can be started") as caught:
        run(scenario())
    assert caught.value.code == "recorder-not-started"


# --- kill -9 ---------------------------------------------------------------------------------------------


def test_a_killed_recorder_is_replaced_and_nothing_is_lost(feeder: Any, tmp_path: Path) -> None:
    moments = random.Random(11)  # noqa: S311

    async def scenario() -> RecordingSummary:
        async with recording(feeder, tmp_path / "a.mcap") as handle:
            for kills in range(3):
                await asyncio.sleep(moments.uniform(0.05, 0.3))
                assert handle.pid is not None
                os.kill(handle.pid, signal.SIGKILL)
                while handle.restarts == kills:
                    await asyncio.sleep(0.005)
            end = feeder.head + 300
            return await handle.finish(at_position=end)

    summary = run(scenario())
    assert summary.restarts == 3
    assert (summary.samples, summary.lost, summary.lapped) == (summary.next_position, 0, 0)
    check_content(tmp_path / "a.mcap", 0, summary.samples)
    assert describe(tmp_path / "a.mcap")[0].sha256 == summary.sha256


def test_killing_a_recorder_for_good_loses_less_than_200_ms(feeder: Any, tmp_path: Path, database: Database) -> None:
    moments = random.Random(7)  # noqa: S311
    with database.session() as session:
        rows = [recordings.create(session, robot="cell1") for _ in range(5)]

    async def kill_one(row: RecordingRow) -> int:
        """Return how many samples were in the ring when the recorder was killed."""
        path, start = recordings.file_of(tmp_path, row), feeder.head
        async with recording(feeder, path, from_position=start, max_restarts=0) as handle:
            await asyncio.sleep(moments.uniform(0.0, 0.5))
            assert handle.pid is not None
            head = feeder.head
            os.kill(handle.pid, signal.SIGKILL)
            with pytest.raises(RecordingError, match="was ended by SIGKILL") as caught:
                await handle.watch()
            assert caught.value.code == "recorder-died"
            assert caught.value.context["path"] == str(partial_path(path))
            return int(head - start)

    async def scenario() -> list[int]:
        return [await kill_one(row) for row in rows]

    recorded = run(scenario())
    done = salvage(tmp_path, database)
    assert [(item.recording_id, item.outcome) for item in done] == [(row.id, "salvaged") for row in rows]
    promised = 200 + 1000 * feeder.worst_delay  # samples, of 1000 per second; a starved machine starves both
    for item, expected in zip(done, recorded, strict=True):
        assert 0 <= expected - item.samples < promised
        samples = read_samples(item.path).samples
        np.testing.assert_array_equal(np.diff(samples["sequence"]), 1)
        np.testing.assert_array_equal(samples["q"][:, 0], samples["sequence"] - 5000.0)


SERVICE = """
import asyncio, sys
from pathlib import Path
from service.recording import RecorderHandle, RecordingHeader

async def main():
    handle = RecorderHandle()
    await handle.start(Path(sys.argv[1]), 0, "rec_1", Path(sys.argv[2]), RecordingHeader("cell1"))
    print(handle.pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_killing_the_service_loses_nothing(feeder: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.mcap"
    command = [sys.executable, "-c", SERVICE, str(feeder.path), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as service:
        assert service.stdout is not None
        recorder = int(service.stdout.readline())
        feeder.wait_for(feeder.head + 250)
        killed_at = feeder.head
        service.kill()
    wait_for(path.exists)
    wait_for(lambda: not Path(f"/proc/{recorder}").exists())
    found, facts = describe(path)
    assert found.samples >= killed_at
    assert facts["dynid.summary"]["interrupted"] == "true"
    check_content(path, 0, found.samples)


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("waited in vain")


# --- a full disk -----------------------------------------------------------------------------------------


@pytest.fixture(params=["limit", "tmpfs"])
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder in which some 300 kB can be written: a file size limit, or (as root) a small disk."""
    if request.param == "limit":
        yield tmp_path, "limit"
        return
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", folder], capture_output=True, check=False
    )
    if mount.returncode:
        pytest.skip("mounting a small disk takes root")
    yield folder, "tmpfs"
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_named_and_what_was_written_stays(
    feeder: Any, small_disk: tuple[Path, str], tmp_path: Path
) -> None:
    folder, kind = small_disk
    path = folder / "a.mcap"

    async def scenario() -> None:
        async with recording(feeder, path) as handle:
            if kind == "limit":
                assert handle.pid is not None
                resource.prlimit(handle.pid, resource.RLIMIT_FSIZE, (250_000, 250_000))
            await handle.watch()

    with pytest.raises(RecordingError, match=r"the disk is full .*make room first") as caught:
        run(scenario())
    assert caught.value.code == "disk-full"
    kept = read_samples(partial_path(path), allow_truncated=True)
    assert kept.damage is not None
    assert kept.damage.reason == "it ends without a footer"
    assert kept.samples.size > 200
    np.testing.assert_array_equal(kept.samples["sequence"], 5000 + np.arange(kept.samples.size))
