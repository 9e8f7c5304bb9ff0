"""The async client in storage: the same results as the blocking client."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import chronolake
from chronolake import MarkerOutcome, MarkersType, OrphanReason
from chronolake_model.checks import FindingKind
from tests.client.stored import Stored, base, in_storage
from tests.fix_stores import Store

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def awaited(stored: Stored, store: Store, server_url: str) -> AsyncIterator[chronolake.AsyncTable]:
    async with chronolake.connect_async(server_url, storage_options=store.options) as client:
        yield await client.table(stored.table.name)


async def test_orphans_are_reported_and_deleted(stored: Stored, awaited: chronolake.AsyncTable) -> None:
    stored.publish(0)
    kept = in_storage(stored)
    given_up = stored.table.begin()
    orphan = stored.write_file(given_up.requested_time, 1)
    given_up.rollback()
    expected = stored.table.orphans()

    report = await awaited.orphans()
    deleted = await awaited.delete_orphans(report)

    assert report == expected
    assert [(file.path, file.reason) for file in report.orphans] == [
        (f"{orphan.partition_path}/{orphan.file_name}", OrphanReason.ROLLED_BACK)
    ]
    assert [file.deleted for file in deleted.orphans] == [True]
    assert in_storage(stored) == kept


async def test_files_are_checked(stored: Stored, awaited: chronolake.AsyncTable) -> None:
    given_up = stored.table.begin()
    stored.write_file(given_up.requested_time, 1)
    given_up.rollback()
    stored.publish(0)
    progress: list[tuple[int, int, int]] = []

    report = await awaited.check(on_progress=lambda *numbers: progress.append(numbers))

    assert report == stored.table.check()
    assert FindingKind.FOREIGN_FILE in [total.kind for total in report.totals]
    assert progress == [(1, 1, 2)]


async def test_published_files_come_as_record_batches(stored: Stored, awaited: chronolake.AsyncTable) -> None:
    stored.publish(0, 1)

    batches = [batch async for batch in awaited.published_batches()]

    assert {path for batch in batches for path in batch.column("path").to_pylist()} == in_storage(stored)
    assert batches[0].schema == stored.table.published_batches().schema


@pytest.mark.parametrize("markers", list(MarkersType))
async def test_markers_of_an_instant_are_created_listed_and_deleted(
    stored: Stored, awaited: chronolake.AsyncTable, markers: MarkersType
) -> None:
    stored.storage.make_folder()
    write = await awaited.begin(markers=markers)
    marker = base(write, 0)
    of_instant = awaited.markers_of(write.requested_time, markers=markers, writer=write.instant.writer)

    assert await of_instant.create([marker]) == [MarkerOutcome.CREATED]
    assert await of_instant.check(marker)
    assert [listed async for listed in of_instant.listed()] == [marker]
    await write.rollback()
    await of_instant.delete_all()
    assert [listed async for listed in of_instant.listed()] == []


async def test_the_storage_options_are_those_of_the_blocking_client(
    stored: Stored, awaited: chronolake.AsyncTable
) -> None:
    assert awaited.storage_options == stored.table.storage_options
