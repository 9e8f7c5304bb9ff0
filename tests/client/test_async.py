"""The async client over the same server. Tested here: its differences, waiting and lease renewal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

import chronolake
from chronolake import Action, FileGroupName, State, TouchedFileGroup, _progress, errors
from chronolake_model.file_names import bucket_file_id
from tests.client.conftest import SCHEMA
from tests.client.gateway import Fault, Gateway
from tests.client.test_writes import stat_of

pytestmark = pytest.mark.anyio

WAIT_SECONDS = 20.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def async_client(server_url: str) -> AsyncIterator[chronolake.AsyncClient]:
    async with chronolake.connect_async(server_url, retry_seconds=10) as client:
        yield client


@pytest.fixture
async def async_table(async_client: chronolake.AsyncClient, table: chronolake.Table) -> chronolake.AsyncTable:
    return await async_client.table(table.name)


async def publish(table: chronolake.AsyncTable, bucket: int = 0) -> chronolake.Instant:
    async with await table.begin() as write:
        write.add(stat_of(write, bucket))
    return write.instant


async def test_namespaces_and_tables_are_made_listed_and_dropped(
    async_client: chronolake.AsyncClient, namespace: str
) -> None:
    made = await async_client.create_table(
        f"{namespace}.t", base_path=f"file:///{namespace}/t", schema=SCHEMA, record_key_fields=["id"]
    )

    assert [table.name async for table in async_client.tables(namespace)] == [made.name]
    assert namespace in [listed.name async for listed in async_client.namespaces()]
    assert (await async_client.create_namespace(namespace, if_not_exists=True)).name == namespace
    assert (await made.reload()).definition == made.definition
    assert (await async_client.time()).latest
    await async_client.drop_table(made.name)
    await async_client.drop_namespace(namespace)
    with pytest.raises(errors.NamespaceNotFound):
        await async_client.namespace(namespace)


async def test_an_outcome_is_looked_up(
    async_client: chronolake.AsyncClient, async_table: chronolake.AsyncTable
) -> None:
    with pytest.raises(errors.NamespaceNotEmpty) as caught:
        await async_client.drop_namespace(async_table.name.partition(".")[0])
    assert caught.value.idempotency_key is not None

    assert (await async_client.outcome(caught.value.idempotency_key)).status == 409
    with pytest.raises(errors.OutcomeNotFound):
        await async_client.outcome("nobody-used-this")


async def test_a_block_that_ends_well_publishes(async_table: chronolake.AsyncTable) -> None:
    done = [await publish(async_table, bucket) for bucket in range(3)]

    assert [instant async for instant in async_table.instants()] == done
    assert [instant async for instant in async_table.instants(limit=2)] == done[:2]
    assert [instant async for instant in async_table.instants(limit=0)] == []
    assert len((await async_table.snapshot()).slices) == 3
    assert len((await async_table.changes(from_=done[0].completion_time)).instants) == 2


async def test_very_many_files_are_staged_and_published_together(
    async_table: chronolake.AsyncTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_progress, "STAGED_FROM", 3)
    monkeypatch.setattr(_progress, "STAGED_AT_ONCE", 2)
    async with await async_table.begin() as write:
        for bucket in range(4):
            write.add(stat_of(write, bucket))

    assert write.instant.version == 5, "a table, an instant, two parts, and the end of it"
    assert len((await async_table.snapshot()).slices) == 4


async def test_a_block_that_raises_rolls_back(async_table: chronolake.AsyncTable) -> None:
    with pytest.raises(ZeroDivisionError):
        async with await async_table.begin() as write:
            raise ZeroDivisionError("by zero")

    instant = await async_table.instant(write.requested_time)
    assert instant.state is State.ROLLED_BACK


async def test_a_block_that_is_cancelled_rolls_back(async_table: chronolake.AsyncTable) -> None:
    begun: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def write_for_ever() -> None:
        async with await async_table.begin() as write:
            begun.set_result(write.requested_time)
            await asyncio.sleep(3_600)

    task = asyncio.create_task(write_for_ever())
    requested_time = await begun
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (await async_table.instant(requested_time)).state is State.ROLLED_BACK


async def test_an_error_is_not_hidden_when_the_rollback_fails_too(
    async_table: chronolake.AsyncTable,
) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        async with await async_table.begin() as write:
            await (await async_table.write(write.requested_time)).complete()
            raise ZeroDivisionError("by zero")

    assert "not rolled back" in caught.value.__notes__[0]


async def test_a_block_that_outlives_its_lease_keeps_it(async_table: chronolake.AsyncTable) -> None:
    async with await async_table.begin(lease_seconds=1) as write:
        first = write.instant.version
        await await_(lambda: write.instant.version >= first + 4)

    assert write.instant.state is State.COMPLETED


async def test_a_renewal_reports_the_rollback_of_its_instant(async_table: chronolake.AsyncTable) -> None:
    with pytest.raises(errors.InstantRolledBack):
        async with await async_table.begin(lease_seconds=1) as write:
            await (await async_table.write(write.requested_time)).rollback("operator")
            await await_(lambda: write.lost is not None)


async def test_an_instant_may_stay_requested_until_it_is_taken_inflight(
    async_table: chronolake.AsyncTable,
) -> None:
    write = await async_table.begin(inflight=False)

    assert (await write.inflight()).state is State.INFLIGHT
    assert (await write.heartbeat(600)).lease_seconds == 600
    assert (await write.rollback("enough")).rollback_reason == "enough"
    assert (await write.refresh()).state is State.ROLLED_BACK


async def test_commands_whose_answers_are_lost_take_effect_once(
    gateway: Gateway, table: chronolake.Table
) -> None:
    async with chronolake.connect_async(gateway.url, retry_seconds=20) as client:
        troubled = await client.table(table.name)
        gateway.faults.extend([Fault.LOSE_ANSWER, Fault.BAD_GATEWAY, Fault.LOSE_REQUEST, Fault.BUSY])
        instant = await publish(troubled)

    assert list(table.instants()) == [instant]
    assert len(set(gateway.keys)) == 2


async def test_many_tasks_may_share_a_client(async_table: chronolake.AsyncTable) -> None:
    begun = await asyncio.gather(*(async_table.begin() for _ in range(16)))

    assert len({instant.requested_time for instant in begun}) == 16


async def test_a_plan_is_executed_and_kept_when_that_raises(async_table: chronolake.AsyncTable) -> None:
    await publish(async_table, 1)
    planned = await async_table.plan(Action.CLUSTERING, [FileGroupName("", bucket_file_id(1))])

    with pytest.raises(ZeroDivisionError):
        async with await async_table.execute(planned.requested_time, writer="executor") as write:
            assert await write.conflicts([TouchedFileGroup("", bucket_file_id(1))]) is None
            raise ZeroDivisionError("by zero")

    assert (await async_table.instant(planned.requested_time)).state is State.REQUESTED


async def test_writes_complete_together_and_a_savepoint_undoes_them(
    async_client: chronolake.AsyncClient, async_table: chronolake.AsyncTable
) -> None:
    kept = await publish(async_table)
    savepoint = await async_table.savepoint(comment="before")
    writes = await async_table.begin_many(2)
    for bucket, write in enumerate(writes):
        write.add(stat_of(write, bucket))

    done = await async_client.complete_together(writes)
    assert [
        instant async for instant in async_table.timeline.completed().after(savepoint.requested_time)
    ] == done
    restored = await async_table.restore(savepoint.requested_time)

    assert restored.plan is not None
    assert set(restored.plan.instants) == {instant.requested_time for instant in done}
    assert await async_table.timeline.completed().where(action=Action.COMMIT).last() == kept
    assert (await async_table.release_savepoint(savepoint.requested_time)).state is State.ROLLED_BACK


async def await_(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110  # the renewal signals no event for a new expiry
            await asyncio.sleep(0.02)
