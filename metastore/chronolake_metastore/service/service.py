"""The service of one server process: commands, notes and reads pass here, and nowhere else."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from chronolake_metastore import errors, telemetry
from chronolake_metastore.batching.markers import MarkerBatcher
from chronolake_metastore.batching.sequencer import Sequencer
from chronolake_metastore.commands import group
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.markers import CreateMarkers
from chronolake_metastore.domain.rights import Needs, Rights, check, checked_table, without_hidden
from chronolake_metastore.domain.subjects import ANONYMOUS, Reason, Subject
from chronolake_metastore.notes import markers
from chronolake_metastore.service import registry
from chronolake_metastore.service.callers_rights import CallersRights
from chronolake_metastore.service.denials import Denials
from chronolake_metastore.settings import Access
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.markers import Marker
from chronolake_model.roles import Right
from chronolake_model.times import Micros

ParametersT = ParamSpec("ParametersT")
ResultT = TypeVar("ResultT")

_log = telemetry.logger(__name__)


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
        denials: Denials | None = None,
    ) -> None:
        """A service without a ``sequencer`` takes no commands, without a ``marker_batcher`` no markers."""
        self._denials = denials
        self._rights = CallersRights(database) if access is Access.ON else None
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
        needed = self._needed(ctx, command)
        if needed is None or self._denials is None:
            return await self._sequencer.submit(group.task_of(request, needed))
        task = group.task_of(request, needed, self._denials.recorded)
        try:
            if task.needs is not None and self._denials.recorded.is_full(ctx.subject.name):
                await self._refuse_denied(ctx, task.needs)
            return await self._sequencer.submit(task)
        except errors.TimelineError as exc:
            self._denials.add_command(needed, exc)
            raise

    async def _refuse_denied(self, ctx: Context, needs: Needs) -> None:
        """Refuse a command, before its transaction, of a subject whose denials are not recorded now.

        Raises as ``check``. A caller without a role must not keep the queue of commands busy for the others.
        """
        assert self._rights is not None
        await self._rights.checked(
            ctx.subject, lambda rights: check(rights, needs, ctx.subject.name, ctx.table_id)
        )

    def _needed(self, ctx: Context, command: Command) -> Right | None:
        """The right that the caller of a command needs: its transaction decides. None for an unlimited one."""
        if self._rights is None:
            return None
        _refuse_unknown(ctx)
        return None if ctx.subject.is_unlimited else registry.COMMANDS[type(command)]

    async def authorized(self, ctx: Context, needs: Needs, asked: Callable[..., Any]) -> Context:
        """The context with the rights of its caller, a second old at most, for the read or note ``asked``.

        Raises ``Forbidden`` if the present rights lack what the request needs, and ``NotFound`` for what the
        caller may not know.
        """
        if self._rights is None:
            return ctx
        _refuse_unknown(ctx)

        def with_rights(rights: Rights) -> Context:
            table_id = checked_table(rights, needs, ctx.subject.name, ctx.table_id)
            return msgspec.structs.replace(ctx, rights=rights, table_id=table_id)

        try:
            return await self._rights.checked(ctx.subject, with_rights)
        except (errors.Forbidden, errors.NotFound) as exc:
            self.record_denial(ctx, needs.right, _name(asked), exc)
            raise

    async def refuse_large_of(self, subject: Subject) -> None:
        """Raise ``Forbidden`` for a caller without a role: it may send no large body.

        A body is decoded before the rights are checked that its request needs, and nothing else runs meanwhile.
        """
        if self._rights is None:
            return

        def check_role(rights: Rights) -> None:
            if not rights.held and not rights.is_unlimited:
                raise errors.Forbidden(
                    f"{subject.name} has no role, and so may send no large body; ask an administrator for one"
                )

        await self._rights.checked(subject, check_role)

    def record_denial(self, ctx: Context, right: str, denied: str, refused: errors.TimelineError) -> None:
        """Count and record a denial of something that is no command, later."""
        if self._denials is not None:
            self._denials.add(ctx, right, denied, refused)

    def watched_rights(self, ctx: Context) -> Callable[[], Awaitable[Rights]] | None:
        """A function for the rights of a caller, a second old at most; None for one that may do everything."""
        if self._rights is None or ctx.subject.is_unlimited:
            return None
        return functools.partial(self._rights.of, ctx.subject)

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
        ctx = await self.authorized(ctx, required.needs(names), note)
        with _nothing_hidden(ctx):
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
        ctx = await self.authorized(ctx, required.needs(required.names(args)), read)
        with _nothing_hidden(ctx):
            return await read(ctx, self._database, *args, **kwargs)

    async def create_markers(
        self, ctx: Context, table: str, requested_time: Micros, new: Sequence[Marker], writer: str | None
    ) -> list[bool]:
        """Create markers, and give which of them are new when all are durable; raises ``TimelineError``.

        A note that is batched. Its actor is the writer of the instant.
        """
        assert self._marker_batcher is not None
        self._refuse()
        ctx = await self.authorized(ctx, registry.NOTES[markers.create].needs((table,)), markers.create)
        request = CreateMarkers(table, requested_time, new, writer, ctx.table_id)
        with _nothing_hidden(ctx):
            return await self._marker_batcher.create(request)


def _refuse_unknown(ctx: Context) -> None:
    """Refuse a caller that was not identified: a server with access whose door was left open serves nothing."""
    if ctx.subject == ANONYMOUS:
        raise errors.Unauthenticated(Reason.NO_TOKEN)


@contextmanager
def _nothing_hidden(ctx: Context) -> Iterator[None]:
    """Errors within name no table that the caller may not read."""
    try:
        yield
    except errors.TimelineError as exc:
        if (shown := without_hidden(exc, ctx.rights)) is exc:
            raise
        raise shown from exc


def _name(note: Callable[..., Any]) -> str:
    return f"{note.__module__.rpartition('.')[2]}.{note.__name__}"
