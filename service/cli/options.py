"""Options that commands share: lists without repetition, recordings, gains, signals, friction, results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

from core.errors import InputError

if TYPE_CHECKING:
    from core.recordings.recording import Recording
    from core.signals import SignalSettings


class ListOptionsCommand(TyperCommand):
    """A command whose list options take all values up to the next option: ``--train A B C``.

    Shell globs expand to several words, so repeating the option before each would be a nuisance; that
    form works as well.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        multiple = {name for p in self.params if getattr(p, "multiple", False) for name in p.opts}
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


def read_recordings(sources: Sequence[str], file_format: str, columns: Path | None) -> list[Recording]:
    """Return the recordings of FILE or FILE:first-last words."""
    from core.recordings import parse_source, read

    return [read(path, file_format, rows, columns=columns) for path, rows in map(parse_source, sources)]


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
    parts = [part for word in words for part in word.replace(",", " ").split()]
    try:
        values = [float(part) for part in parts]
    except ValueError as error:
        raise InputError(f"--gains: {error}; give {n_joints} numbers in N·m/A, or from-recording") from error
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


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write a result for people and programs."""
    try:
        path.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"--json: cannot write {path}: {error.strerror}") from error
