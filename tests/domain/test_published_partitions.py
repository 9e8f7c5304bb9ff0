"""The paths of adopted tables are Hudi's own, except where Hudi itself would fail."""

from __future__ import annotations

import pytest

from chronolake_metastore.domain import published_partitions
from chronolake_model.adoption import ADOPTED_PROPERTY
from chronolake_model.tables import CreateTable, NewField
from chronolake_model.vocabulary import TableType


@pytest.mark.parametrize(
    ("path", "is_published"),
    [
        ("p=c:d/q=1", False),
        ("p=:/q=1", False),
        ("p=1/q=c:d", True),
        ("p=c%3Ad/q=one", True),
        ("p=/q=1", False),
        ("p=a=/q=1", True),
    ],
)
def test_a_path_of_an_adopted_table_pauses_only_where_hudi_fails(path: str, is_published: bool) -> None:
    table = CreateTable(
        name="shop.orders",
        base_path="/lake/orders",
        type=TableType.COPY_ON_WRITE,
        schema=[NewField("id", "bigint"), NewField("p", "string"), NewField("q", "int")],
        record_key_fields=["id"],
        partition_fields=["p", "q"],
        properties={ADOPTED_PROPERTY: "hoodie.table.name=orders"},
    )
    assert (published_partitions.obstacle(table, path) is None) is is_published
