"""Replay tables: temporary tables of one session, with the names of the projections, which hide them from it.

In such a session, a statement that projects into ``instant`` writes into the replay table of ``instant``. So
the statements that made the projections replay the log, and the result is compared with the projections, row
for row, while servers go on writing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from typing import Final
from uuid import UUID

import msgspec
from psycopg import errors as postgres_errors, sql

from chronolake_metastore import errors
from chronolake_metastore.store import needed_files, needed_instants
from chronolake_metastore.store.postgres import engine, schema, sessions, statements
from chronolake_metastore.store.postgres.advisory_locks import AdvisoryLock
from chronolake_metastore.store.postgres.connections import BoundedConnection
from chronolake_metastore.store.postgres.transaction import Statement, Transaction

_CONSTRAINTS: Final = statements.load("replay_tables/constraints")
_KEYS: Final = statements.load("replay_tables/keys")

_END_WHEN_IDLE: Final = (
    f"SET LOCAL idle_in_transaction_session_timeout = {sessions.IDLE_IN_TRANSACTION_TIMEOUT_MS}"
)
_NOT_REPAIRABLE: Final = """
    SELECT name
    FROM unnest(%(projections)s::text[]) AS name
    WHERE NOT (
        has_table_privilege(format('%%I.%%I', %(schema)s::text, name), 'INSERT')
        AND has_table_privilege(format('%%I.%%I', %(schema)s::text, name), 'DELETE')
    )
    ORDER BY name
"""

# Rows are compared as text: 1 and 1.0 are equal numbers in JSON, but the server reads only the first.
_DIFFERENCES: Final = sql.SQL(
    """
    SELECT {owner}, to_jsonb(expected)::text, to_jsonb(found)::text
    FROM pg_temp.{projection} AS expected
    FULL JOIN {schema}.{projection} AS found USING ({key})
    WHERE expected::text IS DISTINCT FROM found::text AND {wanted}
    ORDER BY {key}
    LIMIT %(limit)s
    """
)
_OF_TABLES: Final = sql.SQL(
    "(%(table_id)s::uuid IS NULL OR {owner} = %(table_id)s) AND {owner} <> ALL (%(left_out)s::uuid[])"
)
_OF_CATALOG: Final = sql.SQL("%(table_id)s::uuid IS NULL AND %(left_out)s::uuid[] IS NOT NULL")
_DELETE_WRONG: Final = sql.SQL(
    """
    WITH wrong AS (
        SELECT {key}
        FROM pg_temp.{projection} AS expected
        FULL JOIN {schema}.{projection} AS found USING ({key})
        WHERE expected::text IS DISTINCT FROM found::text
    ),
    deleted AS (
        DELETE FROM {schema}.{projection} WHERE ({key}) IN (SELECT {key} FROM wrong)
    )
    SELECT count(*) FROM wrong
    """
)
_INSERT_MISSING: Final = sql.SQL(
    """
    INSERT INTO {schema}.{projection}
    SELECT expected.*
    FROM pg_temp.{projection} AS expected
    WHERE NOT EXISTS (SELECT FROM {schema}.{projection} AS found WHERE ({found_key}) = ({expected_key}))
    """
)


_LOCK_ERAS: Final = "SELECT pg_advisory_lock_shared(%(lock)s)"
_LIKE_LOG: Final = sql.SQL("CREATE TEMPORARY TABLE {archived} (LIKE {schema}.{table} INCLUDING INDEXES)")
_WITH_ARCHIVED: Final = sql.SQL(
    """
    CREATE TEMPORARY VIEW {table} AS
    SELECT * FROM pg_temp.{archived} UNION ALL SELECT * FROM {schema}.{table} WHERE era > {last_era}
    """
)
# Rows that PostgreSQL keeps are in the archive too, and none is missing from the first version on.
_KEPT_DIFFERENCES: Final = sql.SQL(
    """
    WITH kept AS MATERIALIZED (
        SELECT {columns} FROM {schema}.{table} WHERE era <= {last_era}
    ),
    archived AS MATERIALIZED (
        SELECT {columns}
        FROM pg_temp.{archived} a
        WHERE EXISTS (SELECT FROM kept WHERE kept.table_id = a.table_id AND kept.version = a.version)
            OR a.version >= coalesce(
                (SELECT f.dropped_before FROM {schema}.first_event f WHERE f.table_id = a.table_id), 1
            )
    )
    SELECT DISTINCT table_id, version
    FROM (
        (SELECT * FROM kept EXCEPT SELECT * FROM archived)
        UNION ALL
        (
            SELECT a.*
            FROM archived a
            LEFT JOIN {schema}.first_event f ON f.table_id = a.table_id
            WHERE a.version >= coalesce(f.dropped_before, 1)
            EXCEPT
            SELECT * FROM kept
        )
    ) AS differing
    ORDER BY table_id, version
    LIMIT %(limit)s
    """
)
_COLUMNS: Final = """
    SELECT attname::text, atttypid = 'json'::regtype
    FROM pg_attribute
    WHERE attrelid = %(table)s::text::regclass AND attnum > 0 AND NOT attisdropped AND attname <> 'era'
    ORDER BY attnum
"""
LogRow = Mapping[str, object]
"""The values of a row of the log by its columns, without its era."""


class Unreplayable(Exception):
    """The log contradicts itself, so it cannot be replayed."""


class Difference(msgspec.Struct, frozen=True):
    """A row that a projection and its replay do not share: JSON of both, and none where there is no row."""

    projection: str
    table_id: UUID | None
    key: Sequence[str]
    expected: str | None
    found: str | None


class ReplaySession:
    """A session with a replay table for each projection; see ``opened``."""

    def __init__(self, connection: BoundedConnection, projections: Sequence[str]) -> None:
        self._connection = connection
        self._projections = list(projections)
        self._named = {"projections": self._projections}
        self._keys: dict[str, list[str]] = {}

    @asynccontextmanager
    async def replaying(self) -> AsyncIterator[Transaction]:
        """A transaction that writes into the replay tables only; raises ``Unreplayable``."""
        async with self._transaction("READ ONLY") as tx:
            yield tx

    @asynccontextmanager
    async def at_one_moment(self) -> AsyncIterator[Transaction]:
        """The same, where all statements see one moment of the database."""
        async with self._transaction("ISOLATION LEVEL REPEATABLE READ, READ ONLY") as tx:
            yield tx

    @asynccontextmanager
    async def while_commands_wait(self) -> AsyncIterator[Transaction]:
        """A transaction that may write into the projections, and keeps commands waiting until its end.

        Raises ``DatabaseUnavailable`` when the commands under way do not end within the lock timeout.
        """
        async with self._transaction("READ WRITE") as tx:
            # A process that froze must not hold the lock for as long as it may rest otherwise.
            await tx.query(_END_WHEN_IDLE, {})
            # A command asks for this lock in the weaker mode ROW SHARE before it reads anything but its
            # advisory locks and before it has a transaction id; a command that has one already goes ahead of
            # this lock request. So there is no deadlock. Readers do not wait at all.
            await tx.query("LOCK TABLE chronolake.clock IN EXCLUSIVE MODE", {})
            yield tx

    async def differences(
        self, tx: Transaction, table_id: UUID | None, left_out: Iterable[UUID], limit: int
    ) -> list[Difference]:
        """The first ``limit`` rows of each projection that a replay of the log does not give.

        Of one table if ``table_id`` is given; never of the tables ``left_out``.
        """
        await tx.batch([needed_files.prune_replay(), needed_instants.prune_replay()])
        parameters = {"table_id": table_id, "left_out": list(left_out), "limit": limit}
        differences = []
        for projection in self._projections:
            key = self._keys[projection]
            # A chain of answers has the id of its table.
            owner = next((sql.Identifier(column) for column in ("table_id", "chain_id") if column in key), None)
            statement = _DIFFERENCES.format(
                projection=sql.Identifier(projection),
                schema=sql.Identifier(schema.SCHEMA),
                key=_columns(key),
                owner=sql.SQL("NULL::uuid") if owner is None else owner,
                wanted=_OF_CATALOG if owner is None else _OF_TABLES.format(owner=owner),
            )
            rows = await tx.query(statement.as_string(), parameters)
            differences += [Difference(projection, row[0], key, row[1], row[2]) for row in rows]
        return differences

    async def add_archived(self, table: str, rows: Iterable[LogRow], last_era: int = 0) -> None:
        """Add rows of a table of the log that are in an archive: the session sees them in the table.

        They take the place of the rows that PostgreSQL has of the eras up to ``last_era``.
        """
        archived = f"archived_{table}"
        names = {
            "table": sql.Identifier(table),
            "archived": sql.Identifier(archived),
            "schema": sql.Identifier(schema.SCHEMA),
            "last_era": sql.Literal(last_era),
        }
        async with self._transaction("READ WRITE") as tx:
            await tx.query(_LIKE_LOG.format(**names).as_string(), {})
            await self._copy(archived, rows)
            await tx.query(f"ANALYZE pg_temp.{archived}", {})
            await tx.query(_WITH_ARCHIVED.format(**names).as_string(), {})

    async def _copy(self, archived: str, rows: Iterable[LogRow]) -> None:
        following = iter(rows)
        first = next(following, None)
        if first is None:
            return
        columns = list(first)
        statement = sql.SQL("COPY pg_temp.{} (era, {}) FROM STDIN").format(
            sql.Identifier(archived), _columns(columns)
        )
        async with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for row in chain([first], following):
                await copy.write_row((0, *(row[column] for column in columns)))

    async def kept_differences(
        self, tx: Transaction, table: str, last_era: int, limit: int
    ) -> list[tuple[UUID, int]]:
        """The first events before the border whose rows differ from those that ``add_archived`` added."""
        columns = await tx.query(_COLUMNS, {"table": f"{schema.SCHEMA}.{table}"})
        statement = _KEPT_DIFFERENCES.format(
            schema=sql.Identifier(schema.SCHEMA),
            table=sql.Identifier(table),
            archived=sql.Identifier(f"archived_{table}"),
            last_era=sql.Literal(last_era),
            columns=sql.SQL(", ").join(
                # Of json there is no equality, and its text is what the hash covers.
                sql.SQL("{0}::text AS {0}" if is_json else "{0}").format(sql.Identifier(name))
                for name, is_json in columns
            ),
        )
        return [
            (table_id, version) for table_id, version in await tx.query(statement.as_string(), {"limit": limit})
        ]

    async def refuse_to_repair_without_rights(self, tx: Transaction) -> None:
        """Raise ``ConfigurationError`` unless the session may do what ``repair`` does."""
        rows = await tx.query(_NOT_REPAIRABLE, {"schema": schema.SCHEMA, **self._named})
        if rows:
            names = ", ".join(name for (name,) in rows)
            raise errors.ConfigurationError(
                f"this login may not lock and replace all rows of {names}; rebuild with the login that "
                "migrates, which is the owner of the schema chronolake"
            )

    async def repair(self, tx: Transaction, *, with_instants: bool = False) -> dict[str, int]:
        """Make the projections equal to their replay tables; gives how many rows of each were wrong.

        Instants that have left stay away, unless it is ``with_instants``: then the database has all again.
        """
        await tx.batch(
            needed_instants.returned()
            if with_instants
            else [needed_files.prune_replay(), needed_instants.prune_replay()]
        )
        wrong = {}
        for projection in self._projections:
            key = self._keys[projection]
            names = {"projection": sql.Identifier(projection), "schema": sql.Identifier(schema.SCHEMA)}
            [[rows]] = await tx.query(_DELETE_WRONG.format(key=_columns(key), **names).as_string(), {})
            wrong[projection] = int(rows)
            if rows:
                found_key, expected_key = _columns(key, "found"), _columns(key, "expected")
                insert = _INSERT_MISSING.format(found_key=found_key, expected_key=expected_key, **names)
                await tx.query(insert.as_string(), {})
        return wrong

    async def analyze(self) -> None:
        """Take statistics of the replay tables; autovacuum does not do it for temporary tables."""
        async with self.replaying() as tx:
            await tx.batch([(f"ANALYZE pg_temp.{projection}", {}) for projection in self._projections])

    async def _make(self) -> None:
        async with self._connection.transaction():
            tx = Transaction(self._connection)
            # Until the session ends, no rows of the log leave.
            await tx.query(_LOCK_ERAS, {"lock": AdvisoryLock.ERAS.value})
            await tx.batch([_replay_table_of(projection) for projection in self._projections])
            renamed = await tx.query(_CONSTRAINTS, self._named)
            await tx.batch([_rename(*names) for names in renamed])
            self._keys = dict(await tx.query(_KEYS, self._named))
            # From now on a statement that misses its replay table fails. It can never write into the
            # projection itself, not even if the replay tables are gone.
            await tx.query("SET default_transaction_read_only = on", {})
            await tx.query("SET statement_timeout = 0", {})

    @asynccontextmanager
    async def _transaction(self, mode: str) -> AsyncIterator[Transaction]:
        try:
            with engine.database_errors():
                async with self._connection.transaction():
                    tx = Transaction(self._connection)
                    await tx.query(f"SET TRANSACTION {mode}", {})
                    yield tx
        except postgres_errors.IntegrityError as exc:
            raise Unreplayable(f"{exc.diag.message_primary} ({exc.diag.message_detail})") from exc


@asynccontextmanager
async def opened(database: engine.Database, projections: Sequence[str]) -> AsyncIterator[ReplaySession]:
    """A session of its own, with an empty replay table for each of the ``projections``.

    Raises ``DatabaseUnavailable``, and ``ConfigurationError`` where temporary tables cannot be made.
    """
    with engine.database_errors():
        connection = await database.connect_for_whole_log()
    try:
        session = ReplaySession(connection, projections)
        with engine.database_errors():
            try:
                await session._make()
            except (postgres_errors.InsufficientPrivilege, postgres_errors.ReadOnlySqlTransaction) as exc:
                message = exc.diag.message_primary or ""
                if "for table" in message:  # The role may not read the log: the caller says so.
                    raise
                raise errors.ConfigurationError(
                    "the log is replayed into temporary tables, and these cannot be created: "
                    f"{message}; use the primary, and GRANT TEMPORARY ON DATABASE to the role"
                ) from exc
        yield session
    finally:
        await connection.close()


def _replay_table_of(projection: str) -> Statement:
    statement = sql.SQL("CREATE TEMPORARY TABLE {0} (LIKE {1}.{0} INCLUDING INDEXES)")
    names = sql.Identifier(projection), sql.Identifier(schema.SCHEMA)
    return statement.format(*names).as_string(), {}


def _rename(projection: str, ours: str, theirs: str) -> Statement:
    statement = sql.SQL("ALTER TABLE pg_temp.{} RENAME CONSTRAINT {} TO {}")
    return statement.format(*map(sql.Identifier, (projection, ours, theirs))).as_string(), {}


def _columns(names: Sequence[str], of: str | None = None) -> sql.Composed:
    prefix = () if of is None else (of,)
    return sql.SQL(", ").join(sql.Identifier(*prefix, name) for name in names)
