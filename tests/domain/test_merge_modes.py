"""Merge modes: what the server accepts, and what Hudi's readers are told."""

from __future__ import annotations

from uuid import UUID

import pytest

from chronolake_hudi import properties as hudi, publishable
from chronolake_metastore import errors
from chronolake_metastore.domain import publication_steps, tables
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.events import TableCreated
from chronolake_metastore.domain.locations import AllowedLocations
from chronolake_metastore.domain.tables import Table
from chronolake_model.merge_modes import MERGE_MODE_PROPERTY, MergeMode
from chronolake_model.tables import NewField
from chronolake_model.times import Micros
from chronolake_model.vocabulary import TableType

ANYWHERE = AllowedLocations("shop", None)


def request(
    mode: str | None, ordering_field: str | None, type_: TableType = TableType.COPY_ON_WRITE
) -> NewDefinition:
    return NewDefinition(
        name="shop.orders",
        base_path="/lake",
        schema=[NewField("id", "int"), NewField("ts", "string")],
        record_key_fields=["id"],
        ordering_field=ordering_field,
        type=type_,
        properties={} if mode is None else {MERGE_MODE_PROPERTY: mode},
    )


def table_of(mode: str | None, ordering_field: str | None, type_: TableType = TableType.COPY_ON_WRITE) -> Table:
    return tables.evolve_created(
        TableCreated(definition=request(mode, ordering_field, type_)), UUID(int=7), Micros(0)
    )


@pytest.mark.parametrize(
    ("mode", "ordering_field", "published", "fields"),
    [
        (None, None, hudi.HudiMergeMode.COMMIT_TIME, ()),
        (None, "ts", hudi.HudiMergeMode.EVENT_TIME, ("ts",)),
        (MergeMode.EVENT_TIME, "ts", hudi.HudiMergeMode.EVENT_TIME, ("ts",)),
        (MergeMode.COMMIT_TIME, "ts", hudi.HudiMergeMode.COMMIT_TIME, ()),
        (MergeMode.PARTIAL_UPDATE, None, hudi.HudiMergeMode.COMMIT_TIME, ()),
        (MergeMode.PARTIAL_UPDATE, "ts", hudi.HudiMergeMode.EVENT_TIME, ("ts",)),
    ],
)
def test_hudis_readers_merge_by_the_ordering_field_only_where_it_decides(
    mode: str | None, ordering_field: str | None, published: hudi.HudiMergeMode, fields: tuple[str, ...]
) -> None:
    config = publication_steps.config_of("7", table_of(mode, ordering_field).definition)
    assert (config.merge_mode, config.ordering_fields) == (published, fields)


def test_an_ordering_field_that_does_not_decide_is_no_obstacle_to_publish_log_files() -> None:
    by_event, by_commit = (
        table_of(mode, "ts", TableType.MERGE_ON_READ) for mode in (None, MergeMode.COMMIT_TIME)
    )
    assert "is a string" in str(publishable.log_obstacle(by_event.definition))
    assert publishable.log_obstacle(by_commit.definition) is None


def test_event_time_needs_an_ordering_field_and_no_mode_changes() -> None:
    with pytest.raises(errors.InvalidTable, match="has no ordering field to compare"):
        tables.create(None, None, tables.CreateTable(request(MergeMode.EVENT_TIME, None)), ANYWHERE)
    with pytest.raises(errors.InvalidTable, match="event-time or commit-time or partial-update"):
        tables.create(None, None, tables.CreateTable(request("custom", "ts")), ANYWHERE)
    table = table_of(MergeMode.COMMIT_TIME, "ts")
    for change in (
        tables.AlterTable("shop.orders", set={MERGE_MODE_PROPERTY: "event-time"}),
        tables.AlterTable("shop.orders", unset=[MERGE_MODE_PROPERTY]),
    ):
        with pytest.raises(errors.InvalidTable, match="cannot change"):
            tables.alter(table, change, ())
