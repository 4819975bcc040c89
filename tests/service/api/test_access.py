"""Keys with roles and robots, and the audit of what was done with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi import APIRouter

from service.access import EVERYBODY, Principal, Role
from service.api.permissions import check_all_listed
from service.api.rate_limit import RateLimit
from service.storage import Database, api_keys, audit, events, recordings

API = "/api/v1"
Grant = Callable[..., httpx.Client]


@pytest.fixture
def grant(service: Any, client: httpx.Client, request: pytest.FixtureRequest) -> Grant:
    """Make a key and return a client that uses it."""
    count = iter(range(100))

    def make(role: str, robots: list[str] | None = None) -> httpx.Client:
        name = f"{request.node.name.translate(str.maketrans('[', '.', ']'))[:40]}-{next(count)}"
        answer = client.post(f"{API}/keys", json={"name": name, "role": role, "robots": robots})
        assert answer.status_code == 201, answer.text
        made = service.client(answer.json()["key"])
        request.addfinalizer(made.close)
        return made

    return make


def test_a_key_is_shown_once_and_kept_as_a_digest(service: Any, client: httpx.Client) -> None:
    made = client.post(f"{API}/keys", json={"name": "plc-1", "role": "viewer", "robots": ["cell"]}).json()
    assert made["key"].startswith("dynid_")
    listed = client.get(f"{API}/keys").text
    assert made["id"] in listed
    assert made["key"] not in listed
    assert made["key"] not in service.log.read_text(encoding="utf-8")
    assert made["key"].encode() not in (service.data_dir / "dynid.sqlite3").read_bytes()


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("viewer", {"list", "stop"}),
        ("operator", {"list", "stop", "lease", "record"}),
        ("engineer", {"list", "stop", "lease", "record", "identify", "promote"}),
        ("admin", {"list", "stop", "lease", "record", "identify", "promote", "keys", "audit"}),
    ],
)
def test_roles(grant: Grant, role: str, allowed: set[str]) -> None:
    client = grant(role)
    identify = {"kind": "identify", "robot": "cell", "recordings": ["rec_x"], "gains": "configured"}
    asked = {
        "list": client.get(f"{API}/recordings"),
        "stop": client.post(f"{API}/robots/cell/stop"),
        "lease": client.delete(f"{API}/robots/cell/lease", headers={"Lease-Token": "none"}),
        "record": client.post(f"{API}/jobs", json={"kind": "record", "robot": "nowhere", "duration": 1.0}),
        "identify": client.post(f"{API}/jobs", json=identify),
        "promote": client.post(f"{API}/results/res_none/promote"),
        "keys": client.get(f"{API}/keys"),
        "audit": client.get(f"{API}/audit"),
    }
    refused = {name for name, answer in asked.items() if answer.status_code == 403}
    assert refused == set(asked) - allowed
    for name in refused:
        problem = asked[name].json()
        assert problem["code"] == "role-too-low"
        assert f"needs the role {problem['context']['needed']}" in problem["detail"]


def test_a_key_for_one_robot_knows_of_no_other(service: Any, grant: Grant, expect_problem: Any) -> None:
    client = grant("operator", ["cell"])
    database = service.database
    with database.session() as session:
        own, other = (recordings.create(session, robot=robot) for robot in ("cell", "fixed"))
    database.close()
    assert [robot["name"] for robot in client.get(f"{API}/robots").json()] == ["cell"]
    assert own.id in (shown := client.get(f"{API}/recordings?limit=500").text)
    assert other.id not in shown
    expect_problem(client.get(f"{API}/recordings/{other.id}"), 404, "recording-not-found")
    for path in ("", "/state"):
        assert "fixed" not in expect_problem(client.get(f"{API}/robots/other{path}"), 404, "robot-not-found")["detail"]
        expect_problem(client.get(f"{API}/robots/fixed{path}"), 404, "robot-not-found")
    job = {"kind": "record", "robot": "fixed", "duration": 1.0}
    expect_problem(client.post(f"{API}/jobs", json=job), 404, "robot-not-found")
    expect_problem(client.post(f"{API}/robots/fixed/stop"), 404, "robot-not-found")


def test_a_key_makes_none_that_may_more(grant: Grant, expect_problem: Any) -> None:
    client = grant("admin", ["cell"])
    for robots in (None, ["cell", "fixed"]):
        answer = client.post(f"{API}/keys", json={"name": "wider", "role": "viewer", "robots": robots})
        assert answer.status_code in (403, 404)
    expect_problem(client.get(f"{API}/audit"), 403, "robots-too-few")
    assert client.post(f"{API}/keys", json={"name": "narrow", "role": "viewer", "robots": ["cell"]}).status_code == 201


def test_a_revoked_key_is_of_no_use_and_its_name_stays_taken(
    service: Any, client: httpx.Client, expect_problem: Any
) -> None:
    made = client.post(f"{API}/keys", json={"name": "leaked", "role": "operator"}).json()
    with service.client(made["key"]) as other:
        assert other.get(f"{API}/robots").status_code == 200
        assert client.delete(f"{API}/keys/{made['id']}").json()["revoked_at"] is not None
        expect_problem(other.get(f"{API}/robots"), 401, "unauthenticated")
    expect_problem(client.post(f"{API}/keys", json={"name": "leaked", "role": "viewer"}), 409, "key-exists")


def test_every_write_is_in_the_audit_with_who_and_what_came_of_it(client: httpx.Client, grant: Grant) -> None:
    viewer = grant("viewer")
    refused = viewer.post(f"{API}/results/res_none/promote")
    done = client.post(f"{API}/trajectories", json={"name": "a", "ready_made": "ur10e_excitation_a"})
    page = client.get(f"{API}/audit", params={"limit": 500}).json()["items"]
    by_request = {
        answer.headers["x-request-id"]: [row for row in page if row["request_id"] == answer.headers["x-request-id"]]
        for answer in (refused, done)
    }
    last, first = by_request[refused.headers["x-request-id"]]
    assert first["details"] == {"stage": "asked"}
    assert (last["details"]["stage"], last["details"]["status"]) == ("done", 403)
    assert last["action"] == f"POST {API}/results/res_none/promote"
    assert last["principal"].startswith("test_every_write")
    last, _ = by_request[done.headers["x-request-id"]]
    assert (last["principal"], last["details"]["status"]) == ("administrator", done.status_code)
    check = client.get(f"{API}/audit/check").json()
    assert check["intact"]
    assert check["newest"] >= page[0]["id"]


def test_who_guesses_keys_has_to_wait_and_who_has_one_does_not(start_service: Any, expect_problem: Any) -> None:
    with start_service() as running:
        with running.client("a wrong key of some length") as guessing:
            statuses = [guessing.get(f"{API}/robots").status_code for _ in range(30)]
        assert statuses[:20] == [401] * 20
        assert statuses[-1] == 429
        with running.client() as known:
            assert known.get(f"{API}/robots").status_code == 200


def test_a_route_that_writes_and_has_no_role_keeps_the_service_from_starting() -> None:
    router = APIRouter()

    @router.get("/")
    def look() -> None: ...

    check_all_listed([router])

    @router.delete("/")
    def forgotten() -> None: ...

    with pytest.raises(RuntimeError, match="forgotten"):
        check_all_listed([router])


def test_a_rate_limit_lets_so_many_through_and_recovers() -> None:
    now = [0.0]
    limit = RateLimit(per_second=2.0, burst=3, clock=lambda: now[0])
    assert [limit.allows("a") for _ in range(4)] == [True, True, True, False]
    assert limit.allows("b")
    now[0] = 0.5
    assert [limit.allows("a") for _ in range(2)] == [True, False]


def test_no_other_page_may_ask(client: httpx.Client) -> None:
    asked = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}
    answers = (client.options(f"{API}/jobs", headers=asked), client.get(f"{API}/robots", headers=asked))
    for answer in answers:
        assert not [name for name in answer.headers if name.startswith("access-control")]


# --- what is stored -----------------------------------------------------------------------------------------


@pytest.fixture
def database(tmp_path: Any) -> Any:
    database = Database(f"sqlite:///{tmp_path / 'dynid.sqlite3'}")
    database.create()
    yield database
    database.close()


def test_a_row_that_was_changed_or_taken_out_breaks_the_chain(database: Database) -> None:
    with database.session() as session:
        for number in range(5):
            audit.record(session, principal="p", action=f"POST /{number}", robot=None, request_id="r", number=number)
    with database.session() as session:
        assert audit.first_broken(session) is None
        raw = session.connection()
        for trigger in ("update", "delete"):
            raw.exec_driver_sql(f"DROP TRIGGER audit_refuse_{trigger}")
        raw.exec_driver_sql("UPDATE audit SET principal = 'somebody else' WHERE id = 3")
    with database.session() as session:
        assert audit.first_broken(session) == 3
        session.connection().exec_driver_sql("DELETE FROM audit WHERE id = 2")
    with database.reading() as session:
        assert audit.first_broken(session) == 3


def test_keys_stand_for_principals(database: Database) -> None:
    with database.session() as session:
        row, key = api_keys.create(session, name="a", role=Role.OPERATOR, robots=["r"], created_by="test")
        events.record(session, "test", "other rows are no robot's")
    with database.reading() as session:
        assert api_keys.principals(session) == {row.digest: Principal("a", Role.OPERATOR, frozenset({"r"}))}
        assert key not in repr(row.__dict__)
    assert EVERYBODY.role.rank == max(role.rank for role in Role)
