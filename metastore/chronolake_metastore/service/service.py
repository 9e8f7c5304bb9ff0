"""The service of one server process: commands, notes and reads pass here, and nowhere else."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from chronolake_metastore import telemetry
from chronolake_metastore.batching.markers import MarkerBatcher
from chronolake_metastore.batching.sequencer import Sequencer
from chronolake_metastore.commands import group
from chronolake_metastore.commands.answers import Answer
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.markers import CreateMarkers
from chronolake_metastore.notes import markers
from chronolake_metastore.service import registry
from chronolake_metastore.service.authorization import authorize
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model import markers as wire
from chronolake_model.times import Micros

ParametersT = ParamSpec("ParametersT")
ResultT = TypeVar("ResultT")

_log = telemetry.logger(__name__)


def take_all() -> None:
    """Refuse nothing: of a process that runs only while the server may act."""


class Service:
    """The door to the core.

    ``refuse`` raises ``MetastoreMoved`` while this server only reads. It is asked for commands and new markers.
    A reader's lease on a copy is allowed: whoever compares the copy with storage takes one.
    """

    def __init__(
        self,
        database: Database,
        sequencer: Sequencer | None = None,
        marker_batcher: MarkerBatcher | None = None,
        refuse: Callable[[], None] = take_all,
    ) -> None:
        """A service without a ``sequencer`` takes no commands, without a ``marker_batcher`` no markers."""
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
        authorize(ctx, (*task.names.tables, *task.names.namespaces), registry.COMMANDS[type(command)])
        return await self._sequencer.submit(task)

    async def note(
        self,
        ctx: Context,
        note: Callable[Concatenate[Database, ParametersT], Awaitable[ResultT]],
        *args: ParametersT.args,
        **kwargs: ParametersT.kwargs,
    ) -> ResultT:
        """Do what is durable but not in the log; raises ``TimelineError``. The actor is in the server's log."""
        kind = registry.NOTES[note]
        names = _names(args)
        authorize(ctx, names, kind.right)
        result = await note(self._database, *args, **kwargs)
        tell = _log.debug if kind.is_frequent else _log.info
        tell("note", note=_name(note), names=names, actor=ctx.actor, request_id=ctx.request_id)
        return result

    async def create_markers(
        self, ctx: Context, table: str, requested_time: Micros, body: wire.CreateMarkers
    ) -> list[bool]:
        """Create markers, and give which of them are new when all are durable; raises ``TimelineError``.

        A note that is batched. Its actor is the writer of the instant.
        """
        assert self._marker_batcher is not None
        self._refuse()
        authorize(ctx, (table,), registry.NOTES[markers.create].right)
        return await self._marker_batcher.create(CreateMarkers(table, requested_time, body, ctx.table_id))


def _names(args: tuple[Any, ...]) -> tuple[str, ...]:
    """What a note names: its first argument is the name of its table, unless it has none."""
    return args[:1]


def _name(note: Callable[..., Any]) -> str:
    return f"{note.__module__.rpartition('.')[2]}.{note.__name__}"
