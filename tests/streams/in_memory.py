"""The coordinator without a database: the handlers of the server over a state in memory.

What a handler loads from the database comes from lists in memory here. So the decisions are those of the
server, and a schedule takes milliseconds.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from msgspec.structs import asdict

from chronolake_metastore import errors
from chronolake_metastore.commands.completing import Completion
from chronolake_metastore.commands.registry import HANDLERS
from chronolake_metastore.domain import checkpoints, files, streams
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.events import InstantCompleted, Now, Origin
from chronolake_metastore.domain.files import Staged
from chronolake_metastore.domain.instants import Marks
from chronolake_metastore.domain.namespaces import CreateNamespace
from chronolake_metastore.domain.reconciling import MarkerCounts, Reconciliation
from chronolake_metastore.domain.reported_files import ReportFacts
from chronolake_metastore.domain.results import AnyResult, StreamInstantResult, StreamResult, TaskResult
from chronolake_metastore.domain.state import EMPTY
from chronolake_metastore.domain.tables import CreateTable
from chronolake_metastore.projections.registry import state_of
from chronolake_metastore.queries import streams as stream_queries
from chronolake_model import streams as wire, tables as wire_tables
from chronolake_model.files import WriteStat
from chronolake_model.markers import DeletedFile
from chronolake_model.times import Micros, Tick, format_time, parse_time
from chronolake_model.vocabulary import State as InstantState, TableType
from tests.streams.engine import Refused

TABLE = "lake.orders"
STREAM = "job"


class InMemory:
    """One table with one stream. A request whose key is known gets the answer that it got before."""

    def __init__(self) -> None:
        self.state = state_of(EMPTY)
        self._answers: dict[str, Any] = {}
        self._markers: dict[Micros, set[str]] = {}
        self._visible_after, self._visible = 0, list[tuple[int, str, list[str]]]()
        self._now = 1_700_000_000_000_000
        self._decide("namespace", CreateNamespace("lake"), None)
        definition = wire_tables.CreateTable(
            TABLE,
            "file:///lake/orders",
            [wire_tables.NewField("id", "bigint")],
            ["id"],
            type=TableType.MERGE_ON_READ,
        )
        handler = HANDLERS[CreateTable]
        self._decide("table", CreateTable(NewDefinition(**asdict(definition))), handler.no_evidence)
        self._table_id: UUID = self.state.tables[TABLE].table_id

    def open(self, key: str, body: wire.OpenStream) -> wire.Stream:
        command = streams.OpenStream(TABLE, STREAM, **asdict(body))
        answer = self._answered(key, lambda: self._decide(key, command, None))
        assert isinstance(answer, StreamResult)
        return stream_queries.document(answer.of)

    def instant(self, key: str, body: wire.RequestInstant) -> str:
        command = checkpoints.RequestInstant(TABLE, STREAM, **asdict(body))
        answer = self._answered(key, lambda: self._decide(key, command, None))
        assert isinstance(answer, StreamInstantResult)
        return format_time(answer.requested_time, answer.tick)

    def mark(self, requested_time: str, file_name: str) -> None:
        instant = self.state.instants[self._table_id, parse_time(requested_time)]
        if instant.state is not InstantState.INFLIGHT:
            raise Refused("instant-rolled-back")
        self._markers.setdefault(instant.requested_time, set()).add(file_name)

    def report(self, key: str, body: wire.ReportWriteMetadata) -> None:
        time = None if body.requested_time is None else parse_time(body.requested_time)
        fields = asdict(body) | {"requested_time": time}
        command = checkpoints.ReportWriteMetadata(TABLE, STREAM, **fields)
        self._answered(key, lambda: self._decide(key, command, self._facts(body)))

    def complete(self, key: str, body: wire.CompleteCheckpoints) -> None:
        command = checkpoints.CompleteCheckpoints(TABLE, STREAM, **asdict(body))
        self._answered(key, lambda: self._decide(key, command, self._completions(command)))

    def restart(self, key: str, body: wire.RestartTask) -> int:
        command = checkpoints.RestartTask(TABLE, STREAM, **asdict(body))
        answer = self._answered(key, lambda: self._decide(key, command, None))
        assert isinstance(answer, TaskResult)
        return answer.attempt

    def delete(self, requested_time: str, file_names: list[str]) -> None:
        self._markers[parse_time(requested_time)] -= set(file_names)

    def visible(self) -> list[tuple[int, str, list[str]]]:
        events = len(self.state.changes.events)
        if self._visible_after != events:
            self._visible_after, self._visible = events, self._completed()
        return self._visible

    def _completed(self) -> list[tuple[int, str, list[str]]]:
        completed = []
        for event in self.state.changes.events:
            if isinstance(event.payload, InstantCompleted) and event.instant is not None:
                instant = self.state.instants[self._table_id, event.instant]
                if instant.stream is not None:
                    names = [stat.file_name for stat in self._staged(event.payload.staged)]
                    time = format_time(event.instant, Tick.MILLISECOND)
                    completed.append((instant.stream.checkpoint, time, names))
        return completed

    def listed(self) -> set[str]:
        return {
            name
            for time, names in self._markers.items()
            if self.state.instants[self._table_id, time].state is InstantState.ROLLED_BACK
            for name in names
        }

    def _answered(self, key: str, decide: Any) -> Any:
        """The recorded answer of a key, or the one that is decided now."""
        if key not in self._answers:
            try:
                self._answers[key] = decide()
            except errors.Unavailable as exc:
                raise Refused(exc.code, exc.context) from exc
            except errors.TimelineError as exc:
                self._answers[key] = Refused(exc.code, exc.context)
        answer = self._answers[key]
        if isinstance(answer, Refused):
            raise answer
        return answer

    def _decide(self, key: str, command: Command, evidence: Any) -> AnyResult:
        self._now += 1_000
        self.state.marks = {
            (self._table_id, time): Marks(has_markers=bool(names), had_deletions=False)
            for time, names in self._markers.items()
        }
        origin = Origin("engine", f"{key}-{uuid4()}", Now(Micros(self._now), Micros(self._now)))
        return HANDLERS[type(command)].decide(self.state, command, evidence, origin)

    def _staged(self, versions: list[int]) -> list[WriteStat]:
        wanted = set(versions)
        return [
            stat
            for written in self.state.changes.written
            if written.version in wanted and written.table_id == self._table_id
            for stat in written.write_stats
        ]

    def _facts(self, body: wire.ReportWriteMetadata) -> ReportFacts:
        """The files of a report without a marker. The state has what the streams have reported."""
        if body.requested_time is None:
            return ReportFacts()
        marked = self._markers.get(parse_time(body.requested_time), set())
        unmarked = [stat.file_name for stat in body.write_stats if stat.file_name not in marked]
        return ReportFacts(unmarked=[DeletedFile("", name) for name in unmarked])

    def _completions(self, command: checkpoints.CompleteCheckpoints) -> list[Completion]:
        """The facts that the handler loads for each instant that the acknowledgement covers."""
        table = self.state.tables[TABLE]
        stream = self.state.streams[self._table_id, STREAM]
        try:
            _, covered = checkpoints.acknowledge(table, stream, command)
        except errors.TimelineError:
            return []
        return [
            Completion(
                Staged({version: files.summarise(self._staged([version])) for version in checkpoint.versions}),
                reconciliation=self._reconciliation(checkpoint.requested_time, checkpoint.versions),
            )
            for _, checkpoint in covered
        ]

    def _reconciliation(self, time: Micros, versions: list[int]) -> Reconciliation:
        reported = {stat.file_name for stat in self._staged(versions)}
        left_over = sorted(self._markers.get(time, set()) - reported)
        return Reconciliation(MarkerCounts(), len(left_over), [DeletedFile("", name) for name in left_over])
