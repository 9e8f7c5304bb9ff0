"""Lists show a caller exactly the tables and namespaces that its roles let it read, whatever the pages."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from chronolake_metastore.domain.context import Context
from chronolake_metastore.domain.readable import readable_by
from chronolake_metastore.domain.rights import HeldRole, Rights
from chronolake_metastore.queries import cuts, health, namespaces, services, tables
from chronolake_metastore.settings import Settings
from chronolake_metastore.store.catalog import range_parameters
from chronolake_metastore.store.postgres import statements
from chronolake_metastore.store.postgres.engine import Database
from chronolake_model.names import split_table_name
from chronolake_model.roles import Role, scope_of
from tests.store.history import History

NAMESPACES: Final = ["sho", "shop", "shop-1", "shop2", "shop_a", "team"]
LIVE: Final = [
    *(f"shop.{name}" for name in ("orders", "orders2", "rawXa", "raw", "raw-b", "raw_", "raw_a", "raw_b")),
    *(f"{name}.orders" for name in NAMESPACES if name not in ("shop", "team")),
    "shop2.raw_a",
]
DROPPED: Final = ["shop.gone", "shop.raw_gone", "shop2.gone"]
PATTERNS: Final = [
    *("*", "s*", "shop", "shop*", "shop.*", "shop.raw*", "shop.raw_*", "shop.raw_a*", "shop_*", "shop2"),
    *("team", "team.x*", "nowhere", "shop-*"),
]


class Log:
    """A database with these tables, and what a reader of everything sees there."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        with History(dsn) as history:
            for name in NAMESPACES:
                history.make_namespace(name)
            for name in [*LIVE, *DROPPED]:
                history.make_table(name)
                history.write(name, 0)
            for name in DROPPED:
                history.drop_table(name)
        with psycopg.connect(dsn) as connection:
            rows = connection.execute("SELECT namespace || '.' || name, table_id FROM chronolake.lake_table")
            self.ids: dict[str, UUID] = dict(rows.fetchall())
        self.runner = asyncio.Runner()
        self.database = Database(Settings(dsn=dsn))

    def close(self) -> None:
        self.runner.run(self.database.close())
        self.runner.close()

    def read(self, rights: Rights, query: Callable[..., Awaitable[Any]], *args: object) -> Any:
        ctx = Context("ann", "request-1", rights=rights)
        return self.runner.run(_await(query(ctx, self.database, *args)))

    def all(
        self, rights: Rights, limit: int, field: str, query: Callable[..., Awaitable[Any]], *args: object
    ) -> list[Any]:
        """The entries of all pages, of which only the last may have fewer than ``limit``."""
        entries: list[Any] = []
        cursor = None
        while True:
            page = self.read(rights, query, *args, limit, cursor)
            of_page = getattr(page, field)
            entries += of_page
            cursor = page.next_cursor
            if cursor is None:
                return entries
            assert len(of_page) == limit


async def _await(awaited: Awaitable[Any]) -> Any:
    return await awaited


@pytest.fixture(scope="module")
def log(shared_dsn: str) -> Iterator[Log]:
    log = Log(shared_dsn)
    yield log
    log.close()


roles = st.lists(st.one_of(st.sampled_from(PATTERNS), st.sampled_from(LIVE)), max_size=4)


def rights_of(log: Log, patterns: Sequence[str]) -> Rights:
    scopes = [scope_of(pattern) for pattern in patterns]
    return Rights(
        [
            HeldRole(Role.READER, None, scope.text, log.ids[scope.text])
            if scope.is_table
            else HeldRole(Role.READER, scope.text)
            for scope in scopes
        ]
    )


def may_read(patterns: Sequence[str], name: str) -> bool:
    """The oracle: a pattern as documented, by a regular expression."""
    for pattern in patterns:
        whole = pattern if "." in pattern or pattern.endswith("*") else f"{pattern}.*"
        if re.fullmatch(re.escape(whole).replace(r"\*", ".*"), name):
            return True
    return False


def sees(patterns: Sequence[str], namespace: str) -> bool:
    """The oracle: whether some table, which is there or not, could be read in a namespace."""
    return any(
        may_read([pattern], f"{namespace}.{pattern.partition('.')[2].rstrip('*') or 'x'}")
        for pattern in patterns
    )


SAME_DATABASE: Final = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@SAME_DATABASE
@given(patterns=roles, limit=st.integers(1, 7), of=st.sampled_from(NAMESPACES))
def test_each_list_is_what_the_roles_let_a_caller_read(
    log: Log, patterns: list[str], limit: int, of: str
) -> None:
    rights = rights_of(log, patterns)
    readable = sorted((name for name in LIVE if may_read(patterns, name)), key=split_table_name)

    listed = {
        "tables": [table.name for table in log.all(rights, limit, "tables", tables.page, None)],
        "health": [table.table for table in log.all(rights, limit, "tables", _health)],
        "services": [status.table for status in log.all(rights, limit, "tables", services.page)],
    }
    of_namespace = [table.name for table in log.all(rights, limit, "tables", tables.page, of)]
    named = [namespace.name for namespace in log.all(rights, limit, "namespaces", namespaces.page)]
    dropped = {table.name for table in log.all(rights, limit, "tables", tables.page_of_dropped)}
    states = {state.table for state in log.all(rights, limit, "tables", cuts.page, None, None)}

    assert listed == dict.fromkeys(listed, readable)
    assert of_namespace == [name for name in readable if name.startswith(f"{of}.")]
    assert named == [name for name in NAMESPACES if sees(patterns, name)]
    assert dropped == {name for name in DROPPED if may_read(patterns, name)}
    assert states == set(readable)


async def _health(ctx: Context, database: Database, limit: int, cursor: str | None) -> Any:
    return await health.page(ctx, database, limit, cursor, None)


@pytest.mark.parametrize("name", ["tables/readable", "tables/readable_by_id", "tables/readable_dropped"])
@pytest.mark.parametrize("has_statistics", [False, True])
def test_tables_that_a_caller_may_not_read_are_not_read_for_it(
    dsn: str, name: str, has_statistics: bool
) -> None:
    own = UUID(int=7)
    readable = readable_by(
        Rights([HeldRole(Role.READER, None, "other.t7", own), HeldRole(Role.READER, "mine.")])
    )
    assert readable is not None
    place = {"after": UUID(int=0), "after_namespace": "", "after_name": "", "limit": 51}
    with psycopg.connect(dsn) as connection:
        connection.execute("SET search_path = chronolake")
        connection.execute(
            "INSERT INTO lake_table (table_id, namespace, name, definition, created_at, dropped_at) "
            "SELECT lpad(to_hex(n), 32, '0')::uuid, CASE WHEN n <= 3 THEN 'mine' ELSE 'other' END, 't' || n, "
            "'{}', now(), CASE WHEN n % 2 = 0 THEN now() END FROM generate_series(1, 20000) n"
        )
        if has_statistics:
            connection.execute("ANALYZE lake_table")
        rows = connection.execute(
            b"EXPLAIN (ANALYZE, COSTS off, TIMING off, FORMAT json) " + statements.load(name).encode(),
            range_parameters(readable.ranges()) | place,
        ).fetchone()
    assert rows is not None

    assert max(_rows_read(rows[0][0]["Plan"])) <= 4


def _rows_read(plan: dict[str, Any]) -> Iterator[int]:
    """The rows that each step of a plan has read of tables."""
    if plan.get("Relation Name") == "lake_table" or "Index Name" in plan:
        removed = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
        yield (plan["Actual Rows"] + removed) * plan["Actual Loops"]
    for step in plan.get("Plans", ()):
        yield from _rows_read(step)
