"""A small history, made by the commands themselves, and changes that only a superuser can make."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from msgspec import UNSET

from chronolake_metastore.archive.log_rows import RowsOfArchive
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.commands import group
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain import (
    deletions,
    instants,
    leases,
    logs,
    namespaces,
    rollbacks,
    schemas,
    staging,
    tables,
)
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.heads import Heads
from chronolake_metastore.domain.logs import START, ChainHead, grow
from chronolake_metastore.domain.markers import CreateMarkers
from chronolake_metastore.domain.proof import Check, ProofFinding
from chronolake_metastore.domain.results import AnyResult
from chronolake_metastore.domain.stored_events import StoredEvent
from chronolake_metastore.notes import markers
from chronolake_metastore.proof import rebuilding, verification
from chronolake_metastore.proof.rebuilding import Rebuilt
from chronolake_metastore.proof.verification import Report
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import answers, event_log
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Session
from chronolake_model import (
    schemas as wire_schemas,
    tables as wire_tables,
)
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.files import ColumnStats, WriteStat
from chronolake_model.markers import DeletedFile, Marker, MarkerKind
from chronolake_model.times import Micros, format_time, parse_time
from chronolake_model.vocabulary import Action
from chronolake_storage.files import Files
from tests.store import shown

ORDERS = "(SELECT table_id FROM lake_table WHERE name = 'orders')"
"""The id of ``shop.orders``, in SQL."""
ORDERS_EVENTS = 9
"""Created; two instants complete; one with a heartbeat; one rolled back."""
EVENTS = 3 + ORDERS_EVENTS + 2 + 2
"""Events of the catalog, ``shop.orders``, the dropped ``shop.gone``, ``shop.clicks`` with a changed schema."""
WRITER = "one"
LOG = ("event", "event_entry", "write_stat", "deleted_file", "outcome", "refusal")
"""The tables of the log."""


class History:
    """Carries commands out, each in a transaction of its own, on a connection of its own."""

    def __init__(self, dsn: str, keys: str = "request") -> None:
        self._keys = keys
        self._database = Database(Settings(dsn=dsn))
        self._session = Session(self._database)
        self._numbers = itertools.count()

    async def run(self, command: Command) -> AnyResult:
        """Carry one command out, which must not be refused; gives its result."""
        key = f"{self._keys}-{next(self._numbers)}"
        request = group.request_of(Context("test", key), command)
        [answer] = (await group.run(self._session, [request], drift_max_us=1_000_000)).results
        assert isinstance(answer, Answer), answer
        return answer.result

    async def mark(self, command: CreateMarkers) -> None:
        """Create markers."""
        await markers.create(self._session, [command])

    async def make_table(self, name: str) -> None:
        """Make a table of one column."""
        await self.run(
            tables.CreateTable(
                NewDefinition(
                    name=name,
                    base_path=f"/lake/{name}",
                    schema=[wire_tables.NewField("id", "bigint")],
                    record_key_fields=["id"],
                )
            )
        )

    async def begin(self, table: str, action: Action = Action.COMMIT) -> Micros:
        """Begin an instant."""
        result = await self.run(instants.BeginInstant(table, WRITER, action))
        return parse_time(shown.instant(result).requested_time)

    async def write(self, table: str, *buckets: int) -> None:
        """Begin an instant, and complete it with a file in each of these buckets."""
        time = await self.begin(table)
        stats = [write_stat(bucket, time) for bucket in buckets]
        await self.run(instants.CompleteInstant(table, time, stats))

    async def write_staged(self, table: str, *buckets: int) -> None:
        """The same, with the file of each bucket staged by itself before."""
        time = await self.begin(table)
        staged = []
        for bucket in buckets:
            result = await self.run(staging.StageWriteStats(table, time, [write_stat(bucket, time)]))
            staged.append(shown.staged(result).version)
        await self.run(instants.CompleteInstant(table, time, staged=staged))

    async def close(self) -> None:
        """Give the connections back."""
        await self._session.close()
        await self._database.close()


def write_stat(bucket: int, time: Micros) -> WriteStat:
    """A base file in a bucket."""
    file_id = bucket_file_id(bucket)
    name = base_file_name(file_id, "0-0-0", format_time(time))
    # Not the form that jsonb would give it.
    stats = [ColumnStats(1, -3, 2**60 + bucket, 0)] if bucket else UNSET
    return WriteStat("", file_id, name, 1_000, 10, column_stats=stats, has_field_ids=True if bucket else UNSET)


def make(dsn: str) -> None:
    """Make the history: see ``EVENTS``."""
    asyncio.run(_make(History(dsn)))


async def _make(history: History) -> None:
    await history.run(namespaces.CreateNamespace("shop"))
    await history.run(namespaces.CreateNamespace("old"))
    await history.run(namespaces.DropNamespace("old"))
    await history.make_table("shop.orders")
    await history.write("shop.orders", 0, 1)
    await history.write("shop.orders", 0)
    pending = await history.begin("shop.orders")
    await history.run(
        leases.RenewLease(
            "shop.orders",
            pending,
        )
    )
    given_up = await history.begin("shop.orders", Action.CLEAN)
    await history.run(instants.ReturnToRequested("shop.orders", given_up, WRITER))
    await history.make_table("shop.gone")
    await history.run(tables.DropTable("shop.gone"))
    await history.make_table("shop.clicks")
    await history.run(schemas.ChangeSchema("shop.clicks", [wire_schemas.AddColumn("note", "string")]))
    await history.close()


def stage(dsn: str) -> None:
    """Have versions 4 and 5 of shop.clicks stage a file each, and 6 publish them."""

    async def run(history: History) -> None:
        await history.write_staged("shop.clicks", 0, 1)
        await history.close()

    asyncio.run(run(History(dsn, "staging")))


def report_deletions(dsn: str) -> None:
    """Have version 4 of shop.clicks report two files of the instant that version 3 requests."""

    async def run(history: History) -> None:
        time = await history.begin("shop.clicks")
        stats = [write_stat(bucket, time) for bucket in (0, 1)]
        marks = [Marker(stat.partition_path, stat.file_name, MarkerKind.CREATE) for stat in stats]
        await history.mark(CreateMarkers("shop.clicks", time, marks))
        files = [DeletedFile(marker.partition_path, marker.file_name) for marker in marks]
        await history.run(deletions.ReportDeletions("shop.clicks", time, files))
        await history.close()

    asyncio.run(run(History(dsn, "deletions")))


def plan(dsn: str) -> None:
    """Have version 4 of shop.clicks request a rollback whose plan names 150 files."""

    async def run(history: History) -> None:
        time = await history.begin("shop.clicks")
        names = [write_stat(bucket, time).file_name for bucket in range(150)]
        await history.run(rollbacks.RollbackInstant("shop.clicks", time, WRITER, files_to_delete=names))
        await history.close()

    asyncio.run(run(History(dsn, "plans")))


def fill_tables(dsn: str) -> None:
    """Add rows to those tables of the log that have none."""
    report_deletions(dsn)
    stage(dsn)
    refuse(dsn, "shop.orders", "shop.none")
    refuse(dsn)


def refuse(dsn: str, *names: str) -> None:
    """Have a command refused that concerns the catalog alone, or one on each of the named tables.

    A table that is there is asked for an instant that is not.
    """

    async def run(history: History) -> None:
        for name in names:
            command = leases.RenewLease(
                name,
                Micros(1000),
            )
            with pytest.raises(AssertionError, match="no "):
                await history.run(command)
        if not names:
            with pytest.raises(AssertionError, match="no namespace"):
                await history.run(namespaces.DropNamespace("none"))
        await history.close()

    asyncio.run(run(History(dsn, f"refused-{uuid.uuid4()}")))


def tamper(dsn: str, *statements: str) -> None:
    """Execute statements that the database refuses even to its owner, as a superuser."""
    with psycopg.connect(dsn) as connection:
        connection.execute("SET search_path TO chronolake")
        for table in LOG:
            connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER {table}_append_only".encode())
        for statement in statements:
            assert connection.execute(statement.encode()).rowcount > 0, statement
        for table in LOG:
            connection.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {table}_append_only".encode())


def forge(dsn: str, version: int, actor: str) -> None:
    """Change the actor that ``version`` of shop.orders records, with a hash that fits."""
    tamper(dsn, f"UPDATE event SET actor = '{actor}' WHERE table_id = {ORDERS} AND version = {version}")
    reseal(dsn, version)


def reseal(dsn: str, version: int) -> None:
    """Give a version of shop.orders the hash of its present contents."""
    [table_id] = {event.table_id for event in _log(dsn) if "shop.orders" in event.payload}
    [event] = [event for event in _log(dsn) if (event.table_id, event.version) == (table_id, version)]
    digest = logs.hash_of(event).hex()
    tamper(dsn, rf"UPDATE event SET hash = '\x{digest}' WHERE table_id = '{table_id}' AND version = {version}")


def reseal_answers(dsn: str) -> None:
    """Give all outcomes the hashes of their present contents, and the chains the heads."""

    async def run() -> list[str]:
        database = Database(Settings(dsn=dsn))
        session = Session(database)
        async with session.begin() as tx:
            page = await answers.read(tx, answers.BEGINNING)
        await session.close()
        await database.close()
        heads: dict[uuid.UUID, ChainHead] = {}
        statements = []
        for row in page:
            head = grow(heads.get(row.chain_id, START), row.chain_id, row.outcome, row.refusal)
            heads[row.chain_id] = head
            statements.append(
                rf"UPDATE outcome SET hash = '\x{head.hash.hex()}' WHERE request_id = '{row.request_id}'"
            )
        return statements

    tamper(
        dsn,
        *asyncio.run(run()),
        "UPDATE answer_chain a SET hash = o.hash FROM outcome o "
        "WHERE (o.chain_id, o.number) = (a.chain_id, a.number)",
    )


def _log(dsn: str) -> Sequence[StoredEvent]:
    async def read() -> Sequence[StoredEvent]:
        database = Database(Settings(dsn=dsn))
        session = Session(database)
        async with session.begin() as tx:
            page = await event_log.read(tx, event_log.Cursor())
        await session.close()
        await database.close()
        return page.events

    return asyncio.run(read())


def verify(
    dsn: str,
    *,
    table: str | None = None,
    documents: Sequence[Heads | ProofFinding] = (),
    findings_max: int = verification.FINDINGS_MAX,
    archive: Files | None = None,
) -> Report:
    """Verify, as the command does."""
    archived = None if archive is None else RowsOfArchive(ArchiveStorage(archive))
    return asyncio.run(
        verification.verify(
            Settings(dsn=dsn), table=table, documents=documents, findings_max=findings_max, archived=archived
        )
    )


def rebuild(dsn: str) -> Rebuilt:
    """Rebuild, as the command does."""
    return asyncio.run(rebuilding.rebuild(Settings(dsn=dsn)))


EVENT = f"WHERE table_id = {ORDERS} AND version = "
CLICKS = "(SELECT table_id FROM lake_table WHERE name = 'clicks')"
NO_TABLE = "'11111111-1111-1111-1111-111111111111'"
FailedCheck = tuple[Check, str, int | None]


def failed_checks(dsn: str, **options: Any) -> set[FailedCheck]:
    """The findings of verify: the check, the table and the version."""
    return {(finding.check, finding.table, finding.version) for finding in verify(dsn, **options).findings}
