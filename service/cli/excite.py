"""``dynid excite``: an excitation trajectory for a robot and its limits, without a service running."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import InputError
from service.cli.options import parse_friction
from service.cli.outputs import check_output, progress_bar, write_json, write_output

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from rich.console import Console

    from core.excitation.design import Design
    from core.excitation.limits import DesignLimits
    from core.excitation.search import Progress
    from core.excitation.trajectory import Trajectory
    from core.models import Mechanism

SAMPLE_PERIOD = 1e-3


def excite(
    model: Annotated[str, typer.Option(help="Robot model: a URDF or TOML file, or a catalogue name such as ur10e.")],
    limits: Annotated[
        Path,
        typer.Option(
            help="TOML file: position_lower, position_upper, start, end (rad, or with the suffix _deg), velocity, "
            "acceleration, jerk, torque (SI, one per joint; torque of the links, without friction); box, floor, "
            "self_collision, radii (m) of an arm; "
            "joint_angle, condition of a 6-UPRU, whose joints are its legs. "
            "Absent = unlimited."
        ),
    ],
    family: Annotated[
        str,
        typer.Option(
            help="fourier_quintic, fourier, bspline, fourier_segments (the COMAN iteration), or fourier_free (begins "
            "and ends in motion; not to be played as it is)."
        ),
    ] = "fourier_quintic",
    harmonics: Annotated[int, typer.Option(min=1, max=50, help="Per joint; a spline has 2 K free control points.")] = 5,
    period: Annotated[float, typer.Option(help="Duration of the trajectory, or of each segment, s.")] = 20.0,
    criterion: Annotated[
        str, typer.Option(help="cond, cond_normalised, d_optimal, a_optimal, or coman (weighted sum).")
    ] = "cond",
    friction: Annotated[
        list[str] | None,
        typer.Option(
            help="Velocity law whose columns count too, such as coulomb_viscous or arctan(f4=5): one for all joints, "
            "or one per joint. Absent: base columns only."
        ),
    ] = None,
    rotor_inertia: Annotated[bool, typer.Option("--rotor-inertia", help="Rotor inertias are columns too.")] = False,
    time_budget: Annotated[float, typer.Option(help="s. Ctrl-C ends earlier, with the best so far.")] = 60.0,
    max_candidates: Annotated[
        int | None,
        typer.Option(min=1, help="End by number instead: the same seed then gives the same trajectory. One worker."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of everything random.")] = 0,
    optimizer: Annotated[str, typer.Option(help="interior_point, slsqp, cma_es, genetic.")] = "interior_point",
    segments: Annotated[int, typer.Option(min=1, help="Number of segments of fourier_segments.")] = 3,
    workers: Annotated[int, typer.Option(min=1, help="Searches at a time, one processor each.")] = 1,
    warm_start: Annotated[Path | None, typer.Option(help="Begin with the trajectory of an earlier --json.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the whole result to this file.")] = None,
    samples: Annotated[
        Path | None, typer.Option(help="Write t, q, qd, qdd of every joint at 1 kHz to this CSV file.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write pictures into this folder; needs matplotlib (the extra 'plot').")
    ] = None,
) -> None:
    """Design a trajectory that excites a robot's parameters within its limits, verified on a 1 ms grid."""
    from rich.console import Console

    from core.excitation.design import DesignSettings, design
    from core.excitation.limits import read_limits
    from core.models import resolve

    robot = resolve(model, rotor_inertia=rotor_inertia)
    bounds = read_limits(limits, robot)
    settings = DesignSettings(
        family=family,
        harmonics=harmonics,
        period=period,
        criterion=criterion,
        friction=None if friction is None else parse_friction(friction),
        optimizer=optimizer,
        time_budget=time_budget,
        seed=seed,
        segments=segments,
        max_candidates=max_candidates,
    )
    _check_outputs(json_file, samples, plot, period * (segments if family == "fourier_segments" else 1))
    first = None if warm_start is None else _read_trajectory(warm_start)
    console = Console()
    with ExitStack() as stack:
        interrupted = stack.enter_context(_interrupt_as_flag())
        on_progress = stack.enter_context(_shown())
        executor = stack.enter_context(_processes(workers)) if workers > 1 else None
        found = design(
            robot,
            bounds,
            settings,
            warm_start=first,
            on_progress=on_progress,
            stop=interrupted,
            executor=executor,
            workers=workers,
        )
        stopped = interrupted()
    try:  # who reads what is printed may stop early
        written = _write_all(robot, bounds, found, json_file, samples, plot)
    finally:
        if stopped:
            console.print(f"stopped after {found.seconds:.1f} of {time_budget:g} s; this is the best that was found:")
        _print(console, robot, found)
        _warn_of_own_limits(console, robot, found.trajectory)
    for file in written:
        console.print(f"written to {file}")


def _warn_of_own_limits(console: Console, robot: Mechanism, trajectory: Trajectory) -> None:
    """Say so where the limits file allows what the model itself does not, and so a service would not."""
    from core.errors import MotionLimitError
    from core.excitation import check_motion
    from core.excitation.verification import fine_samples

    try:
        check_motion(fine_samples(trajectory), robot)
    except MotionLimitError as error:
        console.print(f"[yellow]a service with this model would refuse to play it: {error.detail}[/yellow]")


def _write_all(
    robot: Mechanism,
    bounds: DesignLimits,
    found: Design,
    json_file: Path | None,
    samples: Path | None,
    plot: Path | None,
) -> list[Path]:
    """Write every output that can be written, and only then complain of one that cannot; return the files."""
    from service.cli.excite_plots import write_plots

    done: list[Path] = []
    problems: list[InputError] = []
    for file, write in (
        (json_file, lambda path: write_json(path, found.to_document())),
        (samples, lambda path: _write_samples(path, found.trajectory)),
        (plot, lambda path: write_plots(path, found, robot, bounds)),
    ):
        if file is None:
            continue
        try:
            done += write(file) or [file]
        except InputError as error:
            problems.append(error)
    if problems:
        raise InputError("; ".join(problem.detail for problem in problems), code=problems[0].code)
    return done


def _read_trajectory(file: Path) -> Trajectory:
    """Return the trajectory of an earlier result, or of a bare definition."""
    from core.excitation import trajectory_from_definition

    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"--warm-start: cannot read {file}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"--warm-start: {file} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise InputError(f"--warm-start: {file} holds no trajectory")
    return trajectory_from_definition(document.get("trajectory", document))


def _check_outputs(json_file: Path | None, samples: Path | None, plot: Path | None, duration: float) -> None:
    """Refuse before the search what could not be written after it."""
    from importlib.util import find_spec

    from core.excitation.trajectory import uniform_grid

    check_output("--json", json_file)
    check_output("--samples", samples)
    if json_file is not None and samples is not None and json_file.resolve() == samples.resolve():
        raise InputError(f"--json and --samples both name {json_file}; one would replace the other")
    if plot is not None and plot.exists() and not plot.is_dir():
        raise InputError(f"--plot: {plot} is a file, not a folder")
    if samples is not None:
        uniform_grid(duration, SAMPLE_PERIOD)
    if plot is not None and find_spec("matplotlib") is None:
        raise InputError(
            "--plot needs matplotlib; install it with: pip install 'dynid[plot]'", code="matplotlib-missing"
        )


@contextmanager
def _interrupt_as_flag() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C end the search instead of the program; a second one ends the program."""
    asked = False

    def note(number: int, frame: Any) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _shown() -> Iterator[Callable[[Progress], None]]:
    """Show how a search stands."""
    with progress_bar() as bar:
        task = bar.add_task("searching", total=1.0)

        def show(progress: Progress) -> None:
            best = "nothing yet" if progress.best is None else f"best {progress.best:.4g}"
            beyond = f", last one beyond limits by {progress.violation:.2g}" if progress.violation > 0.0 else ""
            share = min(progress.elapsed / progress.budget, 1.0)
            bar.update(task, completed=share, description=f"{best}{beyond}")

        yield show


@contextmanager
def _processes(workers: int) -> Iterator[Executor]:
    """Worker processes that leave Ctrl-C to this one, from their first moment on: they inherit that it is blocked.

    They end with it, however it ends.
    """
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(workers, get_context("spawn"), _end_with_parent) as pool:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for _ in range(workers):  # each starts one process
                pool.submit(int)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield pool


def _end_with_parent() -> None:
    """End this worker when the process that started it is gone: a pool's worker waits for work for ever."""
    import multiprocessing
    import os
    import threading

    parent = multiprocessing.parent_process()
    assert parent is not None  # noqa: S101 - run by workers only

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _print(console: Console, robot: Mechanism, found: Design) -> None:
    from rich.table import Table

    console.print(
        f"{robot.name}, {len(found.columns)} columns: {found.settings.criterion} [bold]{found.value:.4g}[/bold]; "
        f"condition number {found.condition_number:.2f}, {found.condition_number_normalised:.2f} with columns of "
        f"length one; {found.trajectory.duration:g} s long, designed in {found.seconds:.1f} s, "
        f"seed {found.settings.seed}"
    )
    limited = [margin for margin in found.report.margins if any(use > 0.0 for use in margin.use)]
    if limited:
        table = Table(title="use of each limit (1 = at the limit), on a 1 ms grid")
        table.add_column("joint")
        for margin in limited:
            table.add_column(margin.kind, justify="right")
        for joint, name in enumerate(robot.joint_names):
            shown = (f"{margin.use[joint]:.3f}" if margin.use[joint] > 0.0 else "-" for margin in limited)
            table.add_row(f"{joint + 1} {name.removesuffix('_joint')}", *shown)
        console.print(table)
    else:
        console.print("no joint is limited")
    for clearance in sorted(found.report.clearances, key=lambda c: c.least)[:5]:
        console.print(f"{clearance.between}: {1e3 * clearance.least:.1f} mm to spare at {clearance.time:.2f} s")


def _write_samples(path: Path, trajectory: Trajectory) -> None:
    import io

    import numpy as np

    motion = trajectory.sample(SAMPLE_PERIOD)
    names = [f"{signal}{j}" for signal in ("q", "qd", "qdd") for j in range(1, motion.n_joints + 1)]
    text = io.StringIO()
    table = np.column_stack([motion.t, motion.q, motion.qd, motion.qdd])
    formats = ["%.6f"] + ["%.12g"] * len(names)
    np.savetxt(text, table, delimiter=",", header=",".join(["t", *names]), comments="", fmt=formats)
    write_output("--samples", path, text.getvalue())
