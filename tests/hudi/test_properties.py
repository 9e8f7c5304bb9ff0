from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from chronolake_hudi import java_properties, partition_metadata, properties
from chronolake_hudi.errors import DamagedFile, UnsupportedFormat
from chronolake_hudi.partition_metadata import PartitionMetadata
from chronolake_hudi.properties import HudiMergeMode, TableConfig, TableVersion
from chronolake_model.vocabulary import TableType
from tests.hudi import stored_tables

names = st.text("abcdefgh_", min_size=1, max_size=5)
configs = st.builds(
    TableConfig,
    name=st.text("azAZ_\u00e9:= #\\\t\U0001f600", min_size=1),
    type=st.sampled_from(TableType),
    version=st.sampled_from([TableVersion.EIGHT, TableVersion.NINE]),
    record_key_fields=st.lists(names, max_size=2).map(tuple),
    partition_fields=st.lists(names, max_size=2).map(tuple),
    ordering_fields=st.lists(names, max_size=2).map(tuple),
    merge_mode=st.none() | st.just(HudiMergeMode.CUSTOM),
    timezone=st.sampled_from(["UTC", "LOCAL"]),
    hive_style_partitioning=st.booleans(),
    url_encode_partitioning=st.booleans(),
    drop_partition_columns=st.booleans(),
    meta_fields=st.booleans(),
    key_generator_class=st.none() | st.just(properties.GUARD_CLASS),
    others=st.dictionaries(st.text("ab.:= !\\", min_size=1), st.text(st.characters(exclude_categories=["Cs"]))),
)


@given(configs)
def test_a_table_config_comes_back_from_its_text(config: TableConfig) -> None:
    assert properties.decode(properties.encode(config)) == config


@given(st.dictionaries(st.text(), st.text()))
def test_properties_of_any_text_come_back(stated: dict[str, str]) -> None:
    whole = {
        key: value
        for key, value in stated.items()
        if not any("\ud800" <= letter <= "\udfff" for letter in key + value)
    }

    assert java_properties.decode(java_properties.encode(whole, "comment"), "p") == whole


def test_javas_properties_are_read_with_comments_escapes_and_continued_lines() -> None:
    text = (
        b"# comment\r\n! comment\n\n  a = 1\nb:2\nc 3\nd=x\\\n   y\n"
        b"e=\\u00e9\xe9\\t\\:\\\\\nf\\ g=\\\n# no comment\nh"
    )

    assert java_properties.decode(text, "p") == {
        "a": "1",
        "b": "2",
        "c": "3",
        "d": "xy",
        "e": "éé\t:\\",
        "f g": "# no comment",
        "h": "",
    }


@pytest.mark.parametrize("text", [b"a=\\u00", b"a=\\u00zz", b"a=\\u"])
def test_an_escape_that_is_cut_off_is_damage(text: bytes) -> None:
    with pytest.raises(DamagedFile, match=r"p: the escape .* is cut off; restore"):
        java_properties.decode(text, "p")


def test_version_8_has_the_names_that_hudi_1_0_reads() -> None:
    config = TableConfig(
        name="orders",
        type=TableType.MERGE_ON_READ,
        record_key_fields=("id",),
        ordering_fields=("ts",),
        merge_mode=HudiMergeMode.COMMIT_TIME,
        key_generator_class=properties.GUARD_CLASS,
    )

    stated = java_properties.decode(properties.encode(config), "p")

    assert stated["hoodie.table.type"] == "MERGE_ON_READ"
    assert stated["hoodie.table.precombine.field"] == "ts"
    assert stated["hoodie.timeline.layout.version"] == "2"
    assert stated["hoodie.table.partition.fields"] == ""
    assert stated["hoodie.compaction.payload.class"].endswith(".OverwriteWithLatestAvroPayload")
    assert config.is_guarded
    assert "hoodie.table.checksum" not in stated
    assert "hoodie.table.ordering.fields" not in stated


@pytest.mark.parametrize("version", [TableVersion.EIGHT, TableVersion.NINE])
def test_several_ordering_fields_have_one_name_in_all_versions(version: TableVersion) -> None:
    config = TableConfig(
        name="orders",
        type=TableType.MERGE_ON_READ,
        version=version,
        ordering_fields=("ts", "seq"),
        merge_mode=HudiMergeMode.EVENT_TIME,
    )

    stated = java_properties.decode(properties.encode(config), "p")

    assert stated["hoodie.table.ordering.fields"] == "ts,seq"
    assert ("hoodie.compaction.payload.class" in stated) == (version is TableVersion.EIGHT)


@pytest.mark.parametrize(
    "config",
    [
        TableConfig(name="t", type=TableType.COPY_ON_WRITE, version=TableVersion.SIX),
        TableConfig(name="t", type=TableType.COPY_ON_WRITE, version=TableVersion.THREE),
    ],
)
def test_a_config_that_its_version_cannot_state_is_refused(config: TableConfig) -> None:
    with pytest.raises(UnsupportedFormat, match=r"use version 9|write version 8 or 9"):
        properties.encode(config)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "hoodie.table.version is missing"),
        (b"hoodie.table.version=8", "hoodie.table.name is missing"),
        (b"hoodie.table.version=8\nhoodie.table.name=t", "hoodie.table.type is missing"),
        (b"hoodie.table.version=8\nhoodie.table.name=t\nhoodie.table.type=COW", "no type of a table"),
    ],
)
def test_missing_required_properties_are_damage(text: bytes, problem: str) -> None:
    with pytest.raises(DamagedFile, match=problem):
        properties.decode(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"hoodie.table.version=2", "version '2'; versions 3, 4, 5, 6, 8, 9 are read; upgrade"),
        (b"hoodie.table.version=x", "version 'x'"),
        (b"hoodie.table.version=8\nhoodie.timeline.layout.version=1", "has timeline layout 2, not '1'"),
        (
            b"hoodie.table.version=8\nhoodie.table.name=t\nhoodie.table.type=COPY_ON_WRITE\n"
            b"hoodie.record.merge.mode=X",
            "merge.mode is 'X'",
        ),
    ],
)
def test_tables_of_other_versions_are_refused(text: bytes, problem: str) -> None:
    with pytest.raises(UnsupportedFormat, match=problem):
        properties.decode(text)


@pytest.mark.parametrize(
    ("table", "version", "merge_mode"),
    [("cow8", TableVersion.EIGHT, HudiMergeMode.EVENT_TIME), ("cow6", TableVersion.SIX, None)],
)
def test_hudis_own_properties_are_read(
    table: str, version: TableVersion, merge_mode: HudiMergeMode | None
) -> None:
    config = properties.decode(stored_tables.content(table, "hoodie.properties"))

    assert (config.name, config.version, config.merge_mode) == (table, version, merge_mode)
    assert (config.record_key_fields, config.partition_fields) == (("id",), ("day",))
    assert (config.ordering_fields, config.timezone, config.is_guarded) == (("ts",), "UTC", False)
    assert config.others["hoodie.table.keygenerator.type"] == "SIMPLE"
    assert "hoodie.table.checksum" not in config.others


@pytest.mark.parametrize(("partition_path", "depth"), [("", 0), ("day=1", 1), ("a=1/b=2/c=3", 3)])
def test_the_metadata_of_a_partition_come_back(partition_path: str, depth: int) -> None:
    metadata = PartitionMetadata("20260101000000000", partition_metadata.depth_of(partition_path))

    content = partition_metadata.encode(metadata)

    assert content == f"#partition metadata\ncommitTime=20260101000000000\npartitionDepth={depth}\n".encode()
    assert partition_metadata.decode(content, "p") == metadata


@pytest.mark.parametrize(
    "content", [b"", b"commitTime=2026", b"partitionDepth=1", b"commitTime=1\npartitionDepth=x"]
)
def test_partition_metadata_that_are_cut_off_are_damage(content: bytes) -> None:
    with pytest.raises(DamagedFile, match="p: it names no commitTime, or no partitionDepth"):
        partition_metadata.decode(content, "p")
