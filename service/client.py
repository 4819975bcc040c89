"""A synchronous client of the service: the REST calls with errors, leases and job progress taken care of."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import httpx

from core.errors import DynidError

API = "/api/v1"
TERMINAL_JOB_STATES = frozenset({"succeeded", "failed", "cancelled", "interrupted"})

JobProgress = Callable[[Mapping[str, Any]], None]


class ServiceError(DynidError):
    """The service refused or failed; ``code``, ``detail`` and ``context`` are those of its problem document."""

    code = "service-error"


class ServiceUnreachableError(ServiceError):
    """Nobody answers at the service's address."""

    code = "service-unreachable"


class JobFailedError(ServiceError):
    """A job ended otherwise than SUCCEEDED."""

    code = "job-failed"


KEPT_SECONDS = 2.0
"""How long an idle connection may be used again. The server closes it after 5 s: at the same moment is too late."""


class Client:
    """Talk to one service.

    Parameters
    ----------
    base_url : such as ``http://127.0.0.1:8080``.
    api_key : the service's key.
    timeout : s per request; jobs are polled and may take longer.
    """

    def __init__(self, base_url: str, api_key: str, *, timeout: float = 10.0) -> None:
        self._http = httpx.Client(
            base_url=base_url,
            headers={"Authorization": f"Bearer {api_key}"},
            timeout=timeout,
            limits=httpx.Limits(keepalive_expiry=KEPT_SECONDS),
            trust_env=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send one request to ``path`` under the API's root; raise what the service refuses.

        Raises
        ------
        ServiceUnreachableError
            No connection, or no answer in time.
        ServiceError
            The answer is an error; its problem document is passed on.
        """
        try:
            response = self._http.request(method, API + path, **options)
        except httpx.HTTPError as error:
            raise ServiceUnreachableError(
                f"no answer from {self._http.base_url}: {error}; is the service running there?"
            ) from error
        if response.is_error:
            raise _problem(response)
        return response

    def get(self, path: str, **params: Any) -> Any:
        """GET a JSON document."""
        return self.request("GET", path, params=params).json()

    def post(self, path: str, body: Mapping[str, Any] | None = None, *, lease: str | None = None) -> Any:
        """POST a JSON document, with the lease's token where one is needed; None if the answer is empty."""
        headers = {} if lease is None else {"Lease-Token": lease}
        response = self.request("POST", path, json=body, headers=headers)
        return response.json() if response.content else None

    def ready(self) -> bool:
        """Whether the service says that it is ready."""
        try:
            return self._http.get("/readyz").status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    @contextmanager
    def lease(self, robot: str, holder: str, seconds: float = 10.0) -> Iterator[str]:
        """Hold the lease of ``robot``, renewing it in the background; yields its token.

        Raises
        ------
        ServiceError
            The lease could not be had, or was lost meanwhile.
        """
        path = f"/robots/{robot}/lease"
        token: str = self.post(path, {"holder": holder, "seconds": seconds})["token"]
        headers = {"Lease-Token": token}
        done = threading.Event()
        lost: list[ServiceError] = []

        def renew() -> None:
            while not done.wait(seconds / 4.0):
                try:
                    self.request("PUT", path, headers=headers, json={"seconds": seconds})
                except ServiceError as error:
                    lost.append(error)
                    return

        renewer = threading.Thread(target=renew, name=f"lease of {robot}", daemon=True)
        renewer.start()
        try:
            yield token
        finally:
            done.set()
            renewer.join()
            if not lost:
                self.request("DELETE", path, headers=headers)
        if lost:
            raise lost[0]

    def run_job(
        self,
        request: Mapping[str, Any],
        *,
        lease: str | None = None,
        progress: JobProgress | None = None,
        timeout: float = 300.0,
        poll: float = 0.1,
    ) -> dict[str, Any]:
        """Submit a job, follow it to its end and return its ``result``.

        Raises
        ------
        JobFailedError
            It ended in another state than ``succeeded``, or not within ``timeout`` s (then it is cancelled).
        """
        return self._followed(self.post("/jobs", request, lease=lease), progress, timeout, poll)

    def calibrate(
        self, robot: str, profile: str, *, lease: str, progress: JobProgress | None = None, timeout: float = 300.0
    ) -> dict[str, Any]:
        """Move a robot along a calibration profile of its settings and return the job's ``result``.

        THE ROBOT MOVES; its permit must be armed.

        Raises
        ------
        JobFailedError
            As of ``run_job``.
        """
        job = self.post("/calibrations", {"robot": robot, "profile": profile}, lease=lease)
        return self._followed(job, progress, timeout, 0.1)

    def _followed(
        self, job: dict[str, Any], progress: JobProgress | None, timeout: float, poll: float
    ) -> dict[str, Any]:
        deadline = time.monotonic() + timeout
        while job["state"] not in TERMINAL_JOB_STATES:
            if time.monotonic() > deadline:
                self.post(f"/jobs/{job['id']}/cancel")
                raise JobFailedError(f"the {job['kind']} job {job['id']} took longer than {timeout:g} s; cancelled")
            time.sleep(poll)
            job = self.get(f"/jobs/{job['id']}")
            if progress is not None:
                progress(job)
        if job["state"] != "succeeded":
            error = job["error"] or {"code": JobFailedError.code, "detail": "no reason given"}
            raise JobFailedError(
                f"the {job['kind']} job ended {job['state']}: {error['detail']}",
                code=error["code"],
                job=job["id"],
            )
        result: dict[str, Any] = job["result"]
        return result


def _problem(response: httpx.Response) -> ServiceError:
    try:
        document = response.json()
        return ServiceError(document["detail"], code=document["code"], **document.get("context") or {})
    except (ValueError, KeyError, TypeError):
        return ServiceError(f"HTTP {response.status_code} from {response.request.url}: {response.text[:200]}")
