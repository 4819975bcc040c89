"""The ring reader against a virtual PLC that runs at 1 kHz, drops, stalls, stops and gets other programs."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from core.streaming.samples import STATUS_EMERGENCY_STOP, STATUS_PROTECTIVE_STOP, STATUS_SENSOR_SATURATED, SampleBlock
from drivers.beckhoff_ads.address import PlcAddress
from drivers.beckhoff_ads.driver import BeckhoffAdsDriver, create
from drivers.beckhoff_ads.session import AdsLink
from drivers.beckhoff_ads.stream import AdsRingReader
from drivers.contract import (
    ConnectionLost,
    ControllerNotReady,
    DriverError,
    DriverProtocolError,
    DriverUnreachable,
    UnsupportedController,
)
from drivers.virtual.process import VirtualUpru6

SOAK = float(os.environ.get("DYNID_SOAK_SECONDS", "3"))
"""How long losses are counted. Ten minutes: ``DYNID_SOAK_SECONDS=600 pytest -n 0 --log-cli-level=INFO -k 1_khz``."""

log = logging.getLogger(__name__)


def read(source: AdsRingReader, seconds: float) -> SampleBlock:
    """Read without a pause, connecting again as the device host does."""
    blocks = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            block = source.read(0.2)
        except ConnectionLost:
            source.connect()
        else:
            if block is not None:
                blocks.append(block)
    return np.concatenate(blocks)


def until(source: AdsRingReader, condition: Callable[[SampleBlock], bool], seconds: float = 5.0) -> SampleBlock:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        block = source.read(0.2)
        if block is not None and condition(block):
            return block
    pytest.fail(f"not within {seconds} s")


@pytest.mark.timeout(180 + 1.5 * SOAK)
def test_no_sample_is_lost_at_1_khz(source: AdsRingReader, virtual_upru6: VirtualUpru6) -> None:
    info = source.connect()
    assert (info.model, info.serial, info.virtual) == ("6-UPRU VIRTUAL", "000001", True)
    before = virtual_upru6.request("statistics")
    samples = lost = 0
    gaps: list[float] = []
    last = None
    begun = time.monotonic()
    while time.monotonic() - begun < SOAK:
        block = source.read(0.2)
        if block is None:
            continue
        sequence, clock = block["sequence"], block["controller_time"]
        steps = np.diff(sequence if last is None else np.insert(sequence, 0, last))
        assert (steps == 1 + block["lost"][-steps.size :]).all()
        lost += int(block["lost"].sum())
        samples += block.size
        last = int(sequence[-1])
        gaps.append(float(np.diff(clock).max(initial=0.0)))
    after = virtual_upru6.request("statistics")
    requests, late = (after[name] - before[name] for name in ("reads", "late_cycles"))
    log.info("%d samples in %g s, %d lost, %d requests, %d late PLC cycles", samples, SOAK, lost, requests, late)
    assert lost == 0
    assert samples > 900 * SOAK
    assert max(gaps) < 1.5e-3
    assert requests < 60 * SOAK  # in bulk


def test_samples_are_those_of_a_platform_at_rest(source: AdsRingReader) -> None:
    source.connect()
    block = read(source, 0.3)
    assert np.abs(block["q"] - block["target_q"]).max() < 1e-4
    assert np.abs(block["qd"]).max() < 1e-2
    weight = block["torque"].mean(axis=0)
    assert ((weight > 100.0) & (weight < 400.0)).all()
    assert (np.abs(block["current"].mean(axis=0)) > 0.5).all()
    assert np.isnan(block["target_torque"]).all()
    state = source.state
    assert state is not None
    assert (state.robot_mode, state.safety_mode, state.program_running) == ("HOLDING", "NORMAL", False)


def test_a_dropped_link_loses_nothing(source: AdsRingReader, virtual_upru6: VirtualUpru6) -> None:
    source.connect()
    samples = read(source, 0.1)
    virtual_upru6.request("drop")
    with pytest.raises(ConnectionLost):
        while True:
            block = source.read(0.2)
            if block is not None:
                samples = np.concatenate([samples, block])
    source.connect()
    samples = np.concatenate([samples, read(source, 0.2)])
    assert (np.diff(samples["sequence"].astype(np.int64)) == 1).all()
    assert samples["lost"].sum() == 0
    assert virtual_upru6.request("statistics")["clients"] == 1


def test_an_outage_longer_than_the_ring_is_counted(source: AdsRingReader) -> None:
    source.connect()
    first = read(source, 0.2)
    source.close()
    time.sleep(4.4)  # the ring holds 4.096 s
    source.connect()
    rest = read(source, 0.3)
    assert rest["lost"][0] > 100
    assert rest["sequence"][-1] - first["sequence"][-1] == rest.size + rest["lost"].sum()


def test_a_silent_link_is_told_and_then_made_up_for(source: AdsRingReader, virtual_upru6: VirtualUpru6) -> None:
    source.connect()
    blocks = [read(source, 0.1)]
    virtual_upru6.request("stall", seconds=0.7)
    while (block := source.read(0.2)) is not None:
        blocks.append(block)
    blocks += [until(source, lambda _: True), read(source, 0.1)]
    samples = np.concatenate(blocks)
    assert samples["lost"].sum() == 0
    assert (np.diff(samples["sequence"].astype(np.int64)) == 1).all()
    assert np.ptp(samples["controller_time"]) > 0.7


def test_an_online_change_is_followed_without_loss(source: AdsRingReader, virtual_upru6: VirtualUpru6) -> None:
    source.connect()
    first = read(source, 0.2)
    virtual_upru6.request("online-change")
    rest = read(source, 0.3)
    assert rest["lost"].sum() == 0
    assert rest["sequence"][-1] - first["sequence"][-1] == rest.size
    assert (np.diff(np.append(first["controller_time"][-1], rest["controller_time"])) > 0.0).all()  # none comes twice
    assert any("changed online" in notice for notice in source.take_notices())
    virtual_upru6.request("emergency-stop", on=True)  # states come by notification again
    try:
        until(source, lambda _: source.state is not None and source.state.safety_mode == "EMERGENCY_STOP")
    finally:
        virtual_upru6.request("emergency-stop", on=False)


def test_a_download_is_followed_and_its_gap_counted(source: AdsRingReader, virtual_upru6: VirtualUpru6) -> None:
    source.connect()
    first = read(source, 0.2)
    virtual_upru6.request("download")
    rest = read(source, 0.3)
    assert rest["sequence"][-1] - first["sequence"][-1] == rest.size + rest["lost"].sum()
    assert rest["lost"].sum() < 100
    assert any("another PLC program" in notice for notice in source.take_notices())


def test_stops_of_the_plc_and_of_the_robot_are_told_apart(
    source: AdsRingReader, driver: BeckhoffAdsDriver, virtual_upru6: VirtualUpru6
) -> None:
    source.connect()
    virtual_upru6.request("emergency-stop", on=True)
    until(source, lambda block: bool(block["status"][-1] & STATUS_EMERGENCY_STOP))
    with pytest.raises(DriverError, match="release the emergency stop") as refused:
        driver.recover()
    assert refused.value.code == "fault-persists"
    virtual_upru6.request("emergency-stop", on=False)
    block = until(source, lambda block: not block["status"][-1] & STATUS_EMERGENCY_STOP)
    assert block["status"][-1] & STATUS_PROTECTIVE_STOP
    driver.recover()
    until(source, lambda block: not block["status"][-1])
    assert any("EMERGENCY_STOP" in notice for notice in source.take_notices())

    virtual_upru6.request("plc-stop")
    try:
        with pytest.raises(ControllerNotReady, match="the PLC is in STOP") as stopped:
            read(source, 5.0)
        assert stopped.value.code == "plc-stopped"
        source.close()
        with pytest.raises(ControllerNotReady, match="the PLC is in STOP"):
            source.connect()
    finally:
        virtual_upru6.request("plc-run")
    source.connect()
    assert read(source, 0.2)["lost"][0] > 100  # cycles that the PLC did not run


def test_a_saturated_sensor_is_told(source: AdsRingReader, virtual_upru6: VirtualUpru6) -> None:
    source.connect()
    virtual_upru6.request("saturate", leg=3, on=True)
    try:
        block = read(source, 0.3)
    finally:
        virtual_upru6.request("saturate", leg=3, on=False)
    assert block["status"][-1] & STATUS_SENSOR_SATURATED
    assert (block["torque"][-1, 2] == 5000.0) and (block["torque"][-1, [0, 1, 3, 4, 5]] < 1000.0).all()
    assert any("force sensor of leg 3" in notice for notice in source.take_notices())


# --- what is wrong is said -----------------------------------------------------------------------------


def refusal(host: str, **options: object) -> DriverError:
    reader = AdsRingReader(AdsLink(PlcAddress(host, **options)), 1000.0)  # type: ignore[arg-type]
    with pytest.raises(DriverError) as refused:
        reader.connect()
    assert refused.value.context["host"] == host
    return refused.value


def test_each_mistake_in_the_settings_is_named(virtual_upru6: VirtualUpru6, loopback_host: str) -> None:
    host, net_id = virtual_upru6.host, virtual_upru6.net_id
    nobody = refusal(loopback_host, ams_net_id=net_id)
    assert isinstance(nobody, DriverUnreachable)
    assert "Connection refused" in nobody.detail
    stranger = refusal(host, ams_net_id="1.2.3.4.5.6")
    assert (stranger.code, "correct ams_net_id" in stranger.detail) == ("ams-net-id-unknown", True)
    port = refusal(host, ams_net_id=net_id, ams_port=852)
    assert (port.code, "852" in port.detail) == ("plc-port-unknown", True)
    missing = refusal(host, ams_net_id=net_id, symbol_prefix="GVL_Other")
    assert (missing.code, "GVL_Other.aRing" in missing.detail) == ("plc-symbol-missing", True)
    reader = create(host, 500.0, ams_net_id=net_id).source()
    with pytest.raises(UnsupportedController, match="set rate_hz = 1000"):
        reader.connect()


def test_a_missing_route_is_told(virtual_upru6: VirtualUpru6, monkeypatch: pytest.MonkeyPatch) -> None:
    """A router that does not know this computer stays silent, so its answer is waited for."""
    monkeypatch.setattr("drivers.beckhoff_ads.session.CONNECT_TIMEOUT", 0.5)
    virtual_upru6.request("routes", known=False)
    try:
        error = refusal(virtual_upru6.host, ams_net_id=virtual_upru6.net_id)
    finally:
        virtual_upru6.request("routes", known=True)
    assert error.code == "ams-route-missing"
    assert "127.0.0.1.1.1" in error.detail  # what the route in the PLC has to be for


def test_config_mode_is_told(virtual_upru6: VirtualUpru6) -> None:
    virtual_upru6.request("config-mode", on=True)
    try:
        error = refusal(virtual_upru6.host, ams_net_id=virtual_upru6.net_id)
    finally:
        virtual_upru6.request("config-mode", on=False)
    assert (error.code, type(error)) == ("plc-config-mode", ControllerNotReady)


def test_a_program_without_a_symbol_is_told_by_its_name(source: AdsRingReader, virtual_upru6: VirtualUpru6) -> None:
    source.connect()
    virtual_upru6.request("remove-symbol", name="GVL_Dynid.stCommand")
    try:
        with pytest.raises(DriverProtocolError, match=r"no variable GVL_Dynid\.stCommand;") as missing:
            read(source, 5.0)
    finally:
        virtual_upru6.request("download")
    assert missing.value.code == "plc-symbol-missing"
    source.close()
    source.connect()


def test_structures_of_another_size_are_told(
    source: AdsRingReader, virtual_upru6: VirtualUpru6, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The PLC's are the larger ones: the driver is made to expect a member less."""
    from dataclasses import replace

    from drivers import twincat_layout

    shorter = replace(twincat_layout.STATE, members=twincat_layout.STATE.members[:-1])
    monkeypatch.setattr("drivers.beckhoff_ads.variables.VARIABLES", {**twincat_layout.VARIABLES, "stState": shorter})
    with pytest.raises(
        DriverProtocolError, match="takes 37 bytes in the PLC, 36 are expected of ST_DynidState"
    ) as other:
        source.connect()
    assert other.value.code == "plc-layout-mismatch"


def test_another_process_of_this_computer_is_told(source: AdsRingReader, virtual_upru6: VirtualUpru6) -> None:
    source.connect()
    second = textwrap.dedent(f"""
        from drivers.beckhoff_ads.driver import create
        from drivers.contract import DriverError
        try:
            create({virtual_upru6.host!r}, 1000.0, ams_net_id={virtual_upru6.net_id!r}).source().connect()
        except DriverError as error:
            print(error.code, error.detail)
    """)
    said = subprocess.run([sys.executable, "-c", second], capture_output=True, text=True, check=True).stdout
    assert said.startswith("ads-in-use")
    assert f"process {os.getpid()} of this computer" in said
    assert read(source, 0.3)["lost"].sum() == 0  # and this link lives


# --- the vendor's library ------------------------------------------------------------------------------


def test_links_come_and_go_under_notifications_without_a_crash(
    driver: BeckhoffAdsDriver, virtual_upru6: VirtualUpru6
) -> None:
    """States change all the time while links are made, cut and made again: in a process of its own, should it crash."""
    program = textwrap.dedent(f"""
        import itertools, sys
        from drivers.beckhoff_ads.driver import create
        from drivers.contract import DriverError
        driver = create({virtual_upru6.host!r}, 1000.0, ams_net_id={virtual_upru6.net_id!r})
        source = driver.source()
        for turn in range(60):
            try:
                source.connect()
                for _ in range(turn % 4):
                    source.read(0.05)
                if turn % 3:
                    source.close()
            except DriverError as error:
                print(error.code)
        source.close()
        print("alive")
    """)
    ended = threading.Event()

    def disturb() -> None:
        while not ended.wait(0.01):  # a few changes of state in every link's life
            for on in (True, False):
                virtual_upru6.request("saturate", leg=1, on=on)

    disturbing = threading.Thread(target=disturb)
    disturbing.start()
    try:
        child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    finally:
        ended.set()
        disturbing.join()
    assert child.returncode == 0, child.stderr
    assert child.stdout.splitlines()[-1] == "alive"
