"""Patterns of texts in bodies: the decoder matches whole texts, as the OpenAPI document says."""

from __future__ import annotations

import inspect

import msgspec
import pytest

from chronolake_model import instants, patterns, readers, scans, slices, tables
from chronolake_model.names import TABLE_NAME_PATTERN

PATTERNS = [
    (tables.Name, "shop"),
    (tables.TableName, "shop.orders"),
    (instants.InstantTime, "20260131100000123"),
    (inspect.get_annotations(instants.CompleteInstant, eval_str=True)["cleaned_before"], "20260131100000123"),
    (inspect.get_annotations(readers.BeginReading, eval_str=True)["as_of"], "latest"),
    (inspect.get_annotations(scans.Scan, eval_str=True)["as_of"], "20260131100000123"),
    (inspect.get_annotations(slices.FindFileGroups, eval_str=True)["as_of"], "earliest"),
]


@pytest.mark.parametrize(("type_", "text"), PATTERNS)
def test_a_line_feed_after_a_text_is_refused(type_: object, text: str) -> None:
    assert msgspec.json.decode(msgspec.json.encode(text), type=type_) == text
    with pytest.raises(msgspec.ValidationError, match="regex"):
        msgspec.json.decode(msgspec.json.encode(f"{text}\n"), type=type_)


def test_the_document_has_the_pattern_that_the_decoder_was_made_of() -> None:
    assert patterns.of_document(patterns.of_decoder(TABLE_NAME_PATTERN)) == TABLE_NAME_PATTERN
    assert patterns.of_document("^a+$") == "^a+$"
