"""The rights of the callers of a group of commands, as of its transaction."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from typing import Any

import msgspec

from chronolake_metastore import errors
from chronolake_metastore.commands.handler import Names
from chronolake_metastore.domain import rights
from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.rights import Needs, Rights
from chronolake_metastore.domain.subjects import Reason, Subject
from chronolake_metastore.store import grants, tokens
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
    """The rights of subjects, and the tokens that are not accepted any more."""

    by_subject: Mapping[str, Rights]
    ended_tokens: AbstractSet[str]

    def of(self, subject: Subject) -> Rights:
        """The rights of a subject, as far as they concern the names of the group."""
        return self.by_subject.get(subject.name, rights.NONE)

    def refuse_ended(self, ctx: Context, now: Micros) -> None:
        """Raise ``Unauthenticated`` if the caller was identified by a token that has ended since."""
        subject = ctx.subject
        if subject.until is not None and now >= subject.until:
            raise errors.Unauthenticated(Reason.EXPIRED)
        if subject.token_id in self.ended_tokens:
            raise errors.Unauthenticated(Reason.REVOKED)


class RightsQueries:
    """The queries for the rights of callers, each with what its command needs."""

    def __init__(self, needed: Iterable[tuple[Context, Needs]]) -> None:
        callers = list(needed)
        if not callers:
            self._held: Query[Mapping[str, Rights]] = Query.known({})
            self._ended: Query[AbstractSet[str]] = Query.known(frozenset())
            return
        needed_once = {id(needs): needs for _, needs in callers}.values()
        scopes = [scope for needs in needed_once for scope in (*needs.scopes, *needs.new, *needs.beside)]
        token_ids = {ctx.subject.token_id for ctx, _ in callers if ctx.subject.token_id is not None}
        table_ids = [ctx.table_id for ctx, _ in callers if ctx.table_id is not None]
        self._held = grants.find_held((ctx.subject.name for ctx, _ in callers), scopes, table_ids)
        self._ended = tokens.find_ended(token_ids)

    @property
    def all(self) -> Sequence[Query[Any]]:
        """The queries, to be fetched."""
        return self._held, self._ended

    @property
    def result(self) -> RightsOfGroup:
        """The rights, once the queries were fetched."""
        return RightsOfGroup(self._held.result, self._ended.result)
