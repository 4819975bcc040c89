"""Held-out data have to be held out: the same samples neither train twice nor judge what they trained."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product

from core.errors import InputError
from core.recordings.recording import Recording


def check_held_out(train: Sequence[Recording], validate: Sequence[Recording]) -> None:
    """Refuse recordings that share samples, by the hash of their file and the rows taken from it.

    Raises
    ------
    InputError
        ``recording-repeated`` within the training data, ``validation-on-training-data`` between both.
    """
    for first, second in combinations(train, 2):
        if _overlap(first, second):
            raise InputError(
                f"{first.name} and {second.name} hold the same samples of one file; train on each sample once",
                code="recording-repeated",
            )
    for trained, judged in product(train, validate):
        if _overlap(trained, judged):
            raise InputError(
                f"{judged.name} holds samples that {trained.name} is trained on; validate on other motion",
                code="validation-on-training-data",
            )


def _overlap(a: Recording, b: Recording) -> bool:
    digest = a.provenance.get("sha256")
    if digest is None or digest != b.provenance.get("sha256"):
        return False
    (first, last), (other_first, other_last) = _rows(a), _rows(b)
    return first <= other_last and other_first <= last


def _rows(recording: Recording) -> tuple[float, float]:
    rows = recording.provenance.get("rows")
    return (1, float("inf")) if rows is None else (rows[0], rows[1])
