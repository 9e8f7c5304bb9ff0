"""Elections of leaders: the lock ends with its transaction, which holds back nobody else meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from chronolake_metastore import errors
from chronolake_metastore.settings import Settings
from chronolake_metastore.store import thinning
from chronolake_metastore.store.postgres import advisory_locks
from chronolake_metastore.store.postgres.advisory_locks import AdvisoryLock
from chronolake_metastore.store.postgres.engine import ELECTING_CONNECTIONS, Database
from chronolake_metastore.workers.registry import WORKERS

pytestmark = pytest.mark.anyio

ELECTION = (
    "SELECT a.backend_xid::text, a.backend_xmin::text, a.state,"
    " (SELECT count(*) FROM pg_locks r WHERE r.pid = a.pid AND r.locktype = 'relation')"
    " FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid"
    " WHERE l.locktype = 'advisory' AND l.classid = %s::bigint::oid AND a.datname = current_database()"
)


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    database = Database(Settings(dsn=dsn))
    yield database
    await database.close()


async def test_a_leader_that_works_holds_nothing_but_its_lock(database: Database, dsn: str) -> None:
    async with advisory_locks.leadership(database, "reaper") as ours:
        assert ours is not None
        await ours.execute("SELECT FROM chronolake.event")
        with psycopg.connect(dsn) as operator:
            found = operator.execute(ELECTION, [AdvisoryLock.WORKER.value]).fetchall()
    assert found == [(None, None, "idle in transaction", 0)]


async def test_no_lock_of_a_leader_is_left_on_its_connection(database: Database, dsn: str) -> None:
    async with advisory_locks.leadership(database, "reaper"):
        pass
    with psycopg.connect(dsn) as operator:
        assert operator.execute(ELECTION, [AdvisoryLock.WORKER.value]).fetchall() == []


async def test_when_the_session_of_a_leader_ends_another_one_is_elected(database: Database, dsn: str) -> None:
    other = Database(Settings(dsn=dsn))
    with pytest.raises(errors.ConnectionLost):
        async with advisory_locks.leadership(database, "reaper"):
            async with advisory_locks.leadership(other, "reaper") as theirs:
                assert theirs is None
            with psycopg.connect(dsn) as operator:
                operator.execute(
                    "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory'"
                    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
                )
            async with advisory_locks.leadership(other, "reaper") as theirs:
                assert theirs is not None
    async with advisory_locks.leadership(database, "reaper") as ours:
        assert ours is not None
    await other.close()


async def test_dropping_events_does_not_wait_for_the_transactions_of_leaders(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(Settings(dsn=dsn, role="none"))
    monkeypatch.setattr(thinning, "WAIT_SECONDS", 0.0)
    async with thinning.opened(database) as session, advisory_locks.leadership(database, "sweeper"):
        assert await session.wait_for_readers()
        async with database.electing() as reader:
            await reader.execute("SELECT FROM chronolake.event")
            assert not await session.wait_for_readers()
    await database.close()


def test_there_is_a_connection_for_the_election_of_each_leader() -> None:
    assert sum(worker.has_leader for worker in WORKERS) == ELECTING_CONNECTIONS
