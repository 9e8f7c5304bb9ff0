from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from chronolake_model.file_names import (
    LOG_VERSION_MAX,
    FileKind,
    base_file_name,
    bucket_file_id,
    bucket_of,
    parse_file_name,
    write_token,
)

NUMBERS = st.integers(0, 10**6)


@given(st.integers(0, 10**8 - 1), NUMBERS, NUMBERS, NUMBERS)
def test_the_name_of_a_base_file_gives_back_its_parts(
    bucket: int, partition: int, stage: int, attempt: int
) -> None:
    token = write_token(partition, stage, attempt)
    name = parse_file_name(base_file_name(bucket_file_id(bucket), token, "20260203040506789"))
    assert name.kind is FileKind.BASE
    assert (bucket_of(name.file_id), name.write_token, name.requested_time) == (
        bucket,
        token,
        "20260203040506789",
    )


def test_a_log_files_name_is_read() -> None:
    name = parse_file_name(f".{bucket_file_id(7)}_20260203040506789.log.3_1-2-0")
    assert (name.kind, name.requested_time, bucket_of(name.file_id)) == (FileKind.LOG, "20260203040506789", 7)


def test_the_version_of_a_log_file_has_32_bits() -> None:
    name = parse_file_name(f".{bucket_file_id(7)}_20260203040506789.log.{LOG_VERSION_MAX}_1-2-0")
    assert name.kind is FileKind.LOG


@pytest.mark.parametrize(
    "name",
    [
        "",
        "part-00000.parquet",
        "00000001_1-2_20260203040506789.parquet",
        "00000001_1-2-3_2026020304050678.parquet",
        "../00000001_1-2-3_20260203040506789.parquet",
        "00000001_1-2-3_20260203040506789.parquet.tmp",
        "00000001_1-2-3_20260203040506789.parquet\n",
        ".00000001_20260203040506789.log._1-2-3",
        ".00000001_20260203040506789.log.2147483648_1-2-3",
        ".00000001_20260203040506789.log.99999999999_1-2-3",
    ],
)
def test_an_invalid_data_file_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is neither"):
        parse_file_name(name)
