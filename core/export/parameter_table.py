"""Identified parameters as CSV."""

from __future__ import annotations

import csv
import io

import numpy as np

from core.pipelines.identification import Identification

COLUMNS = ("name", "kind", "value", "std", "relative_std", "relation")


def parameter_table(identification: Identification) -> str:
    """Return CSV text with one row per parameter: base parameters first, then friction; SI units.

    ``relation`` says which standard parameters a base parameter combines. Standard deviations are empty where they are
    not known.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = identification.base.count
    kinds = ["base"] * count + ["friction"] * (len(identification.names) - count)
    relations = [*identification.base.relations, *[""] * (len(identification.names) - count)]
    deviations = np.sqrt(np.diag(identification.covariance_))
    rows = zip(
        identification.names,
        kinds,
        identification.parameters_,
        deviations,
        identification.relative_std_,
        relations,
        strict=True,
    )
    for name, kind, value, deviation, share, relation in rows:
        writer.writerow([name, kind, repr(float(value)), _figure(deviation), _figure(share), relation])
    return text.getvalue()


def _figure(value: float) -> str:
    return repr(float(value)) if np.isfinite(value) else ""
