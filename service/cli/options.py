"""Options that commands share: lists without repetition, recordings, gains, signals, friction, results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import BadParameter
from typer.core import TyperCommand

from core.errors import InputError

if TYPE_CHECKING:
    from core.pipelines.identification import Identification
    from core.recordings.recording import Recording
    from core.signals import SignalSettings


class ListOptionsCommand(TyperCommand):
    """A command whose list options take all values up to the next option: ``--train A B C``.

    Shell globs expand to several words, so repeating the option before each would be a nuisance; that
    form works as well.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        options = [parameter for parameter in self.params if parameter.param_type_name == "option"]
        known = {name for option in options for name in (*option.opts, *option.secondary_opts)} | {"--help"}
        taking = {name for option in options if not getattr(option, "is_flag", False) for name in option.opts}
        for word, following in pairwise(args):
            if word in taking and following in known:
                raise BadParameter(f"it needs a value, but {following} follows it", ctx=ctx, param_hint=word)
        multiple = {name for option in options if getattr(option, "multiple", False) for name in option.opts}
        return super().parse_args(ctx, repeat_list_options(args, multiple))


def repeat_list_options(args: Sequence[str], multiple: set[str]) -> list[str]:
    """Turn ``--train A B`` into ``--train A --train B`` for the options named in ``multiple``."""
    out: list[str] = []
    current: str | None = None
    pending = False
    for word in args:
        if word.startswith("--"):
            current = word if word in multiple else None
            pending = current is not None
            out.append(word)
        elif current is not None and not pending:
            out += [current, word]
        else:
            out.append(word)
            pending = False
    return out


def read_recordings(
    sources: Sequence[str], file_format: str, columns: Path | None, *, repair: bool = False
) -> list[Recording]:
    """Return the recordings of FILE or FILE:first-last words."""
    from core.recordings import parse_source, read

    return [read(path, file_format, rows, columns=columns, repair=repair) for path, rows in map(parse_source, sources)]


def parse_signals(words: Sequence[str] | None) -> SignalSettings:
    """Return the settings with some of them replaced by NAME=VALUE."""
    from core.signals import SignalSettings

    document: dict[str, Any] = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        if not equals:
            raise InputError(f"--signals: {word!r} is not NAME=VALUE")
        try:
            document[name] = json.loads(value)
        except ValueError:
            document[name] = value
    return SignalSettings.from_document(document)


def parse_gains(words: Sequence[str] | None, n_joints: int) -> Any:
    """Return the gains as the pipeline takes them: None, 'from-recording' or n numbers."""
    if not words:
        return None
    if list(words) == ["from-recording"]:
        return "from-recording"
    values = [
        parse_number(part, f"--gains: {part!r} is not a number; give {n_joints} numbers in N·m/A, or from-recording")
        for word in words
        for part in word.replace(",", " ").split()
    ]
    if len(values) != n_joints or any(not value > 0.0 for value in values):
        raise InputError(
            f"--gains: the model has {n_joints} joints, so {n_joints} positive numbers are needed, got {values}"
        )
    return values


def parse_friction(words: Sequence[str] | None) -> str | list[str]:
    """Return one composition for all joints, or one per joint."""
    if not words:
        return "coulomb_viscous"
    return words[0] if len(words) == 1 else list(words)


def parse_number(word: str, problem: str) -> float:
    """Return a number, or raise InputError with ``problem``; 1_0 is none, though Python takes it for 10."""
    try:
        value = float(word)
    except ValueError:
        value = float("nan")
    if "_" in word or not isfinite(value):
        raise InputError(problem)
    return value


def read_result(path: Path, option: str | None = None) -> Identification:
    """Return the identification in a file that ``dynid identify --json`` or the service wrote."""
    from core.pipelines.identification import Identification

    where = f"{option}: {path}" if option else str(path)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{where}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{where}: not JSON: {error}") from error
    if not isinstance(document, dict):
        raise InputError(f"{where}: not the document of a result")
    return Identification.from_document(document)
