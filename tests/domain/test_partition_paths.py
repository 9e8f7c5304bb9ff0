from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from chronolake_metastore import errors
from chronolake_metastore.domain import files, partition_values, publication_steps, published_partitions, tables
from chronolake_metastore.domain.definitions import NewDefinition
from chronolake_metastore.domain.events import TableCreated
from chronolake_metastore.domain.literals import LiteralKind
from chronolake_metastore.domain.tables import Table
from chronolake_model.adoption import ADOPTED_PROPERTY
from chronolake_model.partition_paths import HIVE_STYLE_PROPERTY, URL_ENCODE_PROPERTY, Spelling, partition_path
from chronolake_model.tables import CreateTable, NewField
from chronolake_model.times import Micros
from chronolake_model.vocabulary import TableType

MOMENT = datetime(2026, 1, 1, 0, 0, 7, 120_000, tzinfo=UTC)
PLAIN = Spelling(hive_style=False, url_encode=False)
SPELLINGS = [Spelling(), Spelling(hive_style=False), Spelling(url_encode=False), PLAIN]


def table_of(spelling: Spelling) -> Table:
    """A table with the partition fields day and a=b."""
    definition = NewDefinition(
        name="shop.orders",
        base_path="/lake",
        schema=[NewField("id", "int"), NewField("day", "string"), NewField("a=b", "string")],
        record_key_fields=["id"],
        partition_fields=["day", "a=b"],
        properties=spelling.properties,
    )
    return tables.evolve_created(TableCreated(definition=definition), UUID(int=7), Micros(0))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_paths_of_a_spelling_are_the_tables_and_the_other_style_is_not(spelling: Spelling) -> None:
    table, fields = table_of(spelling), ["day", "a=b"]
    assert Spelling.of(table.definition.properties) == spelling
    for other in SPELLINGS:
        for texts in (["2026-01-01", "x"], [None, ""], ["name:x", "b"]):
            path = partition_path(fields, texts, other)
            if other.hive_style is spelling.hive_style:
                files.check_partition_path(table, path)
                continue
            with pytest.raises(ValueError, match="of the partition path"):
                files.check_partition_path(table, path)


@pytest.mark.parametrize("path", ["", "day=1", "2026", "day=1/a=b=2/c=3", "1/2/3"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_path_has_one_part_for_each_field(spelling: Spelling, path: str) -> None:
    with pytest.raises(ValueError, match="one part for each"):
        files.check_partition_path(table_of(spelling), path)


@pytest.mark.parametrize(
    ("spelling", "text"),
    [
        *((PLAIN, text) for text in ("a/b", "50%", "a=b", "\\", ".", "..", ".hoodie", "a\nb")),
        *((Spelling(url_encode=False), text) for text in ("a/b", "50%", "\\", "\x7f")),
        *((Spelling(hive_style=False), text) for text in (".", "..", ".hoodie")),
        *((spelling, "__HIVE_DEFAULT_PARTITION__") for spelling in SPELLINGS),
    ],
)
def test_a_value_that_a_path_cannot_have_is_refused(spelling: Spelling, text: str) -> None:
    with pytest.raises(ValueError, match="change those values"):
        partition_path(["day"], [text], spelling)


@pytest.mark.parametrize(
    ("spelling", "folder", "values"),
    [
        (PLAIN, "2026-01-01", ("2026-01-01",)),
        (PLAIN, "a:b", ("a:b",)),
        (PLAIN, "a%3Ab", None),
        (PLAIN, "__HIVE_DEFAULT_PARTITION__", (None, "", "__HIVE_DEFAULT_PARTITION__")),
        (Spelling(hive_style=False), "a%3Ab", ("a:b",)),
        (Spelling(url_encode=False), "day=a:b", ("a:b",)),
        (Spelling(url_encode=False), "day=a%3Ab", None),
        (Spelling(), "2026-01-01", None),
    ],
)
def test_a_folder_says_the_value_of_its_spelling_or_nothing(
    spelling: Spelling, folder: str, values: partition_values.Candidates | None
) -> None:
    assert partition_values.candidates(folder, "day", LiteralKind.STRING, spelling) == values


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_hudi_gets_the_spelling_in_the_published_properties(spelling: Spelling) -> None:
    config = publication_steps.config_of("7", table_of(spelling).definition)
    assert Spelling(config.hive_style_partitioning, config.url_encode_partitioning) == spelling


@pytest.mark.parametrize("name", [HIVE_STYLE_PROPERTY, URL_ENCODE_PROPERTY])
def test_the_spelling_cannot_change(name: str) -> None:
    table = table_of(PLAIN)
    for change in (
        tables.AlterTable("shop.orders", set={name: "true"}),
        tables.AlterTable("shop.orders", unset=[name]),
    ):
        with pytest.raises(errors.InvalidTable, match="cannot change"):
            tables.alter(table, change, ())


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("2026-01-01T00%3A00%3A07.12Z", (MOMENT,)),
        ("2026-01-01T02%3A00%3A07.12+02%3A00", (MOMENT,)),
        ("1767225607120000", (MOMENT,)),
        ("__HIVE_DEFAULT_PARTITION__", (None,)),
        ("2026-01-01 00%3A00%3A07", None),
        ("+12345-01-01T00%3A00%3A00Z", None),
        ("99999999999999999999", None),
    ],
    ids=["ours", "with an offset", "Hudi's microseconds", "null", "no zone", "beyond Python", "beyond 64 bits"],
)
def test_the_folder_of_a_timestamp_says_its_instant_or_nothing(
    text: str, values: partition_values.Candidates | None
) -> None:
    assert partition_values.candidates(f"at={text}", "at", LiteralKind.TIMESTAMP) == values


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
