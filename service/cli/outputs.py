"""Files that commands write: tried before the work begins, and written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


def check_output(option: str, path: Path | None) -> None:
    """Refuse before the work what could not be written after it.

    Raises
    ------
    InputError
        ``output-unwritable``.
    """
    if path is None:
        return
    folder = path.absolute().parent
    if not folder.is_dir():
        raise InputError(f"{option}: there is no folder {folder}", code="output-unwritable")
    if path.is_dir():
        raise InputError(f"{option}: {path} is a folder; give the name of a file", code="output-unwritable")
    if path.exists() and not os.access(path, os.W_OK):
        raise InputError(f"{option}: {path} may not be written", code="output-unwritable")
    try:
        if not _is_special(path):
            tempfile.TemporaryFile(dir=path.resolve().parent).close()
    except OSError as error:
        raise InputError(f"{option}: cannot write {path}: {error.strerror}", code="output-unwritable") from error


def write_output(option: str, path: Path, text: str) -> None:
    """Write a file in place of an earlier one, which stays as it was until the new one is complete.

    Raises
    ------
    InputError
        ``output-unwritable``.
    """
    try:
        if _is_special(path):
            path.write_text(text, encoding="utf-8")
        else:
            _replace(path.resolve(), text)
    except OSError as error:
        raise InputError(f"{option}: cannot write {path}: {error.strerror}", code="output-unwritable") from error


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write a result for people and programs."""
    write_output("--json", path, json.dumps(document, indent=2, allow_nan=False) + "\n")


def _is_special(path: Path) -> bool:
    """A device or a pipe is written to; there is nothing to be replaced."""
    return path.exists() and not path.is_file()


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def write_and_show(console: Console, file: Path | None, document: dict[str, Any], show: Callable[[], None]) -> None:
    """Write a result, then show it: who reads what is printed may stop early, and a full disk hides no result."""
    try:
        if file is not None:
            write_json(file, document)
    finally:
        show()
    if file is not None:
        console.print(f"written to {file}")


def progress_bar() -> Progress:
    """Return a bar on standard error, where a person looks on; nothing is written there for a program."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=not console.is_terminal)
