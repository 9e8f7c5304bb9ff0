"""Publication waits at the first file that Hudi's readers would read wrongly: by its log, or its partition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import chronolake
from chronolake import errors
from chronolake_model.file_names import base_file_name, bucket_file_id
from chronolake_model.files import FileGroupName
from chronolake_model.publication import PublicationState
from chronolake_model.tables import Field
from chronolake_model.vocabulary import Action, Operation, TableType
from tests.published import FIELDS, PublishedTable, Row

STRINGS = [*FIELDS[:2], Field("name", "string", nullable=False)]
NUMBERS = [*FIELDS[:2], Field("name", "bigint")]
ORDERED: dict[str, tuple[list[Field], str, Any]] = {
    "a string": (STRINGS, "lose updates", "z"),
    "nullable": (NUMBERS, "nullable", 3),
}


def new_table(
    client: chronolake.Client, folder: Path, fields: list[Field], **properties: str
) -> PublishedTable:
    """A merge-on-read table that is ordered by the name."""
    return PublishedTable(
        client,
        folder,
        type=TableType.MERGE_ON_READ,
        schema=fields,
        ordering_field="name",
        properties={name.replace("_", ".", 1).replace("_", "-"): text for name, text in properties.items()},
    )


def named(key: int, name: Any) -> Row:
    return {"id": key, "day": "a", "name": name}


@pytest.mark.parametrize("case", ORDERED)
def test_a_merge_on_read_table_is_published_while_it_has_no_logs_that_hudi_merges_wrongly(
    client: chronolake.Client, tmp_path: Path, case: str
) -> None:
    fields, reason, value = ORDERED[case]
    table = new_table(client, tmp_path / "lake", fields)
    table.write(named(1, value))
    table.publish()
    table.append(named(2, value))

    with pytest.raises(errors.NotPublished, match=reason):
        table.publish()
    assert table.table.publication().state is PublicationState.PAUSED
    assert table.hudi_rows() == [named(1, value)]
    with pytest.raises(errors.NotPublished, match=reason):
        table.publish()

    plan = table.table.plan(Action.COMPACTION, [FileGroupName("day=a", bucket_file_id(0))])
    with table.table.execute(plan.requested_time) as write:
        for stat in table.files(write.requested_time, [named(1, value), named(2, value)]):
            write.add(stat)
    table.publish()
    assert table.hudi_rows() == [named(1, value), named(2, value)]


@pytest.mark.parametrize("case", ORDERED)
def test_such_a_table_is_refused_if_it_is_to_be_published(
    client: chronolake.Client, tmp_path: Path, case: str
) -> None:
    fields, reason, _ = ORDERED[case]
    with pytest.raises(errors.InvalidTable, match=reason) as refused:
        new_table(client, tmp_path / "lake", fields, hudi_publish="true")
    # A new table has none.
    assert "it has log files" not in str(refused.value)


def test_logs_that_a_string_orders_are_published_if_the_table_says_that_they_are_avro(
    client: chronolake.Client, tmp_path: Path
) -> None:
    table = new_table(client, tmp_path / "lake", STRINGS, hudi_publish="true", hudi_log_blocks="avro")
    table.write(named(1, "b"), named(2, "b"))
    table.append(named(1, "a"), named(2, "c"), avro=True)

    table.publish()

    assert table.hudi_rows() == [named(1, "b"), named(2, "c")]
    with pytest.raises(errors.InvalidTable, match="lose updates"):
        table.table.alter(unset=["hudi.log-blocks"])


PATHS: dict[str, tuple[Field, str]] = {
    "microseconds": (Field("at", "timestamp"), "at=1767225607000000"),
    "no zone": (Field("at", "timestamp"), "at=2026-01-01 00%3A00%3A07"),
    "no number": (Field("at", "int"), "at=one"),
    "null in a column without nulls": (Field("at", "string", nullable=False), "at=__HIVE_DEFAULT_PARTITION__"),
    "a colon, at which Hadoop looks for a scheme": (Field("at", "string"), "at=c:d"),
    "an empty value": (Field("at", "string"), "at="),
    "a brace that Hudi does not escape": (Field("at", "string"), "at=%7D"),
}
READABLE: dict[str, tuple[Field, str]] = {
    "an instant": (Field("at", "timestamp"), "at=2026-01-01T00%3A00%3A07.12Z"),
    "a far instant": (Field("at", "timestamp"), "at=+12345-01-01T00%3A00%3A00Z"),
    "a null instant": (Field("at", "timestamp"), "at=__HIVE_DEFAULT_PARTITION__"),
    "a far date": (Field("at", "date"), "at=-0044-03-15"),
    "a decimal": (Field("at", "decimal(38,10)"), "at=-9999999999999999999999999999.9999999999"),
    "a brace": (Field("at", "string"), "at=}%7B"),
    "a null": (Field("at", "string"), "at=__HIVE_DEFAULT_PARTITION__"),
}


def commit(table: PublishedTable, partition_path: str, **begin: Any) -> None:
    """Complete an instant with a file in a partition."""
    with table.table.begin(**begin) as write:
        name = base_file_name(bucket_file_id(0), "0-0-0", write.requested_time)
        write.add(
            chronolake.WriteStat(
                partition_path=partition_path,
                file_id=bucket_file_id(0),
                file_name=name,
                size_bytes=1,
                records=1,
                inserts=1,
            )
        )


def partitioned(client: chronolake.Client, folder: Path, field: Field) -> PublishedTable:
    return PublishedTable(client, folder, schema=[FIELDS[0], field], partition_fields=["at"])


@pytest.mark.parametrize("case", PATHS)
def test_a_partition_path_that_hudi_reads_as_another_value_pauses_until_its_files_are_gone(
    client: chronolake.Client, tmp_path: Path, case: str
) -> None:
    field, path = PATHS[case]
    table = partitioned(client, tmp_path / "lake", field)
    table.publish()
    commit(table, path)

    with pytest.raises(errors.NotPublished, match="partition path"):
        table.publish()
    with pytest.raises(errors.NotPublished, match="partition path"):
        table.publish()
    with table.table.begin(action=Action.REPLACECOMMIT, operation=Operation.DELETE_PARTITION) as delete:
        delete.replace(FileGroupName(path, bucket_file_id(0)))
    table.publish()


@pytest.mark.parametrize("case", READABLE)
def test_a_partition_path_that_hudi_reads_rightly_is_published(
    client: chronolake.Client, tmp_path: Path, case: str
) -> None:
    field, path = READABLE[case]
    table = partitioned(client, tmp_path / "lake", field)
    commit(table, path)
    assert table.publish().lag_versions == 0
