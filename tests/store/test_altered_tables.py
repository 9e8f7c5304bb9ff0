"""Names that tables give up and take, without a server: in one group, on replay, and for auditors."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from psycopg.rows import dict_row

from chronolake_metastore import errors
from chronolake_metastore.commands.group import Result
from chronolake_metastore.commands.handler import Answer
from chronolake_metastore.domain import tables
from chronolake_metastore.domain.commands import Command
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.instants import BeginInstant
from chronolake_metastore.domain.proof import Check
from chronolake_metastore.proof import rebuilding, verification
from chronolake_metastore.settings import Settings
from chronolake_model import tables as wire_tables
from chronolake_model.times import Micros, format_time
from tests.examples import examples
from tests.store.history import History, completion
from tests.store.tampering import tamper

NAMES = ("shop.a", "shop.b", "shop.c")
NUMBERS = itertools.count()
"""Each table has a folder of its own."""


def rename(name: str, new_name: str) -> tables.AlterTable:
    return tables.AlterTable(name, new_name)


def begin(name: str) -> BeginInstant:
    return BeginInstant(name, "w")


def outcome(result: Result) -> str:
    return "done" if isinstance(result, Answer) else type(result).__name__


@pytest.fixture
def lake(dsn: str) -> Iterator[History]:
    """A lake whose wall clock stands still, so that its tables issue the same times."""
    with History(dsn) as lake:
        lake.make_namespace("shop")
        yield lake


def test_commands_of_the_group_of_a_rename_are_decided_in_their_order(lake: History) -> None:
    lake.make_table("shop.a")

    results = lake.send(
        begin("shop.a"),
        rename("shop.a", "shop.b"),
        begin("shop.a"),
        begin("shop.b"),
        rename("shop.b", "shop.a"),
        begin("shop.b"),
        begin("shop.a"),
    )

    assert [outcome(result) for result in results] == [
        *("done", "done", "TableNotFound", "done"),
        *("done", "TableNotFound", "done"),
    ]
    refusals = [result for result in results if isinstance(result, errors.TableNotFound)]
    assert [refusal.context["renamed_to"] for refusal in refusals] == ["shop.b", "shop.a"]


def test_tables_that_swap_their_names_are_replayed(lake: History) -> None:
    for name in NAMES[:2]:
        lake.make_table(name)
        lake.write(name, 0)
    swap = [("shop.a", "shop.c"), ("shop.b", "shop.a"), ("shop.c", "shop.b")]
    results = lake.send(*(rename(*names) for names in swap))
    lake.drop_table("shop.a")
    results += lake.send(rename("shop.b", "shop.a"))
    lake.pass_seconds(1)

    report = asyncio.run(verification.verify(Settings(dsn=lake.dsn)))
    rebuilt = asyncio.run(rebuilding.rebuild(Settings(dsn=lake.dsn)))

    assert [outcome(result) for result in results] == ["done"] * 4
    assert report.findings == []
    assert set(rebuilt.repaired.values()) <= {0}


SWAP_IN_PROJECTION = [
    f"UPDATE lake_table SET name = '{new}' WHERE name = '{old}'" for old, new in ("ax", "ca", "xc")
]
SWAP_IN_DEFINITIONS = """
    UPDATE lake_table SET definition = jsonb_set(definition, '{name}', to_jsonb(namespace || '.' || name))
"""


@pytest.mark.parametrize("changes", [SWAP_IN_PROJECTION, [*SWAP_IN_PROJECTION, SWAP_IN_DEFINITIONS]])
def test_names_that_were_swapped_in_the_projection_are_detected_and_repaired(
    lake: History, changes: list[str]
) -> None:
    for name in NAMES[:2]:
        lake.make_table(name)
        lake.write(name, 0)
    lake.done(rename("shop.b", "shop.c"))
    holders = Metastore(lake.dsn).holders
    tamper(lake.dsn, *changes)
    swapped = Metastore(lake.dsn).holders

    findings = asyncio.run(verification.verify(Settings(dsn=lake.dsn))).findings
    rebuilt = asyncio.run(rebuilding.rebuild(Settings(dsn=lake.dsn)))

    assert swapped == {"shop.a": holders["shop.c"], "shop.c": holders["shop.a"]}
    assert [(finding.check, finding.table) for finding in findings] == [
        (Check.PROJECTION, "shop.a"),
        (Check.PROJECTION, "shop.c"),
    ]
    assert {projection: rows for projection, rows in rebuilt.repaired.items() if rows} == {"lake_table": 2}
    assert Metastore(lake.dsn).holders == holders
    assert asyncio.run(verification.verify(Settings(dsn=lake.dsn))).findings == []
    [answer] = lake.send(begin("shop.c"))
    assert isinstance(answer, Answer) and answer.result.log_id == holders["shop.c"]


def test_auditors_see_each_name_and_property_that_a_table_had(lake: History) -> None:
    lake.make_table("shop.a")
    lake.done(tables.AlterTable("shop.a", "shop.b", set={"owner": "ann"}), actor="bob")
    lake.done(tables.AlterTable("shop.b", unset=["owner"]))
    lake.drop_table("shop.b")

    with psycopg.connect(lake.dsn, row_factory=dict_row) as connection:
        connection.execute("SET ROLE chronolake_auditor")
        rows = connection.execute(
            "SELECT type, table_name, renamed_from, properties_set, properties_unset, actor,"
            " changed_again_at IS NULL AS is_last FROM chronolake.audit_tables ORDER BY version"
        ).fetchall()

    assert [tuple(row.values()) for row in rows] == [
        ("TableCreated", "shop.a", None, {}, None, "ann", False),
        ("TableAltered", "shop.b", "shop.a", {"owner": "ann"}, [], "bob", False),
        ("TableAltered", "shop.b", None, {}, ["owner"], "ann", False),
        ("TableDropped", "shop.b", None, None, None, "ann", True),
    ]


ACTS = st.lists(
    st.tuples(
        st.sampled_from(
            ("begin all", "begin", "begin", "complete", "rename", "rename", "rename", "create", "drop")
        ),
        st.integers(0, 2),
        st.integers(0, 2),
    ),
    min_size=4,
    max_size=14,
)
Handle = tuple[str, int, UUID]
"""The name by which a writer knows a table, the requested time of its instant, and the table."""


class Metastore:
    """The stored state: which table has a name, and which instants are pending."""

    def __init__(self, dsn: str) -> None:
        with psycopg.connect(dsn) as connection:
            connection.execute("SET search_path TO chronolake")
            self.holders: dict[str, UUID] = dict(
                connection.execute(
                    "SELECT namespace || '.' || name, table_id FROM lake_table WHERE dropped_at IS NULL"
                ).fetchall()
            )
            rows = connection.execute(
                "SELECT table_id, micros(requested_time), state IN ('requested', 'inflight') FROM instant"
            ).fetchall()
        self.pending = {(table_id, time): is_pending for table_id, time, is_pending in rows}

    def handles(self) -> set[Handle]:
        """The instants of all present writers."""
        names = {table_id: name for name, table_id in self.holders.items()}
        return {
            (names[table_id], time, table_id)
            for (table_id, time), is_pending in self.pending.items()
            if is_pending and table_id in names
        }

    def confuses(self, handle: Handle) -> bool:
        """Whether a writer meets an instant of another table that it could mistake for its own."""
        name, time, table_id = handle
        holder = self.holders.get(name, table_id)
        is_pending = self.pending.get((holder, time))
        return holder != table_id and is_pending is not None and (is_pending or self.pending[table_id, time])


def commands_of(stored: Metastore, verb: str, first: int, second: int) -> list[Command]:
    """The commands of an act on one of the tables, or with one of the free names."""
    live = sorted(stored.holders)
    free = [name for name in NAMES if name not in live]
    match verb:
        case "begin":
            return [begin(name) for name in (live if second == 0 else live[first : first + 1])]
        case "complete" if handles := sorted(stored.handles()):
            name, time, _ = handles[first % len(handles)]
            return [completion(name, format_time(Micros(time)), [])]
        case "rename" if live and free:
            return [rename(live[first % len(live)], free[second % len(free)])]
        case "create" if free:
            return [create(free[second % len(free)])]
        case "drop" if live:
            return [tables.DropTable(live[first % len(live)])]
        case _:
            return []


def create(name: str) -> tables.CreateTable:
    fields = [wire_tables.NewField("id", "int")]
    return tables.CreateTable(NewDefinition(name, f"/lake/{next(NUMBERS)}", fields, ["id"]))


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acts=ACTS)
def test_no_writer_meets_an_instant_of_another_table_that_it_could_take_for_its_own(
    lake: History, acts: list[tuple[str, int, int]]
) -> None:
    # Two new tables, whose clocks begin at one time, and a name that is free.
    lake.pass_seconds(3_600)
    lake.send(*map(tables.DropTable, NAMES), *map(create, NAMES[:2]))
    handles: set[Handle] = set()
    for act in acts:
        lake.send(*commands_of(Metastore(lake.dsn), *act))
        stored = Metastore(lake.dsn)
        handles |= stored.handles()
        assert [handle for handle in handles if stored.confuses(handle)] == []
