"""Tables with a history that auditors can ask about: made by the server's own commands, without a server."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import psycopg

from chronolake_metastore import errors
from chronolake_metastore.archive.log_rows import RowsOfArchive
from chronolake_metastore.archive.reading import ArchiveReader
from chronolake_metastore.archive.storage import ArchiveStorage
from chronolake_metastore.commands import group
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain import (
    deletions,
    instants,
    leases,
    namespaces,
    rollbacks,
    schemas,
    streams,
    tables,
)
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.context import Context, Dialect
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.denials import RecordDenial
from chronolake_metastore.domain.grants import GrantRole, RevokeRole
from chronolake_metastore.domain.markers import CreateMarkers
from chronolake_metastore.domain.plans import NewPlan
from chronolake_metastore.domain.results import AnyResult
from chronolake_metastore.domain.subjects import Subject, request_id_of
from chronolake_metastore.domain.tokens import CreateToken
from chronolake_metastore.domain.vendings import RecordVending
from chronolake_metastore.notes import markers
from chronolake_metastore.proof import rebuilding
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres.engine import Database
from chronolake_metastore.store.postgres.transaction import Session
from chronolake_model import (
    markers as wire_markers,
    schemas as wire_schemas,
    tables as wire_tables,
)
from chronolake_model.credentials import StorageAccess
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.files import FileGroupName, WriteStat
from chronolake_model.roles import Right, Role
from chronolake_model.times import Micros, Tick, parse_time
from chronolake_model.vocabulary import Action
from chronolake_storage.files import Files
from tests.store import shown

READER, STRANGER = "token:abcdefghij", "token:klmnopqrst"
"""A subject that may read everything, and one that may do nothing."""
START_US = 1_750_000_000_123_456
SECOND_US = 1_000_000
ADDRESS = "192.0.2.7"


class History:
    """Sends commands one by one; the wall clock stands still until a test advances it."""

    def __init__(self, dsn: str, role: str = Settings().role, keys: str = "request") -> None:
        self.dsn = dsn
        self._keys = keys
        self._runner = asyncio.Runner()
        self._database = Database(Settings(dsn=dsn, role=role), ArchiveReader)
        self._session = Session(self._database)
        self._numbers = itertools.count(1)
        self.now_us = START_US
        self.pass_seconds(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _exc: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self._runner.run(self._session.close())
        self._runner.run(self._database.close())
        self._runner.close()

    def pass_seconds(self, seconds: float) -> Micros:
        """Advance both clocks. Returns their time."""
        self.now_us += round(seconds * SECOND_US)
        with psycopg.connect(self.dsn) as connection:
            for clock in ("now_us", "steady_us"):
                connection.execute(
                    f"CREATE OR REPLACE FUNCTION chronolake.{clock}() RETURNS bigint "
                    f"LANGUAGE sql VOLATILE PARALLEL SAFE RETURN {self.now_us}".encode()
                )
        return Micros(self.now_us)

    def send(self, *sent: Command, actor: str = "ann", address: str | None = "192.0.2.7") -> list[group.Result]:
        """Execute commands as one group; their request ids are request-1, request-2 and so on."""
        requests = [
            group.request_of(
                Context(actor, f"{self._keys}-{next(self._numbers)}", ADDRESS, place="/v1/somewhere"), command
            )
            for command in sent
        ]
        return self._runner.run(group.run(self._session, requests, drift_max_us=SECOND_US)).results

    def ask(self, key: str, command: Command, dialect: Dialect | None) -> group.Result:
        """Execute a command, or repeat it, under a key of the caller, to be answered in a dialect."""
        request = group.request_of(Context("ann", key, ADDRESS, "/v1/somewhere", dialect=dialect), command)
        [result] = self._runner.run(group.run(self._session, [request], drift_max_us=SECOND_US)).results
        return result

    def done(self, command: Command, actor: str = "ann") -> AnyResult:
        """The result of a command that must succeed."""
        [answer] = self.send(command, actor=actor)
        assert isinstance(answer, Answer), answer
        return answer.result

    def refused(self, command: Command, actor: str = "ann") -> errors.TimelineError:
        """The refusal of a command that must be refused."""
        [refusal] = self.send(command, actor=actor)
        assert isinstance(refusal, errors.TimelineError)
        return refusal

    def denied(self, command: Command, right: Right | None, name: str = READER) -> None:
        """A command that is refused because a subject lacks a right; without one it decides that itself."""
        subject = Subject(name)
        request_id = request_id_of(subject, f"{self._keys}-{next(self._numbers)}")
        ctx = Context(name, request_id, ADDRESS, "/v1/somewhere", subject=subject)
        task = group.task_of(group.request_of(ctx, command), right)
        [refusal] = self._runner.run(group.run_tasks(self._session, [task], SECOND_US)).results
        assert isinstance(refusal, errors.Forbidden | errors.NotFound), refusal

    def rebuild(self, archive: Files | None = None) -> None:
        """Drop the projections and make them anew; from an archive too, where events have left."""
        archived = None if archive is None else RowsOfArchive(ArchiveStorage(archive))
        self._runner.run(rebuilding.rebuild(Settings(dsn=self.dsn), archived=archived))

    def make_namespace(self, name: str) -> None:
        """Make a namespace."""
        self.done(namespaces.CreateNamespace(name))

    def make_table(self, name: str, tick: Tick = Tick.MILLISECOND) -> None:
        """Make a copy-on-write table of four buckets."""
        self.done(
            tables.CreateTable(
                NewDefinition(
                    name=name,
                    base_path=f"s3://lake/{name}",
                    schema=[wire_tables.NewField("id", "bigint")],
                    record_key_fields=["id"],
                    tick=tick,
                )
            )
        )

    def change_schema(self, table: str, *changes: wire_schemas.SchemaChange) -> None:
        """Change the columns of a table."""
        self.done(schemas.ChangeSchema(table, list(changes)))

    def drop_table(self, name: str) -> None:
        """Drop a table."""
        self.done(tables.DropTable(name))

    def begin(self, table: str, writer: str = "nightly", actor: str = "ann", lease_seconds: int = 60) -> str:
        """The requested time of a new instant."""
        command = instants.BeginInstant(table, writer=writer, lease_seconds=lease_seconds)
        return shown.instant(self.done(command, actor)).requested_time

    def complete(self, table: str, requested_time: str, buckets: Sequence[int], actor: str = "ann") -> str:
        """The completion time of an instant that wrote a file of ten records into each of these buckets."""
        command = completion(table, requested_time, buckets)
        done = shown.instant(self.done(command, actor))
        assert done.completion_time is not None
        return done.completion_time

    def write(self, table: str, *buckets: int, writer: str = "nightly", actor: str = "ann") -> tuple[str, str]:
        """Requested and completion time of an instant from its beginning to its end."""
        requested_time = self.begin(table, writer, actor)
        self.pass_seconds(1)
        return requested_time, self.complete(table, requested_time, buckets, actor)

    def mark(self, table: str, requested_time: str, *buckets: int) -> None:
        """Create the markers of an instant's files."""
        files = [file_of(requested_time, bucket) for bucket in buckets]
        named = [
            wire_markers.Marker(file.partition_path, file.file_name, wire_markers.MarkerKind.CREATE)
            for file in files
        ]
        command = CreateMarkers(table, parse_time(requested_time), named)
        assert self._runner.run(markers.create(self._session, [command])) == [[True] * len(buckets)]

    def report(self, table: str, requested_time: str, *buckets: int) -> None:
        """Report files that an instant has marked as deleted."""
        files = [file_of(requested_time, bucket) for bucket in buckets]
        deleted = [wire_markers.DeletedFile(file.partition_path, file.file_name) for file in files]
        self.done(deletions.ReportDeletions(table, parse_time(requested_time), deleted))

    def renew(self, table: str, requested_time: str) -> None:
        """Renew the lease of an instant."""
        self.done(
            leases.RenewLease(
                table,
                parse_time(requested_time),
            )
        )

    def roll_back(
        self, table: str, requested_time: str, writer: str = "nightly", files_to_delete: Sequence[str] = ()
    ) -> None:
        """Roll an instant back; with files to delete the rollback stays pending."""
        self.done(
            rollbacks.RollbackInstant(
                table, parse_time(requested_time), writer, "given up", files_to_delete=[*files_to_delete]
            )
        )


def make_token(dsn: str) -> None:
    """The token of ``READER``, as only the owner can make it."""
    with History(dsn, role="none", keys="owner") as owner:
        owner.done(CreateToken(READER.partition(":")[2], "a-key", "a digest", False, None))


def make_roles(history: History, *names: str) -> None:
    """A role that was replaced and one that was revoked, credentials for a table, and denials on tables."""
    history.done(GrantRole(READER, Role.ADMIN, "*"))
    history.done(GrantRole(READER, Role.READER, "*"), actor="eve")
    history.done(GrantRole(STRANGER, Role.WRITER, "shop"))
    history.done(RevokeRole(STRANGER, "shop"))
    vend(history, names[0])
    for name in names:
        history.denied(tables.DropTable(name), Right.DEFINE)
        history.denied(tables.DropTable(name), Right.DEFINE, STRANGER)
    history.denied(RecordDenial("show_table", "read", names[0], "no"), None, STRANGER)


def vend(history: History, name: str, access: StorageAccess = StorageAccess.READ) -> None:
    """Credentials that ``READER`` got for a table, for an hour."""
    expires_at = Micros(history.now_us + 3_600 * SECOND_US)
    history.done(RecordVending(name, READER, access, expires_at), actor=READER)


def completion(table: str, requested_time: str, buckets: Sequence[int]) -> instants.CompleteInstant:
    """The command that completes an instant with a file of ten records in each of these buckets."""
    stats = [file_of(requested_time, bucket) for bucket in buckets]
    return instants.CompleteInstant(table, parse_time(requested_time), stats)


def file_of(requested_time: str, bucket: int) -> WriteStat:
    """The base file that an instant writes into a bucket."""
    file_id = bucket_file_id(bucket)
    return WriteStat("", file_id, base_file_name(file_id, "0-0-0", requested_time), 100, 10)


def _many_files(requested_time: str) -> list[str]:
    """More than the payload of an event has room for."""
    return [file_of(requested_time, bucket).file_name for bucket in range(150)]


def make_history(history: History, namespace: str = "shop") -> dict[str, str]:
    """Three tables, one of them dropped, with a conflict, a rollback, and pending instants; times by name."""
    orders, clicks, dropped = (f"{namespace}.{name}" for name in ("orders", "clicks", "dropped"))
    history.make_namespace(namespace)
    history.make_table(orders)
    history.make_table(clicks, Tick.MICROSECOND)
    history.make_table(dropped)
    times = {}
    times["first"], times["first completed"] = history.write(orders, 0, 1, 2)
    history.pass_seconds(60)
    history.write(dropped, 0)
    failed = history.begin(dropped)
    history.roll_back(dropped, failed, files_to_delete=_many_files(failed))
    clustered = NewPlan([FileGroupName("", bucket_file_id(0))])
    history.done(instants.BeginInstant(dropped, "nightly", Action.CLUSTERING, inflight=False, plan=clustered))
    note = wire_schemas.AddColumn("note", "string")
    history.change_schema(orders, note, wire_schemas.RenameColumn("note", "remark"))
    loser = history.begin(orders, writer="hourly", actor="bob")
    times["winner"], times["winner completed"] = history.write(orders, 1, writer="nightly")
    history.refused(completion(orders, loser, [1, 3]), actor="bob")
    history.roll_back(orders, loser, "hourly")
    times["loser"] = loser
    history.pass_seconds(60)
    history.drop_table(dropped)
    history.write(clicks, 3)
    clustered = NewPlan([FileGroupName("", bucket_file_id(3))])
    withdrawn = history.done(
        instants.BeginInstant(clicks, "nightly", Action.CLUSTERING, inflight=False, plan=clustered)
    )
    history.roll_back(clicks, shown.instant(withdrawn).requested_time)
    history.done(streams.OpenStream(clicks, "job", "job-1"))
    times["abandoned"] = history.begin(orders, writer="dead", lease_seconds=5)
    history.mark(orders, times["abandoned"], 1, 2, 3)
    history.report(orders, times["abandoned"], 3)
    history.pass_seconds(3_600)
    times["pending"] = history.begin(orders, writer="alive")
    return times
