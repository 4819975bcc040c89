"""What the generated OpenAPI document says about errors: problem documents, on every path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI

from service.api.problems import MEDIA_TYPE, Problem

DESCRIPTIONS = {
    400: "The request cannot be read.",
    401: "The API key is missing or wrong.",
    403: "The key's role does not allow it; `context` names the one that does.",
    404: "It does not exist, or belongs to a robot that the key is not for.",
    405: "The path does not take this method.",
    406: "None of the media types that were asked for can be had.",
    409: "Not in the present state; the code says why and the detail what to do.",
    413: "The body is too large.",
    415: "The body is not declared as JSON.",
    416: "The range lies outside the file.",
    422: "The request is not valid; `errors` points at each field where fields are at fault.",
    429: "Too much work waits already; come again later.",
    500: "An error nobody foresaw; the log has it under the request id.",
    502: "The robot's controller refused or answered nonsense.",
    503: "Something that is needed cannot be reached or used now.",
    504: "The robot's controller did not answer in time.",
    507: "The disk is full.",
}

REFERENCE = {"$ref": "#/components/schemas/Problem"}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Declare the problem documents that a route or router may answer with."""
    return {status: {"model": Problem, "description": DESCRIPTIONS[status]} for status in statuses}


def install_openapi(app: FastAPI) -> None:
    """Make ``app.openapi`` describe errors as they are."""
    generate: Callable[[], dict[str, Any]] = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = generate()
            _describe_problems(document)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _describe_problems(document: dict[str, Any]) -> None:
    """Give the problem documents, which FastAPI takes for JSON like the rest, their own media type."""
    for methods in document["paths"].values():
        for operation in methods.values():
            for response in operation["responses"].values():
                schemas = [media.get("schema") for media in response.get("content", {}).values()]
                if REFERENCE in schemas:
                    response["content"] = {MEDIA_TYPE: {"schema": REFERENCE}}
