"""The rights of the callers of a group of commands, as of its transaction."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.commands.handler import Names
from chronolake_metastore.domain import rights
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.rights import Needs, Rights
from chronolake_metastore.domain.subjects import Reason, Subject
from chronolake_metastore.store import callers
from chronolake_metastore.store.callers import KnownCallers
from chronolake_metastore.store.postgres.transaction import Query
from chronolake_model.roles import Right, Scope
from chronolake_model.times import Micros


def needs_of(names: Names, right: Right) -> Needs:
    """The right that a command needs on everything that it names.

    A command that names tables needs it on these, and not on the namespaces that they are in.
    """
    tables = list(names.tables)
    for place in (names.instants, names.file_groups, names.streams):
        for table, _ in place:
            if table not in tables:
                tables.append(table)
    tables += names.tables_of_streams
    return _needs_of_names(tuple(tables or names.namespaces), tuple(names.new), tuple(names.beside), right)


@functools.lru_cache(maxsize=4_096)
def _needs_of_names(
    named: tuple[str, ...], new: tuple[Scope, ...], beside: tuple[Scope, ...], right: Right
) -> Needs:
    scopes = [scope for scope in rights.scopes_of(named) if scope not in new]
    # What names nothing concerns the metastore itself.
    return Needs(right if scopes or new else Right.ADMINISTER, scopes, new, beside)


class RightsOfGroup(msgspec.Struct, frozen=True):
    """The rights of the callers of a group, as far as they concern its names."""

    callers: KnownCallers

    def of(self, subject: Subject) -> Rights:
        """The rights of a subject."""
        return self.callers.rights.get(subject.name, rights.NONE)

    def refuse_ended(self, ctx: Context, now: Micros) -> None:
        """Raise ``Unauthenticated`` if the caller was identified by a token that has ended since."""
        subject = ctx.subject
        if subject.until is not None and now >= subject.until:
            raise errors.Unauthenticated(Reason.EXPIRED)
        if subject.token_id in self.callers.ended_tokens:
            raise errors.Unauthenticated(Reason.REVOKED)


def find_callers(needed: Iterable[tuple[Context, Needs]]) -> Query[KnownCallers]:
    """The rights of callers, each with what its command needs."""
    # Most commands of a group are of one caller and need the same, which is one object (``needs_of``).
    subjects: dict[int, Subject] = {}
    needs_once: dict[int, Needs] = {}
    table_ids = set()
    for ctx, needs in needed:
        subjects[id(ctx.subject)] = ctx.subject
        needs_once[id(needs)] = needs
        if ctx.table_id is not None:
            table_ids.add(ctx.table_id)
    if not subjects:
        return Query.known(KnownCallers())
    return callers.find(
        {subject.name for subject in subjects.values()},
        {subject.token_id for subject in subjects.values() if subject.token_id is not None},
        {scope for needs in needs_once.values() for scope in (*needs.scopes, *needs.new, *needs.beside)},
        table_ids,
    )
