"""Bloom filters of base files, read by Hudi's own code."""

from __future__ import annotations

import pyarrow as pa
import pytest

from chronolake.indexes import bloom_filters
from tests.hudi.hudi_spark import HudiSpark

pytestmark = pytest.mark.hudi_spark


@pytest.mark.parametrize("bits_max", [bloom_filters.BITS_MAX, 12_000, 5_000])
def test_hudi_finds_in_a_filter_of_any_size_what_our_reader_finds(
    hudi_spark: HudiSpark, monkeypatch: pytest.MonkeyPatch, bits_max: int
) -> None:
    monkeypatch.setattr(bloom_filters, "BITS_MAX", bits_max)
    keys = [f"{text}-{number}" for text in ("key", "Zürich", "日本", "😀") for number in range(250)]
    writer = bloom_filters.Writer(len(keys))
    writer.add(pa.array(keys))
    text = writer.text()
    candidates = [*keys, *(f"other-{number}" for number in range(1_000))]

    by_hudi = hudi_spark.may_have(text, bloom_filters.SIMPLE, candidates)

    own = bloom_filters.read({bloom_filters.FILTER: text})
    assert own is not None
    assert by_hudi == own.may_have(pa.array(candidates)).tolist()
    assert all(by_hudi[: len(keys)])
    assert not all(by_hudi)
