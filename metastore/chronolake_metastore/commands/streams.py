"""Commands on streams: opening and closing them, and their leases."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from typing_extensions import override

from chronolake_metastore.commands.handler import Handler, Names
from chronolake_metastore.commands.rollbacks import plan_of, roll_back
from chronolake_metastore.domain import streams, table_streams
from chronolake_metastore.domain.events import Origin, Payload
from chronolake_metastore.domain.results import AnyResult, StreamResult
from chronolake_metastore.domain.rollbacks import RollbackInstant
from chronolake_metastore.domain.state import State
from chronolake_metastore.domain.streams import (
    Checkpoint,
    CloseStream,
    ExpireStream,
    OpenStream,
    RenewStream,
    Stream,
    StreamCommand,
)
from chronolake_metastore.domain.tables import Table
from chronolake_metastore.store import streams as stored
from chronolake_model.times import Micros

ChangeT = TypeVar("ChangeT", bound=StreamCommand)


class OpenStreamHandler(Handler[OpenStream, None]):
    """Opens a stream with its next epoch, and rolls back the checkpoints that the job does not have."""

    command = OpenStream

    @override
    def names(self, command: OpenStream) -> Names:
        return with_instants(command)

    @override
    def decide(self, state: State, command: OpenStream, evidence: None, origin: Origin) -> AnyResult:
        table = state.table(command.table)
        stream = state.streams.get((table.table_id, command.stream))
        opened = streams.open_stream(table, stream, command, origin.now.steady)
        state.append(table.table_id, origin, opened)
        restored = opened.restored_checkpoint
        where = "at its beginning" if restored is None else f"from checkpoint {restored}"
        reason = command.reason or f"{opened.writer} opened the stream {opened.name} again, {where}"
        dropped = streams.behind(stream, restored)
        _roll_back(state, table, dropped, opened.writer, reason, origin)
        _hand_over(state, table, state.stream(table, command.stream), origin)
        return _result(state, table, command.stream, with_tasks=True)


class ExpireStreamHandler(Handler[ExpireStream, None]):
    """Closes a stream whose writer is silent, and rolls back its checkpoints as ``streams.expire`` decides."""

    command = ExpireStream

    @override
    def names(self, command: ExpireStream) -> Names:
        return with_instants(command)

    @override
    def decide(self, state: State, command: ExpireStream, evidence: None, origin: Origin) -> AnyResult:
        table = state.table(command.table)
        stream = state.stream(table, command.stream)
        closed, dropped = streams.expire(table, stream, command, origin.now.steady)
        state.append(table.table_id, origin, closed)
        _roll_back(state, table, dropped, command.writer, closed.reason, origin)
        return _result(state, table, command.stream)


class ChangeStreamHandler(Handler[ChangeT, None]):
    """Appends one event to a stream."""

    @override
    def names(self, command: ChangeT) -> Names:
        return Names(tables=[command.table], streams=[(command.table, command.stream)])

    def change(self, table: Table, stream: Stream, command: ChangeT, now: Micros) -> Payload:
        """The event's payload; raises ``TimelineError``."""
        raise NotImplementedError

    @override
    def decide(self, state: State, command: ChangeT, evidence: None, origin: Origin) -> AnyResult:
        table = state.table(command.table)
        payload = self.change(table, state.stream(table, command.stream), command, origin.now.steady)
        state.append(table.table_id, origin, payload)
        return _result(state, table, command.stream)


class RenewStreamHandler(ChangeStreamHandler[RenewStream]):
    """Renews the lease of a stream."""

    command = RenewStream

    @override
    def change(self, table: Table, stream: Stream, command: RenewStream, now: Micros) -> Payload:
        return streams.renew(table, stream, command, now)


class CloseStreamHandler(ChangeStreamHandler[CloseStream]):
    """Closes a stream."""

    command = CloseStream

    @override
    def change(self, table: Table, stream: Stream, command: CloseStream, now: Micros) -> Payload:
        return streams.close(table, stream, command)


def with_instants(command: StreamCommand) -> Names:
    """The table, the stream, and the instants in its buffer."""
    named = command.table, command.stream
    return Names(tables=[command.table], streams=[named], instant_queries=[stored.find_instants([named])])


def roll_back_one(
    state: State, table: Table, requested_time: Micros, writer: str, reason: str, origin: Origin
) -> None:
    """Roll an instant of a stream back.

    Its files wait for an executor, because the caller may not reach the storage.
    """
    command = RollbackInstant(table.name, requested_time, writer, reason, execute=False)
    plan = plan_of(state, table, command, state.instant(table, requested_time))
    roll_back(state, table, command, plan, origin)


def _roll_back(
    state: State, table: Table, dropped: Iterable[Checkpoint], writer: str, reason: str, origin: Origin
) -> None:
    for checkpoint in dropped:
        roll_back_one(state, table, checkpoint.requested_time, writer, reason, origin)


def _hand_over(state: State, table: Table, stream: Stream, origin: Origin) -> None:
    """Give the instants that stay in the buffer to the writer of the stream: requests name the writer."""
    for checkpoint in stream.checkpoints.values():
        instant = state.instant(table, checkpoint.requested_time)
        if instant.writer != stream.writer:
            state.append(table.table_id, origin, streams.hand_over(stream), checkpoint.requested_time)


def _result(state: State, table: Table, name: str, *, with_tasks: bool = False) -> StreamResult:
    """The stream. Only the result of its opening has its tasks: every result is kept for repeated requests."""
    stream = state.stream(table, name)
    of = table_streams.show(table, stream, state.wall_offset, with_tasks=with_tasks)
    return StreamResult(log_id=table.table_id, of=of)
