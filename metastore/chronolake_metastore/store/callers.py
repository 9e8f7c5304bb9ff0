"""Callers of commands, as PostgreSQL knows them: their roles, and which of their tokens have ended."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Set as AbstractSet
from typing import Final
from uuid import UUID

import msgspec

from chronolake_metastore.domain.rights import HeldRole, Rights
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.transaction import Query, Rows
from chronolake_model.roles import Role, Scope

_ON_BEGINNINGS: Final = statements.load("callers/held_on_beginnings")
_PARTS: Final = {
    "tables": statements.load("callers/held_on_names"),
    "table_ids": statements.load("callers/held_on_ids"),
    "starts": statements.load("callers/held_within"),
    "token_ids": statements.load("callers/ended_tokens"),
}
"""The other parts of the statement, by the parameter without which they find nothing."""


class KnownCallers(msgspec.Struct, frozen=True):
    """The rights of subjects, by their names, and the ids of tokens that are not accepted any more."""

    rights: Mapping[str, Rights] = {}
    ended_tokens: AbstractSet[str] = frozenset()


def find(
    subjects: Collection[str],
    token_ids: Collection[str],
    scopes: Collection[Scope],
    table_ids: Collection[UUID],
) -> Query[KnownCallers]:
    """The rights of subjects, as far as they concern the scopes, or tables by their ids; and ended tokens."""
    named = sorted(scopes, key=lambda scope: (scope.text, scope.is_table))
    parameters = {
        "subjects": sorted(subjects),
        "token_ids": sorted(token_ids),
        "texts": [scope.text for scope in named],
        "tables": [scope.text for scope in named if scope.is_table],
        "starts": [scope.text for scope in named if not scope.is_table],
        "table_ids": sorted(table_ids),
    }
    # Each part costs each group of commands time, and most groups name tables alone.
    parts = [_ON_BEGINNINGS, *(part for name, part in _PARTS.items() if parameters[name])]
    return Query(_either(tuple(parts)), parameters, _known)


@functools.cache
def _either(parts: tuple[str, ...]) -> str:
    return "\nUNION ALL\n".join(parts)


def _known(rows: Rows) -> KnownCallers:
    held: dict[str, list[HeldRole]] = {}
    ended = set()
    for name, role, prefix, table, table_id in rows:
        if role is None:
            ended.add(name)
        else:
            held.setdefault(name, []).append(HeldRole(Role(role), prefix, table, table_id))
    return KnownCallers({subject: Rights(tuple(of_subject)) for subject, of_subject in held.items()}, ended)
