"""Bloom filters and key ranges in the footers of base files, compared with those of Hudi's own code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from chronolake.indexes import bloom_filters, stored_keys
from chronolake.indexes.bloom_filters import UnknownFilter
from chronolake.indexes.stored_keys import KeyCollector
from chronolake.slices import columns
from tests.examples import examples
from tests.hudi import stored_tables

KEYS = pa.array(
    [
        *("1", "22", "a-longer-key", "id:7,day:2026-01-31", "Zürich", "日本", "😀 beyond"),
        "0123456789abcdef0123456789abcdef",
        *(f"key-{number}" for number in range(40)),
    ]
)
# What BloomFilterFactory of Hudi 1.2.0 makes of these keys, for 20 entries at a rate of 0.001. The dynamic
# filter has three rows of 20 entries at most.
SIMPLE = b"/////wAAAAoBAAABIP//7vXX/fv////v/yq/1+fb+/J5zv3/7X/9b6vP//33+3nb/w=="
DYNAMIC = (
    b"/////wAAAAoBAAABIAAAABQAAAAIAAAAA/////8AAAAKAQAAASD1eKb0lijZe9MdbdIqo5NGy9FSOcykz0wx7E6iwllYt6gZms//////"
    b"AAAACgEAAAEgGsrkwVH1ebUmlOevIh7EI9Mh4hCGwTElPa0vo8evrXH6aUl0/////wAAAAoBAAABIBAFCEQBATrQCG8FAgIKFKAACoBA"
    b"wpgEgENRBIgMENQFeRAAXQ=="
)
TABLES = Path(__file__).parents[1] / "hudi" / "tables"


def footer(filter_: bytes, type_: str = "") -> dict[bytes, bytes]:
    return {bloom_filters.FILTER: filter_} | ({bloom_filters.TYPE: type_.encode()} if type_ else {})


def footer_of(*keys: str) -> Mapping[bytes, bytes]:
    collector = KeyCollector(len(keys))
    half = len(keys) // 2
    tables = [
        pa.table({columns.RECORD_KEY: pa.array(part, pa.string())}) for part in (keys[:half], keys[half:])
    ]
    list(collector.watch(tables))
    return collector.metadata()


def text_of(keys: pa.Array, entries: int, **how: float) -> bytes:
    writer = bloom_filters.Writer(entries, **how)
    writer.add(keys)
    return writer.text()


def may_have(metadata: Mapping[bytes, bytes], keys: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    filter_ = bloom_filters.read(metadata)
    assert filter_ is not None
    return filter_.may_have(keys)


@pytest.mark.parametrize("portion_bytes", [1, 100, 2**20])
def test_filters_are_the_same_as_hudis_bit_for_bit(monkeypatch: pytest.MonkeyPatch, portion_bytes: int) -> None:
    monkeypatch.setattr(bloom_filters, "_PORTION_BYTES", portion_bytes)
    assert text_of(KEYS, 20, rate=0.001) == SIMPLE
    for metadata in (footer(SIMPLE), footer(SIMPLE, "SIMPLE"), footer(DYNAMIC, "DYNAMIC_V0")):
        assert may_have(metadata, KEYS).all()
    others = pa.array([f"other-{number}" for number in range(1_000)])
    assert 0 < may_have(footer(DYNAMIC, "DYNAMIC_V0"), others).sum() < 1_000


@pytest.mark.parametrize("table", ["cow6", "cow8", "mor9"])
def test_the_footers_of_tables_that_hudi_wrote_admit_their_keys(table: str, tmp_path: Path) -> None:
    stored_tables.unpack(TABLES / f"{table}.tar.gz", tmp_path)
    with_filters = 0
    for path in tmp_path.rglob("*.parquet"):
        with pq.ParquetFile(path) as file:
            if columns.RECORD_KEY not in file.schema_arrow.names:
                continue
            metadata, keys = file.metadata.metadata, file.read([columns.RECORD_KEY])[0].combine_chunks()
        assert stored_keys.possible(metadata, keys) == keys
        with_filters += bloom_filters.FILTER in metadata
    assert with_filters


def test_a_footer_refuses_keys_that_the_file_does_not_have() -> None:
    metadata = footer_of(*(f"{number:04}" for number in range(0, 2_000, 2)))
    assert (metadata[stored_keys.LEAST], metadata[stored_keys.GREATEST]) == (b"0000", b"1998")
    even = pa.array([f"{number:04}" for number in range(0, 2_000, 2)])
    odd = pa.array([f"{number:04}" for number in range(1, 2_000, 2)])
    assert stored_keys.possible(metadata, even) == even
    assert len(stored_keys.possible(metadata, odd)) <= 1
    without_filter = {name: metadata[name] for name in (stored_keys.LEAST, stored_keys.GREATEST)}
    assert stored_keys.possible(without_filter, pa.array(["", "0001", "2", "!"])).to_pylist() == ["0001"]


@pytest.mark.parametrize("metadata", [None, {}, footer_of(), {stored_keys.LEAST: b"a"}])
def test_a_file_without_filter_and_range_may_have_any_key(metadata: Mapping[bytes, bytes] | None) -> None:
    assert stored_keys.possible(metadata, KEYS) == KEYS


@pytest.mark.parametrize(
    "metadata",
    [
        footer(b"not base64!"),
        footer(SIMPLE[:40]),
        footer(SIMPLE, "DYNAMIC_V0"),
        footer(DYNAMIC, "SIMPLE"),
        footer(SIMPLE, "SOMETHING_NEW"),
        footer(b""),
    ],
)
def test_a_file_with_an_unknown_filter_may_have_any_key(metadata: Mapping[bytes, bytes]) -> None:
    with pytest.raises(UnknownFilter):
        bloom_filters.read(metadata)
    assert stored_keys.possible(metadata, KEYS) == KEYS


# U+FFFD is behind U+1F600 in Java's order, and before it in that of UTF-8.
@given(st.sets(st.text(st.sampled_from("ab\ufffd\U0001f600é"), max_size=4), min_size=1, max_size=8))
@settings(max_examples=examples(200), deadline=None)
def test_no_key_of_a_file_is_ever_ruled_out(texts: set[str]) -> None:
    metadata = footer_of(*texts)
    assert stored_keys.possible(metadata, pa.array(sorted(texts))).to_pylist() == sorted(texts)
    in_java = sorted(texts, key=lambda text: text.encode("utf-16-be"))
    assert (metadata[stored_keys.LEAST].decode(), metadata[stored_keys.GREATEST].decode()) == (
        in_java[0],
        in_java[-1],
    )


def test_a_filter_of_many_keys_has_few_false_positives_and_the_filter_of_none_is_empty() -> None:
    metadata = footer(text_of(pa.array([str(number) for number in range(20_000)]), 20_000))
    others = pa.array([f"-{number}" for number in range(20_000)])
    assert may_have(metadata, others).sum() <= 2
    assert not may_have(footer(text_of(pa.array([], pa.string()), 0)), others).any()


def test_a_filter_has_a_size_limit_and_is_left_out_where_it_would_rule_little_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bloom_filters, "BITS_MAX", 50_000)
    keys = [f"{number:06}" for number in range(5_000)]
    metadata = footer_of(*keys)
    assert len(metadata[bloom_filters.FILTER]) < 50_000 / 6 + 24
    assert stored_keys.possible(metadata, pa.array(keys)).to_pylist() == keys
    others = pa.array([f"{number:06}x" for number in range(4_000)])
    # Ten bits for a key: one of 120 others.
    assert 0 < len(stored_keys.possible(metadata, others)) < 80

    crowded = footer_of(*(f"{number:06}" for number in range(10_001)))
    assert crowded == {stored_keys.LEAST: b"000000", stored_keys.GREATEST: b"010000"}
