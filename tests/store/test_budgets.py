"""The budget of each command: which statements it sends, in how many round trips (``budgets.txt``)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from typing_extensions import override

from chronolake_metastore import errors
from chronolake_metastore.commands.registry import HANDLERS
from chronolake_metastore.domain import (
    adoption,
    checkpoints,
    cleans,
    deletions,
    eras,
    grants,
    instants,
    leases,
    locations,
    namespaces,
    publication,
    results,
    savepoints,
    services,
    staging,
    streams,
    sweeps,
    tables,
    tokens,
    transactions,
    vendings,
)
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.denials import RecordDenial
from chronolake_metastore.domain.results import AnyResult
from chronolake_model import markers as wire_markers, schemas as wire_schemas, tables as wire_tables
from chronolake_model.credentials import StorageAccess
from chronolake_model.file_names import bucket_file_id
from chronolake_model.files import WriteStat
from chronolake_model.roles import Role
from chronolake_model.times import Micros, format_time, parse_time
from chronolake_model.vocabulary import Action, IndexType, TableService
from tests.store.history import file_of
from tests.store.recorded import RecordedSession
from tests.store.tables_of_types import COW, MOR, TablesOfTypes, completion, group, restore, stat

BUDGETS: Final = Path(__file__).with_name("budgets.txt")
HEAD: Final = """\
# The statements of each command, when it runs alone on a warm connection. A line is one round trip.
# `make budgets` writes this file.
"""


class Recording(TablesOfTypes):
    """A history that keeps the round trips of the first command of each kind that succeeds."""

    def __init__(self, dsn: str) -> None:
        # The owner records which eras the archive has.
        super().__init__(dsn, role="none")
        self._session = self.session = RecordedSession(self._database)
        self.budgets: dict[str, list[list[str]]] = {}

    @override
    def done(self, command: Command, actor: str = "ann") -> AnyResult:
        self.session.round_trips.clear()
        answer = super().done(command, actor)
        self.budgets.setdefault(type(command).__name__, [*self.session.round_trips])
        return answer

    def of_group(self, *commands: Command) -> list[list[str]]:
        """The round trips of a group of commands that succeed."""
        self.session.round_trips.clear()
        assert not any(isinstance(result, errors.TimelineError) for result in self.send(*commands))
        return [*self.session.round_trips]


@pytest.fixture
def recording(dsn: str) -> Iterator[Recording]:
    with Recording(dsn) as recording:
        recording.make()
        yield recording


def test_each_command_keeps_its_budget(recording: Recording) -> None:
    write(recording)
    define(recording)
    serve(recording)
    stream(recording)
    adopt(recording)
    change_access(recording)
    locate(recording)
    archive(recording)

    budgets = recording.budgets
    # RecordDenial never succeeds.
    commands = {command.__name__ for command in HANDLERS if command is not RecordDenial}
    assert {name.partition(",")[0] for name in budgets} == commands
    text = HEAD + "".join(budget_of(command, budgets[command]) for command in sorted(budgets))
    print(text)
    if os.environ.get("WRITE_BUDGETS"):
        BUDGETS.write_text(text, "utf-8")
    assert text == BUDGETS.read_text("utf-8")


def test_a_group_of_many_commands_sends_the_statements_of_one(recording: Recording) -> None:
    begin = instants.BeginInstant(COW, writer="w")
    begun = [recording.answer(begin) for _ in range(4)]
    completions = [completion(instant, stat(instant, bucket)) for bucket, instant in enumerate(begun)]

    assert recording.of_group(begin) == recording.of_group(*[begin] * 10)
    assert recording.of_group(completions[0]) == recording.of_group(*completions[1:])


def budget_of(command: str, round_trips: list[list[str]]) -> str:
    statements = sum(map(len, round_trips))
    lines = [f"{command}: {statements} statements in {len(round_trips)} round trips"]
    return "\n".join(lines + [f"    {', '.join(names)}" for names in round_trips]) + "\n"


def write(recording: Recording) -> None:
    """Commands of writers."""
    recording.written(COW, Action.COMMIT, 0)
    instant = recording.start(COW, Action.COMMIT)
    key = COW, parse_time(instant.requested_time)
    recording.done(leases.RenewLease(*key))
    recording.mark(COW, instant.requested_time, 1, 2)
    deleted = [wire_markers.DeletedFile("", file_of(instant.requested_time, 2).file_name)]
    recording.done(deletions.ReportDeletions(*key, deleted))
    recording.budgets["CompleteInstant, with markers"] = recording.of_group(
        completion(instant, stat(instant, 1))
    )
    staged = recording.start(COW, Action.COMMIT)
    recording.done(staging.StageWriteStats(COW, parse_time(staged.requested_time), [stat(staged, 3)]))
    recording.undo(staged)
    pair = [recording.start(table, Action.COMMIT) for table in (COW, COW)]
    members = [completion(member, stat(member, 2 + bucket)) for bucket, member in enumerate(pair)]
    recording.done(transactions.CompleteTogether(members))


def define(recording: Recording) -> None:
    """Commands on the catalog and on the definitions of tables."""
    recording.make_namespace("other")
    recording.make_table("other.dropped")
    recording.change_schema("other.dropped", wire_schemas.AddColumn("note", "string"))
    recording.done(tables.AlterTable("other.dropped", "other.renamed"))
    recording.done(publication.RecordHudiFiles("other.renamed", ["x"], 1))
    recording.drop_table("other.renamed")
    recording.done(namespaces.DropNamespace("other"))


def serve(recording: Recording) -> None:
    """Commands of table services."""
    savepoint = recording.save(COW)
    recording.written(COW, Action.COMMIT, 1)
    recording.done(restore(recording, savepoint))
    recording.done(savepoints.ReleaseSavepoint(COW, parse_time(savepoint.requested_time), "w"))
    recording.written(MOR, Action.DELTACOMMIT, 1, log=True)
    recording.planned(MOR, Action.CLUSTERING, group(1))
    write = recording.start(MOR, Action.DELTACOMMIT)
    recording.budgets["CompleteInstant, that cancels a clustering"] = recording.of_group(
        completion(write, stat(write, 1, log=True))
    )
    compaction = recording.planned(MOR, Action.COMPACTION, group(1), inflight=False)
    key = MOR, parse_time(compaction.requested_time)
    recording.done(instants.TakeInflight(*key, writer="w"))
    recording.done(instants.ReturnToRequested(*key, "w"))
    recording.written(MOR, Action.DELTACOMMIT, 2, log=True)
    plan = services.ServicePlan(TableService.COMPACTION, [group(2)], 100, 1, 1)
    recording.done(services.PlanServices(MOR, "w", plans=[plan]))
    recording.written(COW, Action.COMMIT, 1)
    recording.pass_seconds(60)
    recording.done(cleans.PlanClean(COW, cleans.Retention(commits=1), "w"))
    rolled_back = recording.start(COW, Action.COMMIT)
    recording.undo(rolled_back)
    time = parse_time(rolled_back.requested_time)
    recording.done(sweeps.RecordSweep(COW, time, time))


def stream(recording: Recording) -> None:
    """Commands of streams."""
    name = MOR, "job"
    open_stream = streams.OpenStream(*name, "w", lease_seconds=5)
    opened = recording.done(open_stream)
    assert isinstance(opened, results.StreamResult)
    epoch = opened.of.stream.epoch
    recording.done(streams.RenewStream(*name, epoch))
    for checkpoint in (0, 1):
        asked = recording.done(checkpoints.RequestInstant(*name, epoch, "0", checkpoint))
        assert isinstance(asked, results.StreamInstantResult)
        time = format_time(asked.requested_time, asked.tick)
        file_id = bucket_file_id(checkpoint)
        reported = checkpoints.ReportWriteMetadata(
            *name,
            epoch,
            "0",
            checkpoint,
            requested_time=asked.requested_time,
            write_stats=[WriteStat("", file_id, f".{file_id}_{time}.log.1_0-0-0", 10, 1)],
            last_batch=True,
        )
        recording.done(reported)
    recording.done(checkpoints.CompleteCheckpoints(*name, epoch, 1))
    recording.done(checkpoints.RestartTask(*name, epoch, "0", 1))
    recording.done(checkpoints.AbortCheckpoint(*name, epoch, 1))
    recording.budgets["OpenStream, with a checkpoint"] = recording.of_group(open_stream)
    recording.done(streams.CloseStream(*name, epoch + 1))
    recording.done(open_stream)
    recording.done(checkpoints.RequestInstant(*name, epoch + 2, "0", 0))
    recording.pass_seconds(3600)
    recording.done(streams.ExpireStream(*name, "reaper"))


def change_access(recording: Recording) -> None:
    """Create, rotate and revoke a token; grant and revoke a role; record credentials."""
    recording.done(grants.GrantRole("token:abcdefghij", Role.WRITER, "shop"))
    recording.done(grants.RevokeRole("token:abcdefghij", "shop"))
    recording.done(tokens.CreateToken("abcdefghij", "a-key", "a digest", False, 60))
    recording.done(tokens.RotateToken("abcdefghij", "a-key", "another digest", 60))
    recording.done(tokens.RevokeToken("abcdefghij"))
    recording.done(vendings.RecordVending(COW, "token:abcdefghij", StorageAccess.READ, Micros(1)))


def locate(recording: Recording) -> None:
    """Allow a location to a namespace without tables, and revoke it."""
    recording.done(locations.AllowLocation("elsewhere", "s3://lake/"))
    recording.done(locations.RevokeLocation("elsewhere", "s3://lake/"))


def archive(recording: Recording) -> None:
    """The last command: there is no such archive to look keys up in."""
    recording.done(eras.RecordArchivedEra(1, 1_000, "s3://archive", ["a digest"]))


def adopt(recording: Recording) -> None:
    """Adopt a table with one instant."""
    definition = NewDefinition(
        "shop.adopted",
        "s3://lake/adopted",
        [wire_tables.NewField("id", "bigint")],
        ["id"],
        index=wire_tables.NewBucketIndex(IndexType.BLOOM),
    )
    instant = adoption.FormerInstant("20200101000000000", Action.COMMIT, "20200101000000001")
    recording.done(adoption.AdoptTable(definition, [instant], "w", is_published=False))
