"""The same samples neither train twice nor judge what they trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from core.errors import InputError
from core.pipelines.held_out import check_held_out
from core.recordings.recording import Recording


def recording(sha256: str | None, rows: list[int] | None = None) -> Recording:
    provenance: dict[str, Any] = {"sha256": sha256, "rows": rows}
    still = np.zeros((3, 2))
    return Recording(
        "r", np.arange(3.0), still, still, provenance={k: v for k, v in provenance.items() if v is not None}
    )


@pytest.mark.parametrize(
    ("train", "validate"),
    [
        ([recording("a", [1, 100])], [recording("a", [101, 200])]),
        ([recording("a"), recording("b")], [recording("c")]),
        ([recording(None), recording(None)], [recording(None)]),
    ],
)
def test_other_samples_are_fine(train: list[Recording], validate: list[Recording]) -> None:
    check_held_out(train, validate)
    assert len(train) + len(validate) > 1


@pytest.mark.parametrize(
    ("train", "validate", "code"),
    [
        ([recording("a"), recording("a", [1, 10])], [], "recording-repeated"),
        ([recording("a", [1, 100]), recording("a", [100, 200])], [], "recording-repeated"),
        ([recording("a", [1, 100])], [recording("a", [50, 60])], "validation-on-training-data"),
        ([recording("a")], [recording("a")], "validation-on-training-data"),
    ],
)
def test_shared_samples_are_refused(train: list[Recording], validate: list[Recording], code: str) -> None:
    with pytest.raises(InputError) as refused:
        check_held_out(train, validate)
    assert refused.value.code == code
