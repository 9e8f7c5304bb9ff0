"""A commit with very many partitions is published: each try continues where the last one ended."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import UUID

import pytest
from typing_extensions import override

from chronolake_metastore import errors
from chronolake_metastore.notes import publication as notes
from chronolake_metastore.queries import publication as queries
from chronolake_metastore.service.service import Service
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.pending_plans import Place
from chronolake_metastore.workers import publisher, table_storage
from chronolake_metastore.workers.publication_execution import Counts
from chronolake_metastore.workers.publisher import ServerPublisher
from chronolake_metastore.workers.table_storage import TableFiles
from chronolake_model.publication import PUBLICATION_LEASE_SECONDS_MAX, PublicationStep, PublishedFile
from chronolake_model.times import Tick
from chronolake_storage import publishing
from chronolake_storage.errors import StorageError
from chronolake_storage.guard import Guard
from chronolake_storage.local import LocalFiles

GUARD: Any = mock.create_autospec(Guard, instance=True)
INSTANT = PublishedFile(".hoodie/timeline/20260101000000000_20260101000000001.commit", b"avro")
PARTITIONS = [PublishedFile(f"day={day}/.hoodie_partition_metadata", b"depth=1\n") for day in range(20)]
STEP = PublicationStep(2, [*PARTITIONS, INSTANT])


class FailingFiles(LocalFiles):
    """Files of which only a number can be created at a time."""

    def __init__(self, root: str, at_a_time: int) -> None:
        super().__init__(root)
        self._at_a_time = at_a_time
        self.calls: list[tuple[list[str], bool]] = []

    @override
    def create_all(self, bodies: Any, *, in_order: bool) -> list[bool]:
        self.calls.append(([path for path, _ in bodies], in_order))
        created = super().create_all(bodies[: self._at_a_time], in_order=in_order)
        if len(created) < len(bodies):
            raise StorageError("it is slow")
        return created


def execute(files: FailingFiles) -> bool:
    try:
        publishing.execute(files, GUARD, [STEP], is_hidden=False)
    except StorageError:
        return False
    return True


def test_a_try_creates_only_what_the_last_one_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "CREATED_UNSEEN_MAX", 10)
    files = FailingFiles(str(tmp_path), at_a_time=8)
    assert [execute(files), execute(files), execute(files)] == [False, False, True]
    # The metadata of partitions has no order, but for the instant, which is last.
    assert [(len(paths), in_order) for paths, in_order in files.calls] == [
        (20, False),
        (12, False),
        (4, False),
        (1, True),
    ]
    for file in STEP.writes:
        assert (tmp_path / file.path).read_bytes() == file.content


def test_files_in_many_folders_are_created_whole_and_once(tmp_path: Path) -> None:
    files = LocalFiles(str(tmp_path))
    bodies = [(f"day={day}/{name}", f"{day}{name}".encode()) for name in "ab" for day in range(20)]
    assert files.create_all(bodies[:25], in_order=False) == [True] * 25
    assert files.create_all(bodies, in_order=False) == [False] * 25 + [True] * 15
    assert {path: (tmp_path / path).read_bytes() for path, _ in bodies} == dict(bodies)
    assert len(list(tmp_path.glob("*/.*"))) == 0


def test_a_worker_waits_longer_for_the_storage_of_many_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_: object, **__: object) -> None:
        time.sleep(0.05)

    monkeypatch.setattr(publishing, "execute", slow)
    monkeypatch.setattr(table_storage, "STORAGE_SECONDS_MAX", 0.0)
    files = TableFiles(LocalFiles(str(tmp_path)), GUARD)
    monkeypatch.setattr(table_storage, "FILES_PER_SECOND_MIN", 1e9)
    with pytest.raises(errors.ConfigurationError, match="did not answer within"):
        asyncio.run(files.publish([STEP], is_hidden=False))
    monkeypatch.setattr(table_storage, "FILES_PER_SECOND_MIN", 1.0)
    asyncio.run(files.publish([STEP], is_hidden=False))


def test_a_publisher_that_was_fenced_takes_a_longer_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(UUID(int=1), "shop.orders", "/lake", {}, Tick.MILLISECOND)
    taken: list[int] = []

    async def note(_: object, ctx: object, note: object, table: str, body: Any) -> None:
        assert note is notes.take_lease
        taken.append(body.lease_seconds)
        raise errors.PublicationFenced(table, body.publisher)

    async def target(*_: object) -> queries.Target:
        return queries.Target(place, has_work=True, is_of_server=True, is_hidden=False, needs_storage=False)

    async def publish_twice() -> None:
        worker = ServerPublisher(mock.Mock(), mock.Mock(), Counts(), Settings(), "one")
        for _ in range(2):
            worker._running[place.table_id] = mock.Mock()
            await worker._publish(place.table_id)

    monkeypatch.setattr(Service, "note", note)
    monkeypatch.setattr(queries, "target", target)
    asyncio.run(publish_twice())
    assert taken == [publisher.LEASE_SECONDS, PUBLICATION_LEASE_SECONDS_MAX]


def test_a_publisher_that_was_fenced_takes_the_lease_again_without_new_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = Place(UUID(int=1), "shop.orders", "/lake", {}, Tick.MILLISECOND)
    work = [True, False]
    outcomes: list[Exception] = [
        errors.PublicationFenced(place.table, "one"),
        errors.LeaseLive("another publisher has it"),
    ]

    async def note(*_: object) -> None:
        raise outcomes.pop(0)

    async def target(*_: object) -> queries.Target:
        return queries.Target(
            place, has_work=work.pop(0), is_of_server=True, is_hidden=False, needs_storage=False
        )

    async def publish_twice() -> list[bool]:
        worker = ServerPublisher(mock.Mock(), mock.Mock(), Counts(), Settings(), "one")
        is_waiting = []
        for _ in range(2):
            worker._running[place.table_id] = mock.Mock()
            worker._waiting.clear()
            await worker._publish(place.table_id)
            is_waiting.append(place.table_id in worker._waiting or worker._held.holds(place.table_id))
        return is_waiting

    monkeypatch.setattr(Service, "note", note)
    monkeypatch.setattr(queries, "target", target)
    assert asyncio.run(publish_twice()) == [True, True]
    assert outcomes == []


def test_a_publisher_keeps_nothing_of_a_dropped_table(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(UUID(int=1), "shop.orders", "/lake", {}, Tick.MILLISECOND)
    targets: list[queries.Target | None] = [
        queries.Target(place, has_work=True, is_of_server=True, is_hidden=True, needs_storage=False),
        None,
    ]

    async def note(*_: object) -> None:
        raise errors.PublicationFenced(place.table, "one")

    async def target(*_: object) -> queries.Target | None:
        return targets.pop(0)

    async def publish_twice() -> ServerPublisher:
        worker = ServerPublisher(mock.Mock(), mock.Mock(), Counts(), Settings(), "one")
        worker._looked[place.table_id] = 1.0
        for is_kept in (True, False):
            worker._running[place.table_id] = mock.Mock()
            await worker._publish(place.table_id)
            assert (place.table_id in worker._fenced) is is_kept
        return worker

    monkeypatch.setattr(Service, "note", note)
    monkeypatch.setattr(queries, "target", target)
    assert not asyncio.run(publish_twice())._looked
