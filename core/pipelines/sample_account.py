"""What became of the samples of recordings: how many were odd, missing or left out, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def account_of_samples(which: str, sources: Sequence[Mapping[str, Any]], accounts: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence about recordings, empty where every sample is as it should be.

    Parameters
    ----------
    which : what to call them, such as ``training data``.
    sources : their provenance.
    accounts : of their preparation, see ``core.signals.Preparation``.
    """
    dropped = sum(len(source.get("repairs", {}).get("rows_dropped", ())) for source in sources)
    missing = sum(max(account["lost"], account["marked"].get("missing", 0)) for account in accounts)
    odd = sum(account["marked"].get("samples", 0) for account in accounts)
    beside = sum(account["marked"].get("rows_left_out", 0) for account in accounts)
    gaps = sum(len(account["gaps"]) for account in accounts)
    short = sum(sum(account["samples_in_dropped_segments"]) for account in accounts)
    facts = []
    if dropped:
        facts.append(f"{dropped} torn, misordered or not finite, dropped by the repair")
    if missing:
        facts.append(f"{missing} missing")
    if odd:
        used = "used as they are (signals with marked=leave_out do without)"
        treatment = f"left out with {beside} rows beside them" if beside else used
        facts.append(f"{odd} outlying or frozen, {treatment}")
    if gaps:
        facts.append(f"{gaps} gap{'s' if gaps > 1 else ''}, never filtered across")
    if short:
        facts.append(f"{short} left out in pieces too short to filter")
    total = sum(account["samples"] for account in accounts)
    return f"{which}, {total} samples: {'; '.join(facts)}" if facts else ""
