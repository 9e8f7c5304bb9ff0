"""``chronolake-metastore backup`` and ``restore`` at a terminal."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import msgspec

from chronolake_metastore import backups, errors
from chronolake_metastore.cli.options import existing, name_of, source_of
from chronolake_metastore.queries import readiness
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.postgres import diagnosis, migrations

_NEXT: Final = (
    "next: chronolake-metastore verify {0}; then, when no other database of this metastore is used any more, "
    "chronolake-metastore claim {0}; until then a server on it only reads"
)


def backup(settings: Settings, folder: Path) -> str:
    """Back up, and give the line to print. Raises ``ConfigurationError``."""
    if settings.dsn:
        diagnosis.refuse_malformed(settings.dsn)
        backups.back_up(settings.dsn, folder)
    else:
        existing(settings)
        postgres = source_of(settings).embedded
        assert postgres is not None, "no DSN is given"
        backups.back_up_embedded(postgres, folder)
    return f"backup of {name_of(settings)} written to {folder}"


def restore(settings: Settings, folder: Path) -> str:
    """Restore, and give the lines to print. Raises ``ConfigurationError``."""
    if not settings.dsn:
        backups.restore_embedded(folder, settings.data_dir)
        return f"restored into {name_of(settings)}\n{_NEXT.format(f'--data-dir {settings.data_dir}')}"
    diagnosis.refuse_malformed(settings.dsn)
    backups.restore(folder, settings.dsn)
    # A dump has no roles and no rights.
    migrations.upgrade(settings.dsn)
    lines = [f"restored into {name_of(settings)}", _NEXT.format("--dsn ...")]
    try:
        asyncio.run(readiness.check_at_start(msgspec.structs.replace(settings)))
    except errors.DatabaseUnavailable as exc:
        lines.insert(1, f"before a server can start: {exc.detail}")
    return "\n".join(lines)
