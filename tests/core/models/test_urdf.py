"""Reading URDF: what is accepted, what is merged, what is refused and in which words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from core import models
from core.errors import ModelError
from core.models.urdf import parse_urdf

LIMIT = '<limit lower="-1" upper="2" velocity="3" effort="4"/>'
INERTIAL = (
    '<inertial><origin xyz="0.1 0 0"/><mass value="2"/>'
    '<inertia ixx="1" iyy="2" izz="2.5" ixy="0" ixz="0" iyz="0"/></inertial>'
)
NEGATIVE = INERTIAL.replace('<mass value="2"/>', '<mass value="-2"/>')


def joint(name: str, parent: str, child: str, kind: str = "revolute", inside: str = LIMIT) -> str:
    ends = f'<parent link="{parent}"/><child link="{child}"/>'
    return f'<joint name="{name}" type="{kind}">{ends}{inside}</joint>'


def robot(*parts: str, links: str = "a b") -> bytes:
    named = "".join(f'<link name="{name}"/>' for name in links.split())
    return f'<robot name="test">{named}{"".join(parts)}</robot>'.encode()


def read(*parts: str, links: str = "a b", tool: str | None = None) -> models.SerialChain:
    return parse_urdf(robot(*parts, links=links), "test.urdf", tool=tool)


def test_one_joint_with_the_defaults_of_urdf() -> None:
    chain = read(joint("j", "a", "b"))
    assert (chain.name, chain.joint_names, chain.joint_types) == ("test", ("j",), ("revolute",))
    np.testing.assert_array_equal(chain.axis, [[1.0, 0.0, 0.0]])
    np.testing.assert_array_equal(chain.placement_rotation[0], np.eye(3))
    np.testing.assert_array_equal(chain.inertial_parameters, np.zeros((1, 10)))
    limits = chain.limits
    assert (limits.position_lower[0], limits.position_upper[0]) == (-1.0, 2.0)
    assert (limits.velocity[0], limits.torque[0]) == (3.0, 4.0)
    assert np.isinf([limits.acceleration[0], limits.jerk[0]]).all()
    np.testing.assert_array_equal(chain.gravity, [0.0, 0.0, -9.81])


def test_continuous_joint_has_no_travel_limit_but_keeps_the_others() -> None:
    free = read(joint("j", "a", "b", "continuous", "")).limits
    assert np.isinf([free.position_lower[0], free.position_upper[0], free.velocity[0], free.torque[0]]).all()
    bounded = read(joint("j", "a", "b", "continuous", '<limit velocity="3" effort="4"/>')).limits
    assert np.isinf(bounded.position_upper[0])
    assert bounded.velocity[0] == 3.0


def test_axis_is_normalised() -> None:
    chain = read(joint("j", "a", "b", inside=f'<axis xyz="0 3 4"/>{LIMIT}'))
    np.testing.assert_allclose(chain.axis, [[0.0, 0.6, 0.8]])


def test_fixed_links_move_with_their_parent_and_those_on_the_base_do_not_count() -> None:
    heavy = [f'<link name="{name}">{INERTIAL}</link>' for name in ("cap", "plate")]
    turned = '<origin xyz="0 0 1" rpy="0 0 1.5707963267948966"/>'
    chain = read(
        *heavy,
        joint("j", "a", "b"),
        joint("to_cap", "b", "cap", "fixed", turned),
        joint("to_plate", "a", "plate", "fixed", turned),
    )
    # com (0.1, 0, 0) turned by a quarter and raised by 1 m: (0, 0.1, 1); about the origin, by hand
    expected = [2.0, 0.0, 0.2, 2.0, 2.0 + 2 * 1.01, 0.0, 1.0 + 2.0, 0.0, -0.2, 2.5 + 0.02]
    np.testing.assert_allclose(chain.inertial_parameters, [expected], atol=1e-12)


def test_fixed_joints_before_the_first_one_place_it_in_the_root_link() -> None:
    tilted = '<origin xyz="0 0 0.5" rpy="1.5707963267948966 0 0"/>'
    chain = read(joint("mount", "world", "a", "fixed", tilted), joint("j", "a", "b"), links="world a b")
    np.testing.assert_allclose(chain.joint_frames([0.0])[0, 0, :3, 3], [0.0, 0.0, 0.5])
    np.testing.assert_allclose(chain.placement_rotation[0] @ [0, 1, 0], [0, 0, 1], atol=1e-12)


def test_tool_is_tool0_or_the_link_asked_for() -> None:
    ends = (
        joint("j", "a", "b"),
        joint("t", "b", "tool0", "fixed", '<origin xyz="0 0 1"/>'),
        joint("g", "tool0", "grip", "fixed", '<origin xyz="0 0 2"/>'),
    )
    at_zero = [read(*ends, links="a b tool0 grip", tool=tool).tool[2, 3] for tool in (None, "grip", "b")]
    assert at_zero == [1.0, 3.0, 0.0]
    with pytest.raises(ModelError, match="link 'a': is no part of the last moving link"):
        read(*ends, links="a b tool0 grip", tool="a")


@pytest.mark.parametrize(
    ("parts", "links", "message"),
    [
        ([joint("j", "a", "b", "floating")], "a b", "joint 'j': floating joints are not supported"),
        ([joint("j", "a", "b", "planar")], "a b", "joint 'j': planar joints are not supported"),
        ([joint("j", "a", "b", "hinge")], "a b", "joint 'j': unknown joint type 'hinge'"),
        ([joint("j", "a", "b", inside=LIMIT + '<mimic joint="k"/>')], "a b", "joint 'j': <mimic>"),
        ([joint("j", "a", "b", inside="")], "a b", "joint 'j': a revolute joint needs <limit>"),
        ([joint("j", "a", "b", inside='<limit effort="1"/>')], "a b", "<limit>: attribute 'velocity'"),
        (
            [joint("j", "a", "b", inside='<limit lower="1" upper="0" velocity="1" effort="1"/>')],
            "a b",
            "lower limit 1 is above the upper one, 0",
        ),
        ([joint("j", "a", "b", inside=f'<axis xyz="0 0 0"/>{LIMIT}')], "a b", "<axis> has no length"),
        ([joint("j", "a", "b", inside=f'<axis xyz="0 1"/>{LIMIT}')], "a b", "is not three finite numbers"),
        ([joint("j", "a", "b", inside=f'<origin xyz="0 nan 0"/>{LIMIT}')], "a b", "<origin>: xyz='0 nan 0'"),
        ([joint("j", "a", "b", inside=f'<origin rpy="0 x 0"/>{LIMIT}')], "a b", "<origin>: rpy='0 x 0'"),
        (
            [joint("j", "a", "b", inside=f'<origin rpy="0 90 0"/>{LIMIT}')],
            "a b",
            "'rpy': 90 rad is more than a full turn",
        ),
        ([joint("j", "a", "b", inside=f'<origin xyz="0 0 127"/>{LIMIT}')], "a b", "'xyz': 127 m is longer than any"),
        ([joint("j", "a", "c")], "a b", "joint 'j': its child link 'c' is not defined"),
        ([joint("j", "a", "b"), joint("k", "a", "b")], "a b", "link 'b' already hangs on joint 'j'"),
        ([joint("j", "a", "b"), joint("j", "b", "c")], "a b c", "joint 'j': is defined twice"),
        ([joint("j", "a", "b"), joint("k", "b", "a")], "a b", "the joints form a loop"),
        ([joint("j", "a", "b"), joint("k", "c", "d"), joint("l", "d", "c")], "a b c d", "loop of their own"),
        ([joint("j", "a", "b")], "a b c", "exactly one root link, has a, c"),
        ([joint("j", "a", "b"), joint("k", "a", "c")], "a b c", "joints 'j', 'k': all move on the same body"),
        ([joint("j", "a", "b", "fixed", "")], "a b", "has no moving joint"),
        (["<link name='a'/>"], "a b", "link 'a': is defined twice"),
        (["<joint name='j' type='fixed'><child link='b'/></joint>"], "a b", "joint 'j': has no <parent>"),
        (["<joint type='fixed'/>"], "a b", "<joint>: attribute 'name' is missing"),
        (["<link name='c'><inertial><mass value='1'/></inertial></link>"], "a", "needs both <mass> and"),
        ([f"<link name='c'>{INERTIAL.replace('2.5', 'inf')}</link>"], "a", "izz='inf' is not a finite"),
        ([f"<link name='c'>{NEGATIVE}</link>"], "a", "mass is negative"),
        ([f"<link name='c'>{INERTIAL.replace('2.5', 'big')}</link>"], "a", "izz='big' is not a number"),
    ],
)
def test_refusals_name_file_and_element(parts: list[str], links: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        read(*parts, links=links)
    assert message in str(caught.value)
    assert str(caught.value).startswith("test.urdf: ")
    assert caught.value.context["path"] == "test.urdf"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"<robot><link name='a'>", "not well-formed XML: no element found"),
        (b"<sdf/>", "<sdf>: a URDF document begins with <robot>"),
        (
            b"<robot xmlns:xacro='http://ros.org/wiki/xacro'><xacro:property name='x' value='1'/></robot>",
            "<xacro:property>: this is a xacro file",
        ),
        (b"<!DOCTYPE robot [<!ENTITY a 'b'>]><robot>&a;</robot>", "<!DOCTYPE robot>"),
        (b"<!DOCTYPE robot SYSTEM 'file:///etc/passwd'><robot/>", "<!DOCTYPE robot>"),
        (b"<robot/>", "needs exactly one root link, has none"),
    ],
)
def test_documents_that_are_no_urdf(text: bytes, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_urdf(text, "test.urdf")
    assert message in str(caught.value)
    assert "test.urdf" in str(caught.value)


def test_missing_file_and_folder_are_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.urdf", tmp_path):
        with pytest.raises(ModelError, match="cannot be read") as caught:
            models.load(path)
        assert caught.value.code == "model-unreadable"
        assert str(path) in str(caught.value)


def test_load_tells_urdf_by_its_content_and_adds_rotor_columns(tmp_path: Path) -> None:
    file = tmp_path / "robot.description"
    file.write_bytes(b"\xef\xbb\xbf\n" + robot(joint("j", "a", "b")))
    assert models.load(file).n_parameters == 10
    with_rotors = models.load(str(file), rotor_inertia=True)
    assert with_rotors.parameter_names[-1] == "Ia1"
    assert with_rotors.parameters[-1] == 0.0
