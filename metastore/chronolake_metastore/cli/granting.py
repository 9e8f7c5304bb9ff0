"""The commands of operators on the roles of subjects (docs/decisions/0100-rights.md)."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
import typer

from chronolake_metastore.cli import owning, serving, tokens
from chronolake_metastore.cli.options import ReportAsJson, of_settings
from chronolake_metastore.domain.grants import GrantRole, RevokeRole, StoredGrant
from chronolake_metastore.domain.results import GrantResult
from chronolake_metastore.domain.rights import UNLIMITED
from chronolake_metastore.queries import grants as queries
from chronolake_metastore.settings import LogLevel, Settings
from chronolake_metastore.store import grants as store, tokens as stored_tokens
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model import roles
from chronolake_model.roles import Role

PAGE: Final = 1_000
"""Grants that are read at once."""

app = typer.Typer(no_args_is_help=True, help="Say who may do what, at servers with --access on.")

Subject = Annotated[
    str,
    typer.Argument(
        help="token:<id>, oidc:<alias>:<sub>, or the name or id of a token.",
        metavar="SUBJECT",
        show_default=False,
    ),
]
On = Annotated[
    str,
    typer.Argument(
        help="* (everything), shop (a namespace with its tables), shop.raw_* (names that begin so), or "
        "shop.orders (one table, whatever its name later).",
        metavar="ON",
        show_default=False,
    ),
]


@app.command()
@of_settings(log_level=LogLevel.WARNING)
def add(
    settings: Settings,
    *,
    subject: Subject,
    role: Annotated[
        Role, typer.Argument(metavar="ROLE", help="Each has the rights of those before it.", show_default=False)
    ],
    on: On,
    as_json: ReportAsJson = False,
) -> None:
    """Grant a role. It replaces the role that the subject has there, and may run again."""

    async def run(database: Database) -> StoredGrant:
        return await grant(database, await _resolved(database, subject), role, on)

    granted = owning.run(settings, "change roles", run)
    if as_json:
        typer.echo(serving.as_json(msgspec.to_builtins(queries.document(granted))))
    else:
        typer.echo(f"{granted.subject} is {granted.role.value} on {granted.pattern}")


@app.command()
@of_settings(log_level=LogLevel.WARNING)
def revoke(settings: Settings, *, subject: Subject, on: On, as_json: ReportAsJson = False) -> None:
    """Revoke the role that was granted on exactly these names. It may run again.

    Commands are refused from then on, reads after a second.
    """

    async def run(database: Database) -> tuple[str, Role | None]:
        name = await _resolved(database, subject)
        granted = await _all(database, name)
        await owning.execute(database, RevokeRole(name, on), "grants")
        return name, next((each.role for each in granted if each.pattern == roles.scope_of(on).pattern), None)

    name, before = owning.run(settings, "change roles", run)
    if as_json:
        typer.echo(serving.as_json({"subject": name, "on": on}))
    else:
        said = f"{name} is no longer {before.value}" if before else f"nothing changed: {name} has no role"
        typer.echo(f"{said} on exactly {on}")


@app.command(name="list")
@of_settings(log_level=LogLevel.WARNING)
def list_(
    settings: Settings,
    *,
    subject: Annotated[
        str | None, typer.Argument(help="Only the roles of this subject.", metavar="SUBJECT")
    ] = None,
    as_json: ReportAsJson = False,
) -> None:
    """List the roles of all subjects, with the names of tokens."""
    granted, names = owning.run(settings, "list roles", lambda database: _named(database, subject))
    if as_json:
        shown = [
            {**msgspec.to_builtins(queries.document(each)), "name": names.get(each.subject)} for each in granted
        ]
        typer.echo(serving.as_json({"grants": shown}))
        return
    for each in granted:
        name = f" ({names[each.subject]})" if each.subject in names else ""
        typer.echo(f"{each.subject}{name}  {each.role.value}  {each.pattern}  granted by {each.granted_by}")


async def grant(database: Database, subject: str, role: Role, on: str) -> StoredGrant:
    """Grant a role; raises ``ConfigurationError`` and ``Unavailable``."""
    result = await owning.execute(database, GrantRole(subject, role, on), "grants")
    assert isinstance(result, GrantResult)
    return result.grant


async def _resolved(database: Database, subject: str) -> str:
    """The subject, also of a token that is given by its name; raises ``ConfigurationError``."""
    try:
        roles.refuse_unknown_subject(subject)
    except ValueError:
        return f"token:{(await tokens.named(database, subject)).token_id}"
    return subject


async def _named(database: Database, subject: str | None) -> tuple[list[StoredGrant], dict[str, str]]:
    """The roles, and the names of tokens by their subjects."""
    listed = await stored_tokens.listed(database)
    names = {f"token:{token.token_id}": token.name for token in listed if token.name is not None}
    return await _all(database, subject), names


async def _all(database: Database, subject: str | None) -> list[StoredGrant]:
    of_subject = None if subject is None else await _resolved(database, subject)
    found: list[StoredGrant] = []
    after = ("", "")
    while True:
        async with database.reading() as connection:
            page = await store.page(connection, of_subject, UNLIMITED, "", after, PAGE)
        found += [granted for _, granted in page]
        if len(page) < PAGE:
            return found
        after = page[-1][1].subject, page[-1][0]
