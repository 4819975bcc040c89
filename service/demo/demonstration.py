"""Which way a demonstration goes, by the kind of its robot."""

from __future__ import annotations

from service.client import Client
from service.demo import flow, platform_flow, platform_truth, truth
from service.demo.flow import Progress
from service.demo.platform_report import PlatformReport
from service.demo.report import ArmReport, Report
from service.demo.robots import DemoArm, DemoPlatform, DemoRobot


def demonstrate(client: Client, robot: DemoRobot, seed: int, progress: Progress) -> Report:
    """Go the whole way with the virtual robot number ``seed``, then compare with its truth."""
    if isinstance(robot, DemoPlatform):
        found = platform_flow.run(client, robot, progress)
        progress("compare with the plant's truth", 0.0)
        return PlatformReport(found, robot, platform_truth.compare(found, seed))
    assert isinstance(robot, DemoArm)  # noqa: S101 - there are two kinds
    outcome = flow.run(client, robot, progress)
    progress("compare with the plant's truth", 0.0)
    return ArmReport(outcome, robot, truth.compare(outcome.torque, robot, seed))
