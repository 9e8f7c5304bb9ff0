"""The commands of tokens: create, list, rotate, revoke. They need the login that owns the schema."""

from __future__ import annotations

import os
import secrets
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, TextIO, TypeVar

import msgspec
import typer

from chronolake_metastore import errors
from chronolake_metastore.cli import owning, serving
from chronolake_metastore.cli.options import ReportAsJson, of_settings
from chronolake_metastore.domain import tokens
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.tokens import StoredToken
from chronolake_metastore.identification import token_keys
from chronolake_metastore.identification.token_keys import TokenKeys
from chronolake_metastore.settings import LogLevel, Settings
from chronolake_metastore.store import tokens as store
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.times import to_datetime

_DAY_SECONDS: Final = 86_400
DAYS: Final = 365
KEEP_HOURS: Final = 24
app = typer.Typer(no_args_is_help=True, help="Tokens of callers, for servers with --access on.")

ResultT = TypeVar("ResultT")
Name = Annotated[str, typer.Argument(help="The token's name or id.", metavar="TOKEN")]
To = Annotated[
    Path | None,
    typer.Option(
        "--to",
        help="Write the token to this file, which only its owner may read, not to the terminal.",
        metavar="FILE",
    ),
]


class ShownToken(msgspec.Struct, frozen=True):
    """A token as the commands show it. ``token`` is the text itself, which is shown once, and never stored.

    ``previous_until`` is until when the secret before the last rotation is accepted.
    """

    id: str
    name: str | None
    subject: str
    created: str
    expires: str | None
    acts_for_others: bool
    revoked: str | None
    previous_until: str | None
    token: str | None = None


@app.command()
@of_settings("token_key_file", log_level=LogLevel.WARNING)
def create(
    settings: Settings,
    *,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A name for people, which the log does not have.")
    ],
    days: Annotated[int, typer.Option(min=0, help="Days until it expires; 0: it does not.")] = DAYS,
    acts_for_others: Annotated[
        bool,
        typer.Option(
            "--acts-for-others", help="Let the header Chronolake-Actor name another actor after the subject."
        ),
    ] = False,
    to: To = None,
    as_json: ReportAsJson = False,
) -> None:
    """Create a token, and show it: once, because only its digest is stored.

    If a token has the name already and is not revoked, nothing changes, and nothing is written to standard
    output or the file.
    """
    keys = _keys(settings)

    async def run(database: Database) -> tuple[StoredToken, str | None]:
        for token in await store.named(database, name):
            if token.revoked_at is None:
                return token, None
        token_id = tokens.new_id(secrets.token_bytes(tokens.ID_BYTES))
        text = tokens.text_of(token_id, secrets.token_bytes(tokens.SECRET_BYTES))
        await store.save_name(database, token_id, name)
        lifetime = days * _DAY_SECONDS or None
        command = tokens.CreateToken(token_id, keys.first_id, _digest(keys, text), acts_for_others, lifetime)
        return await _execute(database, command, token_id), text

    with _opened(to) as file:
        token, text = owning.run(settings, "change tokens", run)
        if text is None:
            typer.echo(f"{name!r} is the name of token {token.token_id} already: rotate or revoke it", err=True)
        _show(token, text, file, as_json=as_json)


@app.command(name="list")
@of_settings(log_level=LogLevel.WARNING)
def list_(settings: Settings, *, as_json: ReportAsJson = False) -> None:
    """List the tokens, also those that were revoked or have expired."""
    shown = [_shown(token) for token in owning.run(settings, "list tokens", store.listed)]
    if as_json:
        typer.echo(serving.as_json({"tokens": msgspec.to_builtins(shown)}))
        return
    for token in shown:
        state = f"revoked {token.revoked}" if token.revoked else f"expires {token.expires or 'never'}"
        others = "  acts for others" if token.acts_for_others else ""
        rotated = f"  former secret until {token.previous_until}" if token.previous_until else ""
        typer.echo(f"{token.id}  {token.name or '-'}  created {token.created}  {state}{others}{rotated}")


@app.command()
@of_settings("token_key_file", log_level=LogLevel.WARNING)
def rotate(
    settings: Settings,
    *,
    name: Name,
    keep_hours: Annotated[
        int, typer.Option(min=0, help="How long the former secret is still accepted.")
    ] = KEEP_HOURS,
    to: To = None,
    as_json: ReportAsJson = False,
) -> None:
    """Give a token a new secret, and show it. Subject, rights and expiry stay."""
    keys = _keys(settings)

    async def run(database: Database) -> tuple[StoredToken, str]:
        token = await named(database, name)
        text = tokens.text_of(token.token_id, secrets.token_bytes(tokens.SECRET_BYTES))
        command = tokens.RotateToken(token.token_id, keys.first_id, _digest(keys, text), keep_hours * 3_600)
        return await _execute(database, command, token.token_id), text

    with _opened(to) as file:
        token, text = owning.run(settings, "change tokens", run)
        _show(token, text, file, as_json=as_json)


@app.command()
@of_settings(log_level=LogLevel.WARNING)
def revoke(settings: Settings, *, name: Name, as_json: ReportAsJson = False) -> None:
    """Revoke a token for good: servers refuse it within a second, and cut its streams off within 17.

    It may run again.
    """

    async def run(database: Database) -> StoredToken:
        token = await named(database, name)
        return await _execute(database, tokens.RevokeToken(token.token_id), token.token_id)

    token = owning.run(settings, "change tokens", run)
    if as_json:
        _show(token, None, None, as_json=True)
    else:
        typer.echo(f"token {token.token_id} is revoked")


async def _execute(database: Database, command: Command, token_id: str) -> StoredToken:
    """Execute a command; gives the token as it is then. Raises ``TimelineError``."""
    await owning.execute(database, command, "token")
    token = await store.get(database, token_id)
    assert token is not None
    return token


async def named(database: Database, name: str) -> StoredToken:
    """The token with this id, or else with this name; raises ``ConfigurationError`` unless there is one."""
    if (token := await store.get(database, name)) is not None:
        return token
    found = await store.named(database, name)
    candidates = [token for token in found if token.revoked_at is None] or found[:1]
    if not candidates:
        raise errors.ConfigurationError(
            f"there is no token {name!r}; chronolake-metastore token list shows all"
        )
    if len(candidates) > 1:
        ids = ", ".join(token.token_id for token in candidates)
        raise errors.ConfigurationError(f"several tokens have the name {name!r}; give one of their ids: {ids}")
    return candidates[0]


def _keys(settings: Settings) -> TokenKeys:
    path = token_keys.file_of(settings)
    if path is None:
        raise errors.ConfigurationError(
            "tokens need the key file of the servers: --token-key-file FILE; the first time make one with "
            "openssl rand -base64 32 > FILE, and give it to all servers"
        )
    return token_keys.read(path)


def _digest(keys: TokenKeys, text: str) -> str:
    digest = keys.digest(keys.first_id, text)
    assert digest is not None
    return digest


def _show(token: StoredToken, text: str | None, file: TextIO | None, *, as_json: bool) -> None:
    if file is not None and text is not None:
        file.write(f"{text}\n")
        text = None
    if as_json:
        shown = msgspec.structs.replace(_shown(token), token=text)
        typer.echo(serving.as_json(msgspec.to_builtins(shown)))
    elif text is not None:
        typer.echo(text)
    if text is not None and sys.stdout.isatty():
        typer.echo(f"token {token.token_id}: keep it now, it is not shown again", err=True)


@contextmanager
def _opened(path: Path | None) -> Iterator[TextIO | None]:
    """A file for a secret, opened before there is one: if it cannot be, no token has changed.

    What is written takes the place of a file that exists, so that readers never see half of it. Raises
    ``ConfigurationError``.
    """
    if path is None:
        yield None
        return
    if path.is_dir():
        raise errors.ConfigurationError(f"{path} is a folder; give --to a file")
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as exc:
        raise errors.ConfigurationError(f"{path} cannot be written: {exc.strerror}") from exc
    try:
        with os.fdopen(descriptor, "w") as file:
            yield file
        if beside.stat().st_size:
            _move(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _move(beside: Path, path: Path) -> None:
    try:
        beside.replace(path)
    except OSError as exc:
        raise errors.ConfigurationError(
            f"the token has a new secret, which {path} could not take ({exc.strerror}): rotate it again"
        ) from exc


def _shown(token: StoredToken) -> ShownToken:
    return ShownToken(
        id=token.token_id,
        name=token.name,
        subject=f"token:{token.token_id}",
        created=_utc(token.created_at),
        expires=None if token.expires_at is None else _utc(token.expires_at),
        acts_for_others=token.acts_for_others,
        revoked=None if token.revoked_at is None else _utc(token.revoked_at),
        previous_until=None if token.previous is None else _utc(token.previous.until),
    )


def _utc(time: Any) -> str:
    return to_datetime(time).strftime("%Y-%m-%dT%H:%M:%SZ")
