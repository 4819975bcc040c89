from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from service.settings import ConfigurationError, ModbusSettings, Settings, load_settings

ROBOT = """
[robots.cell1]
driver = "universal_robots"
host = "127.0.0.2"
model = "ur10e"
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "dynid.toml"
    file.write_text(text, encoding="utf-8")
    return file


def refusal(file: Path | None, **overrides: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(file, **overrides)
    assert caught.value.code == "configuration-invalid"
    return caught.value.detail


def test_defaults_are_the_safe_ones(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, ROBOT))
    assert settings.host == "127.0.0.1"
    assert settings.authentication
    assert not settings.metrics_public
    robot = settings.robots["cell1"]
    assert robot.name == "cell1"
    assert not robot.motion_enabled
    assert not robot.virtual


def test_environment_overrides_file_and_arguments_override_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, "port = 1\nworkers = 1\nqueue_limit = 1\n" + ROBOT)
    monkeypatch.setenv("DYNID_WORKERS", "2")
    monkeypatch.setenv("DYNID_QUEUE_LIMIT", "2")
    monkeypatch.setenv("DYNID_ROBOTS__CELL1__HOST", "127.0.0.9")
    settings = load_settings(file, queue_limit=3)
    assert (settings.port, settings.workers, settings.queue_limit) == (1, 2, 3)
    assert settings.robots["cell1"].host == "127.0.0.9"
    assert settings.robots["cell1"].model == "ur10e"


def test_file_is_found_through_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNID_CONFIG", str(write(tmp_path, "port = 4711\n")))
    assert load_settings().port == 4711


def test_relative_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text("<robot/>", encoding="utf-8")
    settings = load_settings(write(tmp_path, 'data_dir = "data"\n' + ROBOT.replace("ur10e", "arm.urdf")))
    assert settings.data_dir == tmp_path / "data"
    assert settings.robots["cell1"].model == str(tmp_path / "arm.urdf")


def test_unknown_driver_names_file_key_and_what_there_is(tmp_path: Path) -> None:
    file = write(tmp_path, ROBOT.replace("universal_robots", "kuka"))
    message = refusal(file)
    assert str(file) in message
    assert "robots.cell1.driver" in message
    assert "'universal_robots'" in message
    assert "'kuka'" in message


def test_a_robot_behind_a_plc_has_settings_of_its_own(tmp_path: Path) -> None:
    ads = ROBOT.replace("universal_robots", "beckhoff_ads") + "ads = { ams_net_id = '192.168.1.20.1.1' }\n"
    options = load_settings(write(tmp_path, ads)).robots["cell1"].driver_options
    assert options == {
        "ams_net_id": "192.168.1.20.1.1",
        "ams_port": 851,
        "symbol_prefix": "GVL_Dynid",
        "poll_interval": 0.02,
    }
    without = ROBOT.replace("universal_robots", "beckhoff_ads")
    assert "driver beckhoff_ads needs settings 'ads'" in refusal(write(tmp_path, without))
    assert "driver universal_robots takes no settings 'ads'" in refusal(
        write(tmp_path, ads.replace("beckhoff_ads", "universal_robots"))
    )


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        ("prot = 80\n", "prot", "is not a setting"),
        (ROBOT + "hots = 'x'\n", "robots.cell1.hots", "is not a setting"),
        (
            "[robots.cell1]\ndriver = 'universal_robots'\nmodel = 'ur10e'\n",
            "robots.cell1.host",
            "is required",
        ),
        (ROBOT + "name = 'other'\n", "robots", "leave the name out"),
        ("[robots.'Cell 1']\n", "robots", "match pattern"),
        (ROBOT.replace('"ur10e"', '"no/such.urdf"'), "robots.cell1.model", "no model file"),
        ("port = 70000\n", "port", "less than or equal to 65535"),
        ("api_key = 'short'\n", "api_key", "at least 16 characters"),
    ],
)
def test_bad_value_is_named_by_file_and_key(tmp_path: Path, text: str, key: str, reason: str) -> None:
    file = write(tmp_path, text)
    message = refusal(file)
    assert str(file) in message
    assert f"{key}" in message
    assert reason in message


def test_bad_variable_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNID_PORT", "tcp://10.0.0.1:80")
    assert "environment variable DYNID_PORT: port" in refusal(write(tmp_path, ROBOT))


def test_file_that_is_missing_or_not_toml(tmp_path: Path) -> None:
    assert "no configuration file" in refusal(tmp_path / "absent.toml")
    assert "not valid TOML" in refusal(write(tmp_path, "port = \n"))


def test_public_bind_has_to_be_meant() -> None:
    assert "behind_proxy = true" in refusal(None, host="0.0.0.0")
    assert load_settings(host="0.0.0.0", behind_proxy=True).host == "0.0.0.0"
    assert "authentication cannot be off" in refusal(None, host="0.0.0.0", behind_proxy=True, authentication=False)


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        ("host = '0.0.0.0'\nunits = { cell1 = 1 }\n", "modbus", "allow_public_bind = true"),
        ("units = {}\n", "modbus.units", "at least 1"),
        ("units = { other = 1 }\n", "", "no robot 'other'; known: cell1"),
        ("units = { cell1 = 0 }\n", "modbus.units.cell1", "greater than or equal to 1"),
        ("units = { cell1 = 1 }\ncommands = ['move']\n", "modbus.commands", "'acknowledge'"),
    ],
)
def test_modbus_is_off_and_its_settings_are_checked(tmp_path: Path, text: str, key: str, reason: str) -> None:
    assert load_settings(write(tmp_path, ROBOT)).modbus is None
    message = refusal(write(tmp_path, f"{ROBOT}[modbus]\n{text}"))
    assert key in message
    assert reason in message


def test_two_robots_on_one_modbus_unit_are_refused() -> None:
    with pytest.raises(ValueError, match="same unit"):
        ModbusSettings(units={"one": 3, "two": 3})
    assert ModbusSettings(units={"one": 3}, host="0.0.0.0", allow_public_bind=True).commands == frozenset()


def test_a_certificate_comes_with_its_key(tmp_path: Path) -> None:
    certificate = tmp_path / "chain.pem"
    certificate.write_text("")
    assert "belong together" in refusal(None, tls_certificate=certificate)
    assert "there is no file" in refusal(None, tls_certificate=certificate, tls_key=tmp_path / "absent.pem")
    assert load_settings(host="0.0.0.0", tls_certificate=certificate, tls_key=certificate).tls_key == certificate


def test_key_never_shows(tmp_path: Path) -> None:
    settings = load_settings(data_dir=tmp_path, api_key="0123456789abcdef")
    assert "0123456789abcdef" not in repr(settings)


def test_settings_cross_process_boundaries(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, ROBOT))
    assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301 - our own bytes


def test_runtime_path_is_stable_and_per_data_dir(tmp_path: Path) -> None:
    first, second = (Settings(data_dir=tmp_path / name) for name in "ab")
    assert first.runtime_path == Settings(data_dir=tmp_path / "a").runtime_path
    assert first.runtime_path != second.runtime_path


def test_a_vendor_socket_needs_its_layout_and_others_take_none(tmp_path: Path) -> None:
    vendor = ROBOT.replace("universal_robots", "vendor_socket")
    assert "vendor_socket needs a layout" in refusal(write(tmp_path, vendor))
    assert "universal_robots takes no layout" in refusal(write(tmp_path, ROBOT + 'layout = "coman_r5"\n'))
    settings = load_settings(write(tmp_path, vendor + 'layout = "mine.toml"\n'))
    assert settings.robots["cell1"].driver_options == {"layout": str(tmp_path / "mine.toml")}
    settings = load_settings(write(tmp_path, vendor + 'layout = "coman_r5"\n'))
    assert settings.robots["cell1"].driver_options == {"layout": "coman_r5"}
