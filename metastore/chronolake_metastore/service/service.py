"""The service of one server process: commands, notes and reads pass here, and nowhere else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from chronolake_metastore import errors, telemetry
from chronolake_metastore.batching.markers import MarkerBatcher
from chronolake_metastore.batching.sequencer import Sequencer
from chronolake_metastore.commands import group
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.markers import CreateMarkers
from chronolake_metastore.domain.subjects import ANONYMOUS
from chronolake_metastore.notes import markers
from chronolake_metastore.service import registry
from chronolake_metastore.settings import Access
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.markers import Marker
from chronolake_model.operations.declaring import Right
from chronolake_model.times import Micros

ParametersT = ParamSpec("ParametersT")
ResultT = TypeVar("ResultT")

_log = telemetry.logger(__name__)


def authorize(ctx: Context, names: Sequence[str], right: Right) -> None:
    """Refuse a caller without a ``right`` on the tables and namespaces that are named.

    There are no roles yet: every known caller may do everything.
    """
    if ctx.subject == ANONYMOUS:
        raise errors.Unauthenticated(errors.Reason.NO_TOKEN)


def allow(ctx: Context, names: Sequence[str], right: Right) -> None:
    """Allow everything to everyone, as a server does whose access is off."""


def refuse_nothing() -> None:
    """For a process that runs only while its server may act."""


class Service:
    """The door to the core.

    ``refuse`` raises ``MetastoreMoved`` while this server only reads. It is asked for commands and new markers.
    A reader's lease on a copy is allowed: ``chronolake check`` takes one.
    """

    def __init__(
        self,
        database: Database,
        sequencer: Sequencer | None = None,
        marker_batcher: MarkerBatcher | None = None,
        refuse: Callable[[], None] = refuse_nothing,
        access: Access = Access.OFF,
    ) -> None:
        """A service without a ``sequencer`` takes no commands, without a ``marker_batcher`` no markers."""
        self._authorize = authorize if access is Access.ON else allow
        self._database = database
        self._sequencer = sequencer
        self._marker_batcher = marker_batcher
        self._refuse = refuse

    async def execute(self, ctx: Context, command: Command, *, records_refusal: bool = True) -> Answer:
        """Execute a command, and give its answer when it is durable; raises ``TimelineError``.

        ``records_refusal`` is false for a worker that tries again and again: no client waits for the answer to
        a race that it lost.
        """
        assert self._sequencer is not None
        request = group.request_of(ctx, command, records_refusal=records_refusal)
        self._refuse()
        task = group.task_of(request)
        self._authorize(ctx, (*task.names.tables, *task.names.namespaces), registry.COMMANDS[type(command)])
        return await self._sequencer.submit(task)

    async def note(
        self,
        ctx: Context,
        note: Callable[Concatenate[Context, Database, ParametersT], Awaitable[ResultT]],
        *args: ParametersT.args,
        **kwargs: ParametersT.kwargs,
    ) -> ResultT:
        """Make a change that is durable but not in the event log; raises ``TimelineError``.

        The server's own log names the actor.
        """
        required = registry.NOTES[note]
        names = required.names(args)
        self._authorize(ctx, names, required.right)
        result = await note(ctx, self._database, *args, **kwargs)
        tell = _log.debug if required.is_frequent else _log.info
        tell("note", note=_name(note), names=names, actor=ctx.actor, request_id=ctx.request_id)
        return result

    async def read(
        self,
        ctx: Context,
        read: Callable[Concatenate[Context, Database, ParametersT], Awaitable[ResultT]],
        *args: ParametersT.args,
        **kwargs: ParametersT.kwargs,
    ) -> ResultT:
        """The answer of a query; raises ``TimelineError``."""
        required = registry.READS[read]
        self._authorize(ctx, required.names(args), required.right)
        return await read(ctx, self._database, *args, **kwargs)

    async def create_markers(
        self, ctx: Context, table: str, requested_time: Micros, new: Sequence[Marker], writer: str | None
    ) -> list[bool]:
        """Create markers, and give which of them are new when all are durable; raises ``TimelineError``.

        A note that is batched. Its actor is the writer of the instant.
        """
        assert self._marker_batcher is not None
        self._refuse()
        self._authorize(ctx, (table,), registry.NOTES[markers.create].right)
        request = CreateMarkers(table, requested_time, new, writer, ctx.table_id)
        return await self._marker_batcher.create(request)


def _name(note: Callable[..., Any]) -> str:
    return f"{note.__module__.rpartition('.')[2]}.{note.__name__}"
