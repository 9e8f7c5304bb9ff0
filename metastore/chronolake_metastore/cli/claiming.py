"""``chronolake-metastore claim`` at a terminal: a line for each table."""

from __future__ import annotations

import asyncio
from typing import Final

import typer

from chronolake_metastore.commands import claiming
from chronolake_metastore.commands.claiming import Claimed, Identities
from chronolake_metastore.queries import readiness
from chronolake_metastore.settings import Settings
from chronolake_storage.claims import Renewal

_DONE: Final = {
    Renewal.KEPT: "its claim was correct",
    Renewal.CLAIMED: "claimed",
    Renewal.RENEWED: "claim renewed",
    Renewal.FORCED: "claim taken from another by force",
}
_WOULD: Final = {
    Renewal.KEPT: "its claim is correct",
    Renewal.CLAIMED: "would be claimed",
    Renewal.RENEWED: "its claim would be renewed",
    Renewal.FORCED: "its claim would be taken from another by force",
}

_ORIGINAL: Final = (
    "If a server of the original database runs, stop it: it may take writes for another minute after a claim, "
    "and this metastore does not have them."
)


def claim(settings: Settings, table: str | None, *, new_id: bool, force: bool, dry_run: bool) -> bool:
    """Claim, and print the result of each table. Gives whether no table was refused."""
    refused = 0

    def tell(claimed: Claimed) -> None:
        nonlocal refused
        refused += claimed.is_refused
        typer.echo(f"{claimed.table}: {_text_of(claimed, dry_run=dry_run)}")

    async def run() -> Identities:
        await readiness.check_at_start(settings)
        return await claiming.claim(
            settings, tell, _open_archive, table=table, new_id=new_id, force=force, dry_run=dry_run
        )

    identities = asyncio.run(run())
    tables = "table" if refused == 1 else "tables"
    typer.echo(f"{_named(identities, dry_run=dry_run)}; {refused} {tables} not claimed")
    if identities.is_new:
        typer.echo(_ORIGINAL)
    return not refused


def _open_archive() -> object:
    """A reader of the archive that the database names."""
    from chronolake_metastore.archive.reading import ArchiveReader  # noqa: PLC0415  # PyArrow

    return ArchiveReader()


def _named(identities: Identities, *, dry_run: bool) -> str:
    if identities.is_new and dry_run:
        return "the metastore would get a new identity"
    return f"metastore {identities.all_identities[-1]}, {'new' if identities.is_new else 'as before'}"


def _text_of(claimed: Claimed, *, dry_run: bool) -> str:
    if claimed.is_refused:
        return f"not claimed: {claimed.failure}"
    if claimed.renewal is None:
        return f"never written, nothing to claim ({claimed.base_path} is not there)"
    return f"{(_WOULD if dry_run else _DONE)[claimed.renewal]} ({claimed.base_path})"
