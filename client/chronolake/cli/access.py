"""``chronolake grants``, ``chronolake whoami`` and ``chronolake can-i``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer
from rich.console import Console

from chronolake.cli import context, options, output
from chronolake_model import roles
from chronolake_model.access import Grant
from chronolake_model.roles import Right, Role


def _checked_subject(subject: str) -> str:
    try:
        roles.refuse_unknown_subject(subject)
    except ValueError as exc:
        raise typer.BadParameter(str(exc)) from exc
    return subject


def _checked_pattern(pattern: str) -> str:
    try:
        roles.scope_of(pattern)
    except ValueError as exc:
        raise typer.BadParameter(str(exc)) from exc
    return pattern


_Subject = Annotated[
    str,
    typer.Argument(
        metavar="SUBJECT",
        help="token:<id>, or oidc:<alias of the issuer>:<sub>.",
        callback=_checked_subject,
        show_default=False,
    ),
]
_On = Annotated[
    str,
    typer.Argument(
        metavar="ON",
        help="* (everything), shop (a namespace with its tables), shop.raw_* (names that begin so), or "
        "shop.orders (one table, whatever its name later).",
        callback=_checked_pattern,
        show_default=False,
    ),
]


def app() -> typer.Typer:
    """The commands of ``chronolake grants``."""
    return options.group(
        "grants",
        "List, grant and revoke roles, at a server with access control.",
        ("list", list_grants),
        ("add", add),
        ("revoke", revoke),
    )


def list_grants(
    subject: Annotated[
        str | None, typer.Argument(metavar="SUBJECT", help="Only those of this subject.", show_default=False)
    ] = None,
) -> None:
    """List your own roles, and those on names that you may grant roles on."""
    with context.client() as client:
        grants = list(client.grants(subject))
    output.show({"grants": grants}, lambda console: _print(console, grants))


def add(
    subject: _Subject,
    role: Annotated[
        Role, typer.Argument(metavar="ROLE", help="Each has the rights of those before it.", show_default=False)
    ],
    on: _On,
) -> None:
    """Grant a role, in place of the one that the subject has there. You must be admin on all these names."""
    with context.client() as client:
        grant = client.grant(subject, role, on)
    output.show(grant, lambda console: console.print(f"{grant.subject} is {grant.role} on {grant.on}"))


def revoke(subject: _Subject, on: _On) -> None:
    """Revoke the role on exactly these names. Commands are refused from then on, reads after a second."""
    with context.client() as client:
        pattern = roles.scope_of(on).pattern
        before = next((grant.role for grant in client.grants(subject) if grant.on == pattern), None)
        client.revoke(subject, on)
    said = f"{subject} is no longer {before}" if before else f"nothing changed: {subject} has no role"
    output.show({"subject": subject, "on": on}, lambda console: console.print(f"{said} on exactly {on}"))


def whoami() -> None:
    """Show who you are for the server, and your roles."""
    with context.client() as client:
        me = client.who_am_i()

    def render(console: Console) -> None:
        console.print(f"{me.subject}{', which may do everything' if me.is_unlimited else ''}")
        if me.grants:
            _print(console, me.grants)
        elif not me.is_unlimited:
            command = f"chronolake grants add {me.subject} ROLE ON"
            console.print(f"It has no roles. An administrator grants one: {command}", markup=False)

    output.show(me, render)


def can_i(
    right: Annotated[Right, typer.Argument(metavar="RIGHT", help="The right.", show_default=False)], on: _On
) -> None:
    """Say whether you have a right on all names of a pattern: exit code 0 if so, 6 if not."""
    with context.client() as client:
        is_allowed = client.can_i(right, on)
    output.show({"allowed": is_allowed}, lambda console: console.print("yes" if is_allowed else "no"))
    if not is_allowed:
        raise typer.Exit(output.ACCESS_REFUSED)


def _print(console: Console, grants: Iterable[Grant]) -> None:
    rows = (
        (grant.subject, grant.role.value, grant.on, grant.granted_by, f"{grant.granted_at:%Y-%m-%d %H:%M:%S}")
        for grant in grants
    )
    columns = ("subject~", "role", "on~", "granted by~", "at")
    output.print_table(console, output.table_of(columns, rows))
