"""Results exported over HTTP: what comes is what ``core.export`` writes, said what it is, and only once."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np
import pytest

from core import export as exporting
from core.models import catalogue
from core.models.model_file import parse_model_file
from core.pipelines.identification import Identification
from core.pipelines.identify import identify
from core.recordings import Recording
from service.api.result_exports import MEDIA_TYPES, ExportFormat
from service.storage import Database, new_id, results

API = "/api/v1"


@pytest.fixture(scope="module")
def identification() -> Identification:
    chain = catalogue("three_joint")
    random = np.random.default_rng(0)
    t = np.arange(1500) / 100.0
    rate, phase = random.uniform(0.4, 2.5, (3, 4)), random.uniform(0.0, 6.0, (3, 4))
    angle = t[:, None, None] * rate + phase
    waves = (np.sin(angle), rate * np.cos(angle), -(rate**2) * np.sin(angle))
    q, qd, qdd = (0.4 * wave.sum(axis=2) for wave in waves)
    torque = chain.inverse_dynamics(q, qd, qdd) + np.sign(qd) + random.normal(0.0, 0.05, q.shape)
    return identify(chain.with_drive_gains(None), [Recording("run", t, q, qd, torque=torque)])


@pytest.fixture
def stored(service: Any, identification: Identification) -> str:
    database: Database = service.database
    with database.session() as session:
        row = results.create(
            session,
            robot=new_id("robot").lower(),
            recording_ids=[],
            settings={},
            document=json.loads(json.dumps(identification.to_document())),
        )
    database.close()
    return row.id


def test_there_is_a_media_type_for_every_format() -> None:
    assert set(MEDIA_TYPES) == set(ExportFormat)
    assert {form.value for form in ExportFormat} == set(exporting.FORMATS)


@pytest.mark.parametrize("form", ExportFormat)
def test_what_comes_is_what_the_library_writes(
    client: httpx.Client, stored: str, identification: Identification, form: ExportFormat
) -> None:
    path = f"{API}/results/{stored}/export"
    answer = client.get(path, params={"format": form})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].partition(";")[0] == MEDIA_TYPES[form]
    assert answer.headers["content-disposition"] == f'attachment; filename="{stored}.{"h" if form == "c" else form}"'
    assert answer.text == exporting.export(identification, form).text
    etag = answer.headers["etag"]
    again = client.get(path, params={"format": form}, headers={"If-None-Match": etag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    others = {client.get(path, params={"format": other}).headers["etag"] for other in ("csv", "json")} - {etag}
    assert others


def test_deviations_are_allowed_by_whoever_asks(client: httpx.Client, expect_problem: Any, stored: str) -> None:
    path = f"{API}/results/{stored}/export"
    refused = client.get(path, params={"format": "toml", "allow_deviation": 1e-12})
    problem = expect_problem(refused, 422, "deviation-too-large")
    allowed = {"format": "toml", "allow_deviation": 2.0 * max(problem["context"]["rms"])}
    assert parse_model_file(client.get(path, params=allowed).content, "exported").n_joints == 3
    expect_problem(client.get(path, params={"format": "csv", "allow_deviation": 1.0}), 422, "export-exact")
    expect_problem(client.get(path, params={"format": "toml", "allow_deviation": -1.0}), 422, "request-invalid")


def test_what_cannot_be_exported_is_told(client: httpx.Client, expect_problem: Any, service: Any, stored: str) -> None:
    expect_problem(client.get(f"{API}/results/res_none/export", params={"format": "urdf"}), 404, "result-not-found")
    expect_problem(client.get(f"{API}/results/{stored}/export", params={"format": "pickle"}), 422, "request-invalid")
    expect_problem(client.get(f"{API}/results/{stored}/export"), 422, "request-invalid")
    database: Database = service.database
    with database.session() as session:
        other = results.create(session, robot="x", recording_ids=[], settings={}, document={"kind": "foreign"}).id
    database.close()
    expect_problem(client.get(f"{API}/results/{other}/export", params={"format": "csv"}), 422, "document-foreign")
