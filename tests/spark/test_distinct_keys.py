"""The quick proof that keys differ."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, strategies as st

from chronolake_spark.read.slices import merge

KEYS = st.text("a\0é", max_size=18)


@given(keys=st.lists(KEYS, max_size=8), skipped=st.integers(0, 3))
def test_it_tells_whether_keys_differ_wherever_they_lie_in_an_array(keys: list[str], skipped: int) -> None:
    array = pa.array(keys, pa.large_string()).slice(skipped)

    assert merge.are_distinct(array) == (len(set(keys[skipped:])) == len(keys[skipped:]))


def test_of_long_keys_it_does_not_know() -> None:
    longest = "k" * merge.HASHED_LENGTH_MAX

    assert merge.are_distinct(pa.array([longest, "k"], pa.large_string()))
    assert not merge.are_distinct(pa.array([f"{longest}k", "k"], pa.large_string()))


def test_one_repeated_key_among_many_is_seen() -> None:
    keys = pa.array([f"key-{number}" for number in range(5_000)], pa.large_string())

    assert merge.are_distinct(keys)
    assert not merge.are_distinct(pa.concat_arrays([keys, keys.slice(4_999)]))
