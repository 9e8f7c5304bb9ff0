"""Backup and restore of the database, by PostgreSQL's own programs (docs/backups.md).

The backup of an embedded PostgreSQL is a copy of its data folder, made while it runs. That of any other one is
a dump of the schema ``chronolake``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
import psycopg

from chronolake_metastore import embedded, errors
from chronolake_metastore.embedded import EmbeddedPostgres
from chronolake_model import decoding

DUMP: Final = "chronolake.dump"
"""The file of a dump in the folder of a backup."""
_FOLDER: Final = "postgres"
_MANIFEST: Final = "backup_manifest"


class _BackupFile(msgspec.Struct, frozen=True):
    path: str = msgspec.field(name="Path")
    checksum: str = msgspec.field(name="Checksum")


class _Manifest(msgspec.Struct, frozen=True):
    files: list[_BackupFile] = msgspec.field(name="Files")


def back_up_embedded(postgres: EmbeddedPostgres, folder: Path) -> None:
    """Copy the data folder of a running embedded PostgreSQL. Raises ``ConfigurationError``."""
    _make_empty(folder)
    copy = str(folder / _FOLDER)
    _run(
        "pg_basebackup",
        "--dbname",
        postgres.uri,
        "--pgdata",
        copy,
        "--wal-method",
        "stream",
        "--checkpoint",
        "fast",
        "--manifest-checksums",
        "SHA256",
    )


def back_up(dsn: str, folder: Path) -> None:
    """Dump the schema of a database. Raises ``ConfigurationError``."""
    _make_empty(folder)
    options = ("--format", "custom", "--schema", "chronolake", "--no-owner", "--no-privileges")
    _run("pg_dump", *options, "--file", str(folder / DUMP), "--dbname", dsn)


def restore_embedded(folder: Path, data_dir: Path) -> None:
    """Make a data folder of a backup, with files of the account that runs its PostgreSQL.

    Raises ``ConfigurationError`` if there is no whole backup, or the data folder has a database.
    """
    with _configuration_errors():
        backup, restored = folder / _FOLDER, data_dir.expanduser().resolve() / _FOLDER
        if not (backup / "PG_VERSION").exists():
            raise errors.ConfigurationError(
                f"{folder} has no backup of an embedded database ({_FOLDER}/PG_VERSION)"
            )
        _refuse_part(backup)
        if restored.exists():
            raise errors.ConfigurationError(f"{restored} exists already: restore into another --data-dir")
        restored.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(backup, restored, symlinks=True)
        embedded.own(restored)


def _refuse_part(backup: Path) -> None:
    """Raise ``ConfigurationError`` unless each file of the backup is there as it was written.

    PostgreSQL's own program for it, ``pg_verifybackup``, crashes as the wheel has it.
    """
    try:
        manifest = decoding.decode((backup / _MANIFEST).read_bytes(), _Manifest)
        wrong = next((file.path for file in manifest.files if not _is_whole(backup, file)), None)
    except (OSError, msgspec.DecodeError) as exc:
        raise errors.ConfigurationError(f"the backup {backup} is not whole: its {_MANIFEST}: {exc}") from exc
    if wrong is not None:
        raise errors.ConfigurationError(f"the backup {backup} is not whole: {wrong} is missing or changed")


def _is_whole(backup: Path, file: _BackupFile) -> bool:
    try:
        with (backup / file.path).open("rb") as stored:
            return hashlib.file_digest(stored, "sha256").hexdigest() == file.checksum
    except FileNotFoundError:
        return False


def restore(folder: Path, dsn: str) -> None:
    """Load a dump into a database that has no schema ``chronolake``. Raises ``ConfigurationError``."""
    dump = folder / DUMP
    with _configuration_errors():
        if not dump.exists():
            raise errors.ConfigurationError(f"{folder} has no dump of a database ({DUMP})")
    _refuse_filled(dsn)
    options = ("--exit-on-error", "--single-transaction", "--no-owner", "--no-privileges")
    _run("pg_restore", *options, "--dbname", dsn, str(dump))


def _refuse_filled(dsn: str) -> None:
    # What is wrong with the DSN pg_restore says itself.
    with suppress(psycopg.Error), psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT current_database(), to_regnamespace('chronolake')").fetchone()
        if row is not None and row[1] is not None:
            raise errors.ConfigurationError(
                f"the database {row[0]} has a schema chronolake already: name a database without one"
            )


def _make_empty(folder: Path) -> None:
    with _configuration_errors():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if any(folder.iterdir()):
            raise errors.ConfigurationError(f"{folder} is not empty: name a new folder for each backup")


@contextmanager
def _configuration_errors() -> Iterator[None]:
    """Turn what the file system refuses into ``ConfigurationError``."""
    try:
        yield
    except shutil.Error as exc:
        _, path, why = exc.args[0][0]
        raise errors.ConfigurationError(f"{path} cannot be written: {why}") from exc
    except OSError as exc:
        raise errors.ConfigurationError(f"{exc.filename or exc} cannot be used: {exc.strerror}") from exc


def _run(program: str, *arguments: str) -> None:
    environment = {**os.environ, "PGAPPNAME": "chronolake-metastore"}
    command = [str(embedded.programs() / program), *arguments]
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise errors.ConfigurationError(f"{program} failed: {done.stderr.strip() or done.stdout.strip()}")
