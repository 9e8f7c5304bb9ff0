"""How long partition paths may be, without Spark."""

from __future__ import annotations

import msgspec
import pytest

from chronolake.writing import partition_lengths
from chronolake_model.file_names import PATH_BYTES_MAX, base_file_name, log_file_name, write_token
from chronolake_model.markers import TYPE_PROPERTY, MarkersType
from chronolake_spark import errors
from tests.spark.definitions import definition

FILE_ID = "f" * 36 + "-0"
TOKEN = write_token(999_999, 999_999, 999_999_999)
TIME = "9" * 20


@pytest.mark.parametrize(
    ("base_path", "own_bytes"),
    [("/lake", 0), ("s3://lake", 1), ("s3://lake/ä/t", 5), ("hdfs://host/lake", 0), ("relative", 0)],
)
def test_a_partition_path_leaves_room_for_the_base_path_and_each_name(base_path: str, own_bytes: int) -> None:
    bytes_max = partition_lengths.path_bytes_max(definition({"id": "int"}, base_path=base_path))

    names = (base_file_name(FILE_ID, TOKEN, TIME), log_file_name(FILE_ID, TOKEN, TIME))
    assert own_bytes + bytes_max + 1 + max(map(len, names)) == PATH_BYTES_MAX


def test_markers_in_storage_leave_less_room() -> None:
    table = definition({"id": "int"}, base_path="s3://lake/t")
    direct = msgspec.structs.replace(table, properties={TYPE_PROPERTY: MarkersType.DIRECT})

    marker = f".hoodie/.temp/{TIME}/.marker.CREATE"
    lost = partition_lengths.path_bytes_max(table) - partition_lengths.path_bytes_max(direct)
    assert lost == len(marker)


def test_the_part_or_the_path_that_is_too_long_is_named() -> None:
    names = ["a", "b"]
    partition_lengths.check(names, [f"a={'x' * 253}/b=1"], 300)
    with pytest.raises(errors.InvalidPartitionValue, match=r"'b'.* 256 bytes"):
        partition_lengths.check(names, ["a=1/b=1", f"a=1/b={'ü' * 127}"], 300)
    with pytest.raises(errors.InvalidPartitionValue, match=r"\(a, b\).* 305 bytes.* 300"):
        partition_lengths.check(names, [f"a={'x' * 149}/b={'y' * 151}"], 300)
