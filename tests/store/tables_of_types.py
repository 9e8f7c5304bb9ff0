"""A history with a table of each type, and the commands and reads of its writers."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import psycopg

from chronolake_metastore.domain import instants, restores, rollbacks, savepoints, tables
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.plans import NewPlan
from chronolake_metastore.domain.properties import YIELDS_PROPERTY
from chronolake_metastore.projections.registry import TABLES as PROJECTIONS
from chronolake_metastore.queries import files as file_queries, instants as instant_queries
from chronolake_model import instants as wire, tables as wire_tables
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.files import Changes, FileGroupName, Snapshot, WriteStat
from chronolake_model.times import parse_time
from chronolake_model.vocabulary import Action, TableType, Yields
from tests.store import shown
from tests.store.history import History
from tests.store.shown import TESTER

_Document = TypeVar("_Document")
COW: Final = "shop.orders"
MOR: Final = "shop.clicks"
GIVING_WAY: Final = "shop.giving_way"
"""Merge-on-read, where writers give way to table services."""


class TablesOfTypes(History):
    """A history with a table of each type."""

    def make(self) -> None:
        self.make_namespace("shop")
        self.make_table_of(COW, TableType.COPY_ON_WRITE, {})
        self.make_table_of(MOR, TableType.MERGE_ON_READ, {})
        self.make_table_of(GIVING_WAY, TableType.MERGE_ON_READ, {YIELDS_PROPERTY: Yields.WRITER})

    def make_table_of(
        self,
        name: str,
        table_type: TableType,
        properties: dict[str, str],
        index: wire_tables.NewBucketIndex = wire_tables.NewBucketIndex(),  # noqa: B008  # frozen
    ) -> None:
        self.done(
            tables.CreateTable(
                NewDefinition(
                    name=name,
                    base_path=f"s3://lake/{name}",
                    schema=[wire_tables.NewField("id", "bigint")],
                    record_key_fields=["id"],
                    type=table_type,
                    properties=properties,
                    index=index,
                )
            )
        )

    def start(self, table: str, action: Action, **fields: Any) -> wire.Instant:
        self.pass_seconds(1)
        return self.answer(
            instants.BeginInstant(table, writer=fields.pop("writer", "w"), action=action, **fields)
        )

    def planned(self, table: str, action: Action, *groups: FileGroupName, **fields: Any) -> wire.Instant:
        return self.start(table, action, plan=NewPlan(list(groups)), **fields)

    def finish(
        self, instant: wire.Instant, *stats: WriteStat, replaced: tuple[FileGroupName, ...] = ()
    ) -> wire.Instant:
        self.pass_seconds(1)
        return self.answer(completion(instant, *stats, replaced=replaced))

    def written(self, table: str, action: Action, *buckets: int, log: bool = False) -> wire.Instant:
        instant = self.start(table, action)
        return self.finish(instant, *(stat(instant, bucket, log=log) for bucket in buckets))

    def undo(self, instant: wire.Instant, writer: str = "w", **fields: Any) -> wire.Instant:
        return self.answer(
            rollbacks.RollbackInstant(instant.table, parse_time(instant.requested_time), writer, **fields)
        )

    def save(self, table: str, instant: wire.Instant | None = None) -> wire.Instant:
        target = None if instant is None else parse_time(instant.requested_time)
        return self.answer(savepoints.CreateSavepoint(table, target, "operator"))

    def answer(self, command: Any) -> wire.Instant:
        return shown.instant(self.done(command))

    def now(self, instant: wire.Instant) -> wire.Instant:
        """The instant as it stands: a rolled back one is answered so without an event."""
        return self._runner.run(
            instant_queries.get(TESTER, self._database, instant.table, parse_time(instant.requested_time))
        )

    def snapshot(self, table: str, as_of: str | None = None) -> Snapshot:
        time = None if as_of is None else parse_time(as_of)
        return self._runner.run(file_queries.snapshot(TESTER, self._database, table, time, None, 100, None))

    def changes(self, table: str, after: str | None, until: str | None = None) -> Changes:
        start, end = (None if time is None else parse_time(time) for time in (after, until))
        return self._runner.run(file_queries.changes(TESTER, self._database, table, start, end, 100, None))

    def seen(self, table: str, as_of: str | None = None) -> dict[str, tuple[str | None, int]]:
        """By file id: the instant of the base file, and the number of log files."""
        return {
            file_slice.file_id: (
                file_slice.base_file.requested_time if file_slice.base_file else None,
                len(file_slice.log_files),
            )
            for file_slice in self.snapshot(table, as_of).slices
        }


def group(bucket: int, generation: int = 0) -> FileGroupName:
    return FileGroupName("", bucket_file_id(bucket, generation))


def stat(instant: wire.Instant, bucket: int, *, log: bool = False, generation: int = 0) -> WriteStat:
    file_id = bucket_file_id(bucket, generation)
    base = base_file_name(file_id, "0-0-0", instant.requested_time)
    name = f".{file_id}_{instant.requested_time}.log.1_0-0-0" if log else base
    return WriteStat("", file_id, name, 100, 10)


def completion(
    instant: wire.Instant, *stats: WriteStat, replaced: tuple[FileGroupName, ...] = ()
) -> instants.CompleteInstant:
    return instants.CompleteInstant(
        instant.table, parse_time(instant.requested_time), list(stats), replaced_file_groups=list(replaced)
    )


def projections(dsn: str) -> dict[str, list[Any]]:
    with psycopg.connect(dsn) as connection:
        return {
            name: sorted(connection.execute(f"SELECT * FROM chronolake.{name}".encode()).fetchall(), key=repr)
            for name in PROJECTIONS
        }


def named_stat(instant: wire.Instant, file_id: str) -> WriteStat:
    return WriteStat("", file_id, base_file_name(file_id, "0-0-0", instant.requested_time), 100, 10)


def restore(history: TablesOfTypes, savepoint: wire.Instant) -> restores.RestoreTable:
    time = parse_time(savepoint.requested_time)
    return restores.RestoreTable(savepoint.table, time, "operator", "bad load")
