"""Requests that Schemathesis makes of the OpenAPI document, good ones and bad ones: every answer is one it names."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from service.storage import results, trajectories

API = "/api/v1"
EXAMPLES = 3
WRITERS = 5
CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]


def material(running: Any) -> Mapping[str, str]:
    """Put something of each kind that a path names into the service's database."""
    database = running.database
    with database.session() as session:
        result = results.create(session, robot="cell", recording_ids=[], settings={}, document={})
        results.set_validation(session, result.id, {"passed": True, "reasons": [], "report": {}})
        trajectory = trajectories.create(session, name="t", definition={"family": "x"}, n_joints=6, duration=1.0)
    database.close()
    return {"robot": "cell", "result_id": result.id, "trajectory_id": trajectory.id}


def keys(running: Any) -> Iterator[str]:
    """Administrators' keys in turn: each has its own limit to writes."""
    with running.client() as client:
        made = [
            client.post(f"{API}/keys", json={"name": f"k{n}", "role": "admin"}).json()["key"] for n in range(WRITERS)
        ]
    return itertools.cycle(made)


def ask(operation: Any, mode: GenerationMode, path: Mapping[str, str] | None, key: Iterator[str]) -> list[str]:
    """Ask `EXAMPLES` times and return what was wrong with the answers; ``path`` has parameters that exist."""
    wrong: list[str] = []

    @seed(1)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(mode, **({"path_parameters": dict(path)} if path else {})))
    def one(case: Case) -> None:
        if "wait" in case.query:
            case.query["wait"] = "0"
        answer = case.call(headers={"Authorization": f"Bearer {next(key)}"}, timeout=20)
        try:
            case.validate_response(answer, checks=CHECKS)
        except schemathesis.errors.FailureGroup as failures:
            wrong.extend(f"{case.as_curl_command()}: {answer.status_code} {failure}" for failure in failures.exceptions)
        if answer.status_code == 500:
            wrong.append(f"{case.as_curl_command()}: {answer.text}")

    try:
        one()
    except Unsatisfiable:
        assert not operation.query, operation.path  # there is nothing to get wrong
    return wrong


@pytest.mark.timeout(300)
def test_every_answer_is_in_the_document(start_service: Any) -> None:
    with start_service() as running:
        existing, key = material(running), keys(running)
        schema = schemathesis.openapi.from_url(f"{running.url}/openapi.json")
        wrong: list[str] = []
        asked = 0
        for found in schema.get_all_operations():
            operation = found.ok()
            streams = "text/event-stream" in str(operation.definition.raw["responses"])  # of what exists: endless
            path = {name: value for name, value in existing.items() if f"{{{name}}}" in operation.path}
            if not streams:
                wrong += ask(operation, GenerationMode.POSITIVE, path, key)
            wrong += ask(operation, GenerationMode.NEGATIVE, None, key)
            asked += 1
        assert asked > 40
        assert not wrong, "\n".join(wrong)
