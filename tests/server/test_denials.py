"""Denials: auditors see them, and no caller can fill the log with them."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator

import httpx
import pytest

from chronolake_metastore import errors
from chronolake_metastore.batching.sequencer import Notifier, Sequencer
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.denials import RECORDED_PER_HOUR
from chronolake_metastore.domain.subjects import Subject
from chronolake_metastore.metrics import Metrics
from chronolake_metastore.service import recorder
from chronolake_metastore.service.callers_rights import RIGHTS_SECONDS
from chronolake_metastore.service.denials import Denials
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.roles import Right
from tests.processes import wait_until
from tests.server import access, database, rest
from tests.server.access import AccessServer, Caller
from tests.server.database import Row
from tests.server.rest import refused, succeeded

NOBODY = Subject("token:nobody")
BEGIN = {"action": "commit", "operation": "upsert", "writer": "w"}


@pytest.fixture(scope="module")
def server(shared_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccessServer]:
    with access.running(shared_dsn, tmp_path_factory.mktemp("access")) as server:
        succeeded(server.admin.post("/v1/namespaces", json={"name": "shop"}))
        succeeded(server.admin.post("/v1/tables", json=rest.table_body("shop.orders")))
        yield server


def refusals(caller: Caller) -> list[Row]:
    """The recorded refusals of a caller, in their order."""
    return database.query(
        caller.server.dsn,
        "SELECT r.*, t.name FROM refusal r LEFT JOIN lake_table t USING (table_id)"
        " WHERE r.actor = %s ORDER BY r.position",
        caller.subject,
    )


def begin(caller: Caller, key: str) -> httpx.Response:
    return caller.http.post("/v1/tables/shop.orders/instants", json=BEGIN, headers={"Idempotency-Key": key})


def counted(server: AccessServer, record: str, right: str) -> float:
    """The number of denials in the metrics."""
    lines = server.admin.get("/metrics").text.splitlines()
    start = f'chronolake_denied_total{{record="{record}",right="{right}"}} '
    return sum(float(line.removeprefix(start)) for line in lines if line.startswith(start))


def test_denied_reads_and_notes_are_recorded_once(server: AccessServer) -> None:
    nobody, reader = server.caller("nobody"), server.caller("reader", shop="reader")
    hidden = missing = {}
    for _ in range(3):
        hidden = refused(nobody.http.get("/v1/tables/shop.orders"), 404, "table-not-found")
        missing = refused(nobody.http.get("/v1/tables/shop.none/snapshot"), 404, "table-not-found")
        refused(nobody.http.get("/v1/namespaces/shop"), 404, "namespace-not-found")
        refused(
            reader.http.delete("/v1/tables/shop.orders/instants/20260101000000000/markers"), 403, "forbidden"
        )
    wait_until(lambda: len(refusals(nobody)) == 3 and len(refusals(reader)) == 1)

    advice = "create it first, or check the name, or ask an administrator for a role on it"
    assert hidden["detail"] == f"there is no table 'shop.orders'; {advice}"
    assert missing["detail"] == f"there is no table 'shop.none'; {advice}"
    assert "role" not in refused(server.admin.get("/v1/tables/shop.none"), 404, "table-not-found")["detail"]
    recorded = [*refusals(nobody), *refusals(reader)]
    assert {(row["command"], row["code"]) for row in recorded} == {("RecordDenial", "forbidden")}
    assert [row["context"] for row in recorded] == [
        {"right": "read", "on": "shop.orders", "denied": "tables.get"},
        {"right": "read", "on": "shop.none", "denied": "files.snapshot"},
        {"right": "read", "on": "shop", "denied": "namespaces.get"},
        {"right": "write", "on": "shop.orders", "denied": "markers.delete"},
    ]
    assert [row["table_name"] for row in recorded] == ["shop.orders", "shop.none", None, "shop.orders"]
    assert [row["name"] for row in recorded] == ["orders", None, None, "orders"]
    assert recorded[0]["detail"].startswith(f"{nobody.subject} lacks the right 'read' on 'shop.orders'")
    assert recorded[0]["request_id"].startswith(f"{nobody.subject}»denied-")
    wait_until(lambda: counted(server, "recorded", "read") == 3)
    assert counted(server, "bounded", "read") == 6
    server.run("verify")


def test_t58_another_actor_that_a_caller_may_not_name_is_a_denial(server: AccessServer) -> None:
    caller = server.caller("actor", shop="admin")
    headers = {"Chronolake-Actor": "ann"}
    answers = [caller.http.get("/v1/tables", headers=headers) for _ in range(2)]
    answers.append(caller.http.post("/v1/namespaces", json={"name": "shop_2"}, headers=headers))
    assert [refused(answer, 403, "forbidden")["context"] for answer in answers] == [
        {"right": "act-for-others"}
    ] * 3

    wait_until(lambda: counted(server, "recorded", "act-for-others") == 1)
    [row] = refusals(caller)
    assert row["context"] == {"right": "act-for-others", "on": None, "denied": "Chronolake-Actor"}
    assert counted(server, "bounded", "act-for-others") == 2


def test_denials_that_cannot_be_recorded_are_counted_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "QUEUE_MAX", 2)
    settings, metrics = Settings(dsn="postgresql://nobody@127.0.0.1:1/nothing"), Metrics()

    async def run() -> None:
        both = asyncio.Event()
        tries: list[None] = []

        def refuse() -> None:
            tries.append(None)
            if len(tries) == 2:
                both.set()
            raise errors.DatabaseUnavailable("gone")

        of_server = Database(settings)
        lost = metrics.denied.labels("read", "lost")._value.get
        of_all = Denials(Sequencer(of_server, settings, metrics, Notifier()), metrics, refuse)
        for name in ("a", "b", "c"):
            of_all.add(Context("nobody", name, subject=NOBODY), Right.READ, "tables.get", forbidden(name))
        assert lost() == 1
        recording = asyncio.ensure_future(of_all.recorder.run())
        await both.wait()
        assert lost() == 3
        recording.cancel()
        await of_server.close()

    asyncio.run(run())


def forbidden(table: str) -> errors.Forbidden:
    return errors.Forbidden("no", right="read", on=f"shop.{table}")


def test_commands_that_are_denied_too_often_are_answered_the_same_and_not_recorded(
    server: AccessServer,
) -> None:
    caller, before = server.caller("loop", shop="reader"), counted(server, "bounded", "write")
    keys = [f"k-{uuid.uuid4()}" for _ in range(RECORDED_PER_HOUR + 1)]
    answers = [begin(caller, key) for key in keys]
    problems = [refused(answer, 403, "forbidden") for answer in answers]

    assert len({(problem["detail"], str(problem["context"])) for problem in problems}) == 1
    assert len(refusals(caller)) == RECORDED_PER_HOUR
    succeeded(caller.http.get(f"/v1/outcomes/{keys[0]}"))
    refused(caller.http.get(f"/v1/outcomes/{keys[-1]}"), 404, "outcome-not-found")
    assert counted(server, "bounded", "write") == before + 1

    # It waits for nothing, so nobody waits for it.
    with database.clock_held(server.dsn, "shop.orders"):
        assert refused(begin(caller, keys[-1]), 403, "forbidden") == problems[-1]

    caller.grant("writer", "shop")
    time.sleep(RIGHTS_SECONDS)
    assert begin(caller, keys[0]).content == answers[0].content
    succeeded(begin(caller, keys[-1]))
