"""Names and properties of tables, changed through the clients and the command line."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import chronolake
from chronolake import errors
from chronolake.cli import output
from chronolake_model.schemas import AddColumn
from tests.client.conftest import SCHEMA, Cli
from tests.client.stored import Stored, base, in_storage, written
from tests.client.test_actions import log_of
from tests.client.test_writes import publish, stat_of


def test_a_table_goes_by_its_new_definition_at_once(
    client: chronolake.Client, table: chronolake.Table, tmp_path: Path
) -> None:
    other, name = client.table(table.name), f"{table.name}_2"

    altered = table.alter(name=name, set={"storage.region": "mars", "owner": "ann"})

    assert altered is table
    assert (table.name, table.definition.properties["owner"]) == (name, "ann")
    assert table.storage_options == {"region": "mars"}
    with table.begin() as write:
        assert write.table == name
    with other.begin() as write:
        assert write.table == name
    table.alter(name=other.name, unset=["storage.region"])
    assert other.reload().definition == table.definition


def test_a_write_follows_its_table_to_its_new_name(
    client: chronolake.Client, table: chronolake.Table, tmp_path: Path
) -> None:
    name, elsewhere = table.name, tmp_path.with_name(f"{tmp_path.name}_other")
    with table.begin() as write:
        client.table(name).alter(name=f"{name}_moved")
        client.table(f"{name}_moved").alter(name=f"{name}_old")
        client.create_table(name, base_path=elsewhere.as_uri(), schema=SCHEMA, record_key_fields=["id"])
        assert write.mark(base(write, 0, "")) == ["created"]
        assert write.heartbeat().table == f"{name}_old"

    assert (write.instant.state, write.table) == (chronolake.State.COMPLETED, f"{name}_old")
    assert client.table(name).timeline.first() is None


def test_writes_that_complete_together_follow_their_tables_to_their_new_names(
    client: chronolake.Client, table: chronolake.Table, clicks: chronolake.Table
) -> None:
    orders_name, clicks_name = table.name, clicks.name
    with table.begin() as order, clicks.begin() as click:
        order.add(stat_of(order, 1))
        click.add(log_of(click, 1))
        client.table(orders_name).alter(name=f"{orders_name}_old")
        client.table(clicks_name).alter(name=orders_name)

        done = client.complete_together([order, click])

    assert [instant.table for instant in done] == [f"{orders_name}_old", orders_name]
    assert [table.reload().name, clicks.reload().name] == [f"{orders_name}_old", orders_name]
    assert [list(table.instants()), list(clicks.instants())] == [[done[0]], [done[1]]]


def test_writes_of_a_table_that_was_dropped_do_not_complete_together(
    client: chronolake.Client, table: chronolake.Table, clicks: chronolake.Table
) -> None:
    order, click = table.begin(), clicks.begin()
    client.table(table.name).alter(name=f"{table.name}_old")
    client.drop_table(f"{table.name}_old")

    with pytest.raises(errors.TableNotFound):
        client.complete_together([order, click])

    assert click.refresh().state is chronolake.State.INFLIGHT


def test_a_table_that_was_opened_before_a_swap_of_names_stays_itself(
    client: chronolake.Client, table: chronolake.Table, clicks: chronolake.Table
) -> None:
    name = table.name
    publish(table, 1)
    stale, files = client.table(name), table.snapshot().slices
    table.alter(name=f"{name}_old")
    clicks.alter(name=name)
    log = list(client.events(table=name))

    assert stale.begin().table == f"{name}_old"
    assert [write.table for write in stale.begin_many(2)] == [f"{name}_old"] * 2
    stale.change_schema([AddColumn("note", "string")])
    assert stale.alter(set={"owner": "ann"}).name == f"{name}_old"

    stale = client.table_of(msgspec.structs.replace(table.definition, name=name))
    assert stale.snapshot().slices == files
    assert stale.snapshot_arrow().num_rows == len(files)
    assert sum(batch.num_rows for batch in stale.snapshot_batches()) == len(files)
    assert stale.reload().name == f"{name}_old"
    assert list(client.events(table=name)) == log
    client.drop_table(f"{name}_old")
    with pytest.raises(errors.TableNotFound, match="that table was dropped"):
        stale.begin()


@pytest.mark.anyio
async def test_a_rollback_under_the_name_before_deletes_the_files(server_url: str, stored: Stored) -> None:
    write = stored.table.begin()
    written(stored, write, 0, 0)
    async with chronolake.connect_async(server_url, storage_options=stored.table.storage_options) as client:
        pending = await (await client.table(stored.table.name)).write(write.requested_time)
        await (await client.table(stored.table.name)).alter(name=f"{stored.table.name}_2")

        await pending.rollback()

    assert in_storage(stored) == set()


def test_tables_are_changed_at_the_command_line(cli: Cli, table: chronolake.Table) -> None:
    name = f"{table.name}_2"

    assert cli("tables", "set", table.name, "owner=ann", "note=a=b", "--json").json["properties"] == {
        "owner": "ann",
        "note": "a=b",
    }
    assert cli("tables", "unset", table.name, "note", "team", "--json").json["properties"] == {"owner": "ann"}
    renamed = cli("tables", "rename", table.name, name)
    assert (renamed.code, name in renamed.out) == (0, True)
    assert cli("tables", "set", name, "owner").code == output.USAGE
    assert cli("tables", "rename", name, "nowhere").code == output.USAGE
    refused = cli("tables", "rename", table.name, name)
    assert refused.code == output.NOT_FOUND
    assert refused.err.endswith(f"Commands: chronolake tables show {name}\n")


def test_one_name_to_unset_must_be_in_a_list(table: chronolake.Table) -> None:
    with pytest.raises(TypeError, match=r"unset=\['hudi.publish'\]"):
        table.alter(unset="hudi.publish")
