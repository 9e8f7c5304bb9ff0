"""Patterns of whole texts, for the decoder and for the OpenAPI document.

Python's ``$`` also matches before a line feed that ends the text; ECMAScript's, which the document is written
in, does not. Python's ``\\Z`` matches only at the end, and ECMAScript has no such word.
"""

from __future__ import annotations

_END_IN_DOCUMENT = "$"
_END_IN_DECODER = r"\Z"


def of_decoder(pattern: str) -> str:
    """The pattern that the decoder matches as the document's ``pattern``, which ends in ``$``, says."""
    assert pattern.endswith(_END_IN_DOCUMENT)
    return pattern.removesuffix(_END_IN_DOCUMENT) + _END_IN_DECODER


def of_document(pattern: str) -> str:
    """The document's pattern for one of the decoder."""
    is_whole = pattern.endswith(_END_IN_DECODER)
    return pattern.removesuffix(_END_IN_DECODER) + _END_IN_DOCUMENT if is_whole else pattern
