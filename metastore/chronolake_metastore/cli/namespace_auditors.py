"""The commands of operators on the auditors of namespaces (docs/decisions/0103-auditors-of-namespaces.md)."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from chronolake_metastore import errors
from chronolake_metastore.cli import owning
from chronolake_metastore.cli.options import checked_namespace, of_settings
from chronolake_metastore.settings import LogLevel, Settings
from chronolake_metastore.store import namespace_auditors as store

_ACTION: Final = "change the auditors of namespaces"

app = typer.Typer(no_args_is_help=True, help="Say which logins audit the tables of a namespace with SQL.")

_Login = Annotated[
    str, typer.Argument(help="A login of PostgreSQL, or a role that logins are members of.", metavar="LOGIN")
]
_Namespace = Annotated[
    str, typer.Argument(help="The namespace, which need not exist yet.", metavar="NAMESPACE")
]


@app.command()
@of_settings(log_level=LogLevel.WARNING)
def allow(settings: Settings, *, login: _Login, namespace: _Namespace) -> None:
    """Let a login read the views of auditors for the tables of a namespace, also for later ones.

    It needs the login that migrates, and may run again. If the login was dropped and created again, or the
    database was restored into another PostgreSQL, run it again.
    """
    checked_namespace(namespace)
    if login == store.ROLE:
        raise errors.ConfigurationError(f"all auditors of namespaces are members of {login}; name one login")
    allowed = owning.run(settings, _ACTION, lambda database: store.allow(database, login, namespace))
    if allowed is None:
        raise errors.ConfigurationError(f"PostgreSQL has no login {login!r}; CREATE ROLE ... LOGIN makes one")
    typer.echo(f"{namespace}: {login} {'is allowed' if allowed.is_changed else 'was allowed before'}")
    if allowed.missing_grant is not None:
        typer.echo(f"{login} cannot read the views yet; run in PostgreSQL: {allowed.missing_grant}", err=True)


@app.command()
@of_settings(log_level=LogLevel.WARNING)
def revoke(settings: Settings, *, login: _Login, namespace: _Namespace) -> None:
    """Let a login no longer read the history of a namespace, from its next statement on. It may run again."""
    checked_namespace(namespace)
    is_changed = owning.run(settings, _ACTION, lambda database: store.revoke(database, login, namespace))
    typer.echo(f"{namespace}: {login} {'is revoked' if is_changed else 'was not allowed'}")


@app.command(name="list")
@of_settings(log_level=LogLevel.WARNING)
def list_(settings: Settings) -> None:
    """List the logins that audit namespaces. A login that was dropped or renamed reads nothing any more."""
    for auditor in owning.run(settings, "list the auditors of namespaces", store.listed):
        dropped = "" if auditor.is_known else " (dropped or renamed)"
        typer.echo(f"{auditor.namespace}: {auditor.login}{dropped}")
