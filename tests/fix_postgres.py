"""A real PostgreSQL: one server for the run, one migrated template, one clone of it per test."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from chronolake_metastore import embedded
from chronolake_metastore.store.postgres import migrations
from tests import fix_secrets

TEMPLATE = "chronolake_template"

_FOLDER_PREFIX = "chronolake-test-"
_MEMORY = Path("/dev/shm")
_MEMORY_BYTES_MIN = 2 << 30
"""Free memory at the start of a worker; its PostgreSQL takes about a tenth of it."""
_UNUSED_SECONDS = 3_600

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The DSN of a PostgreSQL whose superuser we are: CHRONOLAKE_TEST_DSN, or the embedded one.

    There is always one, so nothing is skipped for want of it.
    """
    if given := os.environ.get("CHRONOLAKE_TEST_DSN"):
        yield given
        return
    # Not below pytest's folder for temporary files: each run of pytest closes it to other users, and under root
    # the embedded PostgreSQL is another user.
    folder = tempfile.mkdtemp(prefix=_FOLDER_PREFIX, dir=_memory_folder())
    # It stops when the process ends, and the folder can go only then; atexit runs in reverse order.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    dsn = embedded.start(Path(folder)).dsn
    # Tests kill processes, never the machine, so the pages of the kernel survive. Each DROP DATABASE, and each
    # commit, would wait for the disk.
    settings = {"fsync": "off", "full_page_writes": "off", "max_wal_size": "256MB"}
    with psycopg.connect(dsn, autocommit=True) as connection:
        for name, value in settings.items():
            connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        connection.execute("SELECT pg_reload_conf()")
    yield dsn


@pytest.fixture(scope="session")
def template(postgres: str) -> str:
    """The name of a database that is migrated, to be cloned."""
    name = f"{TEMPLATE}_{os.getpid()}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    migrations.upgrade(make_conninfo(postgres, dbname=name))
    return name


@pytest.fixture
def dsn(new_database: Callable[[], str]) -> str:
    """The DSN, as a superuser, of a migrated database of the test's own."""
    return new_database()


@contextlib.contextmanager
def clone_of(postgres: str, template: str) -> Iterator[str]:
    """The DSN, as a superuser, of a copy of a database, which is dropped at the end."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    # No connection stays open meanwhile: a long test makes more databases than PostgreSQL has connections.
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY wal_log')
    dsn = make_conninfo(postgres, dbname=name)
    yield claimed(dsn)
    try:
        fix_secrets.search_guarded(dsn)
    finally:
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def new_database(postgres: str, template: str) -> Iterator[Callable[[], str]]:
    """Makes migrated databases, which are dropped at the end of the test."""
    with contextlib.ExitStack() as made:
        yield lambda: made.enter_context(clone_of(postgres, template))


@pytest.fixture(scope="module")
def shared_dsn(postgres: str, template: str) -> Iterator[str]:
    """The DSN, as a superuser, of a migrated database for the tests of a module."""
    with clone_of(postgres, template) as dsn:
        yield dsn


def claimed(dsn: str) -> str:
    """Give the clone an identity of its own: a copied database may not delete files under its original's."""
    with psycopg.connect(dsn) as connection:
        connection.execute("INSERT INTO chronolake.metastore DEFAULT VALUES")
    return dsn


@pytest.fixture
def empty_database(postgres: str) -> Iterator[str]:
    """The DSN of a database in which no migration has run."""
    name = f"empty_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        yield make_conninfo(postgres, dbname=name)
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return Path(__file__).parent.parent


def _memory_folder() -> Path | None:
    """The folder of Linux that is in memory, if it has space; ``None`` for the usual one.

    A clone is a thousand small files, which cost a disk's file system most of the time of a short test.
    """
    if not os.access(_MEMORY, os.W_OK):
        return None
    _remove_unused(_MEMORY)
    return _MEMORY if shutil.disk_usage(_MEMORY).free >= _MEMORY_BYTES_MIN else None


def _remove_unused(parent: Path) -> None:
    """Remove folders of tests that were killed, which would keep their memory."""
    for folder in parent.glob(f"{_FOLDER_PREFIX}*"):
        with contextlib.suppress(FileNotFoundError):
            is_old = time.time() - folder.stat().st_mtime > _UNUSED_SECONDS
            if is_old and not embedded.EmbeddedPostgres(folder).is_running():
                shutil.rmtree(folder, ignore_errors=True)
