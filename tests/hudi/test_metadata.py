from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings, strategies as st

from chronolake_hudi import avro_files, metadata, metadata_schemas
from chronolake_hudi.errors import DamagedFile
from chronolake_hudi.metadata import (
    CleanMetadata,
    CommitMetadata,
    CompactionPlan,
    HudiWriteStat,
    Metadata,
    ReplaceCommitMetadata,
    RestoreMetadata,
    RollbackMetadata,
    SavepointMetadata,
)
from chronolake_hudi.timeline_files import Layout
from chronolake_model.vocabulary import Operation
from tests.examples import examples
from tests.hudi import stored_tables

TYPES: tuple[type[Metadata], ...] = (
    CommitMetadata,
    ReplaceCommitMetadata,
    CleanMetadata,
    CompactionPlan,
    SavepointMetadata,
    RollbackMetadata,
    RestoreMetadata,
)
# Text without halves of surrogate pairs, which UTF-8 has not.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ints = st.integers(-(2**31), 2**31 - 1)


def values_of(kind: msgspec.inspect.Type) -> st.SearchStrategy[Any]:
    """Values of the type of a field."""
    values: st.SearchStrategy[Any]
    match kind:
        case msgspec.inspect.StructType(cls=cls, fields=fields):
            values = st.builds(cls, **{field.name: values_of(field.type) for field in fields})
        case msgspec.inspect.DictType(value_type=value_type):
            values = st.dictionaries(texts, values_of(value_type), max_size=2)
        case msgspec.inspect.ListType(item_type=item_type):
            values = st.lists(values_of(item_type), max_size=2)
        case msgspec.inspect.UnionType(types=types):
            values = st.one_of(*map(values_of, types))
        case msgspec.inspect.NoneType():
            values = st.none()
        case msgspec.inspect.BoolType():
            values = st.booleans()
        case _:
            values = ints if isinstance(kind, msgspec.inspect.IntType) else texts
    return values


any_metadata = st.one_of(*(values_of(msgspec.inspect.type_info(metadata_type)) for metadata_type in TYPES))

COMMIT = CommitMetadata(
    {"day=1": [HudiWriteStat("f", "day=1/f_0-0-0_1.parquet", "day=1", 10, num_writes=1, num_inserts=1)]},
    extra_metadata={"schema": "{}"},
    operation_type=metadata.operation_type(Operation.INSERT_OVERWRITE),
)


@given(any_metadata, st.sampled_from(["null", "deflate"]))
def test_metadata_come_back_from_their_file(value: Metadata, codec: avro_files.Codec) -> None:
    content = metadata.encode(value, codec)

    assert metadata.decode(content, type(value), "p") == value


def reversed_maps(value: Any) -> Any:
    """The same value with its maps in the other order."""
    match value:
        case dict():
            return {key: reversed_maps(item) for key, item in reversed(value.items())}
        case list():
            return [reversed_maps(item) for item in value]
        case _:
            return value


@given(any_metadata)
def test_the_same_metadata_make_the_same_bytes(value: Metadata) -> None:
    same = msgspec.convert(reversed_maps(msgspec.to_builtins(value)), type(value))

    assert metadata.encode(same) == metadata.encode(value)


@settings(max_examples=20)
@given(any_metadata, st.sampled_from(["null", "deflate"]))
def test_a_file_that_is_cut_off_anywhere_is_damage(value: Metadata, codec: avro_files.Codec) -> None:
    content = metadata.encode(value, codec)

    for length in range(0, len(content), 7):
        with pytest.raises(DamagedFile, match=r"^p: .*; restore the file"):
            metadata.decode(content[:length], type(value), "p")
    with pytest.raises(DamagedFile):
        metadata.decode(content[:-1], type(value), "p")
    with pytest.raises(DamagedFile):
        metadata.decode(content + b"\0", type(value), "p")


@settings(max_examples=examples(300))
@given(st.data(), any_metadata, st.sampled_from(["null", "deflate"]))
def test_changed_bytes_are_damage_or_another_value(
    data: st.DataObject, value: Metadata, codec: avro_files.Codec
) -> None:
    content = bytearray(metadata.encode(value, codec))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))

    try:
        decoded = metadata.decode(bytes(content), type(value), "p")
    except DamagedFile:
        return
    assert isinstance(decoded, type(value))


@given(st.binary(max_size=200))
@example(b'{"partitionToWriteStats":{"\xa7":[]}}')
def test_any_other_bytes_are_damage(content: bytes) -> None:
    with pytest.raises(DamagedFile):
        metadata.decode(content, CommitMetadata, "p")
    with pytest.raises(DamagedFile):
        metadata.decode(content, CommitMetadata, "p", Layout.ONE)


def test_a_file_of_another_type_is_damage() -> None:
    contents = {metadata_type: metadata.encode(example) for metadata_type, example in EXAMPLES.items()}

    for metadata_type in TYPES:
        for other_type, content in contents.items():
            if other_type is not metadata_type and not issubclass(other_type, metadata_type):
                with pytest.raises(DamagedFile, match=f"does not hold {metadata_type.__name__}"):
                    metadata.decode(content, metadata_type, "p")


EXAMPLES: dict[type[Metadata], Metadata] = {
    CommitMetadata: COMMIT,
    ReplaceCommitMetadata: ReplaceCommitMetadata(partition_to_replace_file_ids={"": ["f"]}),
    CleanMetadata: CleanMetadata("1", "1"),
    CompactionPlan: CompactionPlan(),
    SavepointMetadata: SavepointMetadata(),
    RollbackMetadata: RollbackMetadata("1"),
    RestoreMetadata: RestoreMetadata("1"),
}


def test_a_file_with_two_records_is_damage() -> None:
    schema = metadata_schemas.record("R", a="int")
    content = avro_files.encode({"a": 1}, schema)
    block_and_marker = content[content.index(avro_files.SYNC_MARKER) + 16 :]

    with pytest.raises(DamagedFile, match="has 2 values, not a single record"):
        avro_files.decode(content + block_and_marker, "p")


@pytest.mark.parametrize("table", ["cow8", "cow6"])
@settings(max_examples=examples(200))
@given(st.data())
def test_changed_bytes_of_hudis_commits_are_damage_or_another_value(table: str, data: st.DataObject) -> None:
    content = bytearray(stored_tables.content(table, "*.commit"))
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))

    try:
        commit = metadata.decode(bytes(content), CommitMetadata, "p", stored_tables.layout_of(table))
    except DamagedFile:
        return
    assert isinstance(commit, CommitMetadata)


@pytest.mark.parametrize("table", ["cow8", "cow6"])
def test_hudis_commits_are_read(table: str) -> None:
    layout = stored_tables.layout_of(table)
    commit = metadata.decode(stored_tables.content(table, "*.commit"), CommitMetadata, "p", layout)

    assert sorted(commit.partition_to_write_stats) == ["day=a", "day=b"]
    [stat] = commit.partition_to_write_stats["day=a"]
    assert stat.path == f"day=a/{stat.file_id}" + stat.path.removeprefix(f"day=a/{stat.file_id}")
    assert (stat.num_writes, stat.num_inserts, stat.prev_commit) == (1, 1, "null")
    assert stat.file_size_in_bytes == stat.total_write_bytes > 0
    assert commit.operation_type == "UPSERT"
    assert '"name":"id"' in commit.extra_metadata[metadata.SCHEMA_KEY]


@pytest.mark.parametrize("table", ["comp8", "comp6"])
def test_hudis_delta_commits_and_plans_are_read(table: str) -> None:
    layout = stored_tables.layout_of(table)
    delta = metadata.decode(stored_tables.content(table, "*.deltacommit"), CommitMetadata, "p", layout)
    plan = metadata.decode(stored_tables.content(table, "*.compaction.requested"), CompactionPlan, "p", layout)

    [stat] = delta.partition_to_write_stats[""]
    assert stat.log_files is not None
    assert stat.path in stat.log_files
    [operation] = plan.operations
    assert (operation.file_id, plan.version) == (stat.file_id, 2)
    assert stat.path in operation.delta_file_paths
    assert operation.data_file_path is not None
    assert operation.data_file_path.startswith(f"{operation.file_id}_")


@pytest.mark.parametrize("table", ["cow8", "cow6", "clust8", "clust6"])
def test_hudis_replace_commits_are_read(table: str) -> None:
    layout = stored_tables.layout_of(table)
    replace = metadata.decode(
        stored_tables.content(table, "*.replacecommit"), ReplaceCommitMetadata, "p", layout
    )

    expected = {"clu": ("CLUSTER", 2), "cow": ("INSERT_OVERWRITE", 0)}[table[:3]]
    replaced = sum(len(file_ids) for file_ids in replace.partition_to_replace_file_ids.values())
    assert (replace.operation_type, replaced) == expected


@pytest.mark.parametrize("table", ["cow8", "cow6"])
def test_hudis_cleans_savepoints_and_restores_are_read(table: str) -> None:
    layout = stored_tables.layout_of(table)
    clean = metadata.decode(stored_tables.content(table, "*.clean"), CleanMetadata, "p", layout)
    savepoint = metadata.decode(stored_tables.content(table, "*.savepoint"), SavepointMetadata, "p", layout)
    restore = metadata.decode(stored_tables.content(table, "*.restore"), RestoreMetadata, "p", layout)

    deleted = sum(len(partition.success_delete_files) for partition in clean.partition_metadata.values())
    assert (deleted, clean.total_files_deleted, clean.version) == (3, 3, 2)
    assert len(clean.earliest_commit_to_retain) == 17
    assert sorted(savepoint.partition_metadata) == ["day=a", "day=b", "day=c"]
    assert [info.commit_time for info in restore.restore_instant_info] == restore.instants_to_rollback
    assert sorted(restore.hoodie_restore_metadata) == sorted(restore.instants_to_rollback)


@pytest.mark.parametrize("table", ["plain8", "plain6"])
def test_hudis_rollbacks_are_read(table: str) -> None:
    layout = stored_tables.layout_of(table)
    rollback = metadata.decode(stored_tables.content(table, "*.rollback"), RollbackMetadata, "p", layout)

    assert [info.commit_time for info in rollback.instants_rollback] == rollback.commits_rollback
    assert rollback.instants_rollback[0].action == "commit"
