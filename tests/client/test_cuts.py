"""Cuts as readers take them: for the time of each table, in other processes, and on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

import chronolake
from tests.client.conftest import SCHEMA, Cli
from tests.client.test_writes import publish


@pytest.fixture
def tables(client: chronolake.Client, namespace: str, tmp_path: Path) -> list[chronolake.Table]:
    return [
        client.create_table(
            f"{namespace}.{name}",
            base_path=(tmp_path / name).as_uri(),
            schema=SCHEMA,
            record_key_fields=["id"],
        )
        for name in ("orders", "items", "empty")
    ]


def test_readers_of_all_kinds_read_as_of_a_cut(
    client: chronolake.Client, namespace: str, tables: list[chronolake.Table]
) -> None:
    orders, items, empty = tables
    assert repr(orders) == f"<Table {namespace}.orders (id bigint, name string), key ['id']>"
    publish(orders, 0)
    publish(items, 0)
    cut = client.cut(namespace)
    for table in tables:
        publish(table, 1)

    for table in (orders, items):
        assert len(table.snapshot(cut).slices) == 1
        assert table.snapshot_arrow(cut).num_rows == 1
        assert table.changes(cut).from_ == cut.as_of(table.definition) == cut.as_of(table)
        assert cut.table(table) == cut.table(table.name)
        assert len(table.changes(to=cut).instants) == len(table.changes(cut).instants) == 1
        with table.reading(cut) as reading:
            assert reading.as_of == cut.as_of(table.name)
    assert empty.snapshot(cut).slices == []
    assert {event.table for event in client.events(cut.position)} >= {table.name for table in tables}
    assert client.cut(tables=[empty.name]).tables[0].table_id == empty.definition.table_id


def test_a_cut_knows_tables_by_their_ids(client: chronolake.Client, tables: list[chronolake.Table]) -> None:
    orders, items, empty = tables
    publish(orders, 0)
    cut = client.cut(tables=[orders.name, items.name])
    as_of = cut.as_of(orders.name)
    orders.alter(name=f"{orders.name}_old")
    items.alter(name=orders.name.removesuffix("_old"))

    assert client.table(orders.name).snapshot(cut).as_of == as_of
    assert client.table(items.name).snapshot(cut).slices == []
    with pytest.raises(ValueError, match=r"does not have the table .*\.empty"):
        empty.snapshot(cut)


def test_a_cut_is_handed_on_as_text(
    client: chronolake.Client, cli: Cli, namespace: str, tables: list[chronolake.Table]
) -> None:
    orders, *_ = tables
    publish(orders, 0)
    text = cli("cut", namespace, "--json").out
    publish(orders, 1)

    assert len(orders.snapshot(text).slices) == 1
    assert len(cli("snapshot", orders.name, "--as-of", text, "--json").json["slices"]) == 1
    assert "at the cut" in cli("snapshot", tables[2].name, "--as-of", text).out
    assert orders.name in cli("cut", namespace).out
    assert cli("cut", "--table", orders.name, "--json").json["tables"][0]["table"] == orders.name


@pytest.mark.parametrize("args", [("a.b",), ("shop", "--table", "shop.orders"), ("--table", "orders")])
def test_wrong_command_lines_are_refused(cli: Cli, args: tuple[str, ...]) -> None:
    assert cli("cut", *args).code == 2


def test_a_text_that_is_no_cut_is_refused(cli: Cli, tables: list[chronolake.Table]) -> None:
    with pytest.raises(ValueError, match="not the JSON of a cut"):
        tables[0].snapshot('{"position": 1}')
    assert cli("snapshot", tables[0].name, "--as-of", "{}").code == 2
