"""Chain heads outside of the database, which detect a log that was cut short or rewritten."""

from __future__ import annotations

import hashlib
import re
from typing import Final

import msgspec

from chronolake_model import decoding
from chronolake_model.times import Micros, Tick, format_time

_NAME: Final = re.compile(r"heads-[0-9]{20}\.json", re.ASCII)
_SCHEMA_VERSION: Final = 2
_SCHEMA_VERSIONS: Final = (1, _SCHEMA_VERSION)
"""Documents of format 1 have no heads of answers."""


class Head(msgspec.Struct, frozen=True):
    """The last event of a table's log: its version, its time in 20 digits, its hash in hex."""

    table: str
    table_id: str
    version: int
    time: str
    hash: str


class AnswersHead(msgspec.Struct, frozen=True):
    """The last outcome of a chain of answers: its number, its hash in hex.

    ``table`` is empty for the chains of outcomes that concern no table.
    """

    table: str
    chain_id: str
    number: int
    hash: str


class Heads(msgspec.Struct, frozen=True, omit_defaults=True):
    """The heads of all tables, and of all chains of answers, at one moment.

    ``digest`` is SHA-256, in hex, over all the rest.
    """

    schema_version: int
    written_at: str
    heads: list[Head]
    digest: str
    answers: list[AnswersHead] = []

    @property
    def name(self) -> str:
        """The name of the document: by the time at which it was written."""
        return f"heads-{self.written_at}.json"


def seal(written_at: Micros, heads: list[Head], answers: list[AnswersHead]) -> Heads:
    """The document of these heads."""
    moment = format_time(written_at, Tick.MICROSECOND)
    return _sealed(Heads(_SCHEMA_VERSION, moment, heads, "", answers))


def encode(document: Heads) -> bytes:
    """The document as it is stored, in a form that people can read."""
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def decode(name: str, content: bytes) -> Heads:
    """The document that was stored under ``name``; raises ``ValueError``, saying what is wrong with it."""
    try:
        document = decoding.decode(content, Heads)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise ValueError(f"it is not a document of heads: {exc}") from exc
    if document.schema_version not in _SCHEMA_VERSIONS:
        known = " and ".join(map(str, _SCHEMA_VERSIONS))
        raise ValueError(
            f"its format version {document.schema_version} is not known to this release, only {known}"
        )
    if document != _sealed(document):
        raise ValueError("its digest does not match its content")
    if document.name != name:
        raise ValueError(f"it was written under the name {document.name}")
    return document


def is_name(name: str) -> bool:
    """Whether a document of heads may be called so."""
    return _NAME.fullmatch(name) is not None


def _sealed(document: Heads) -> Heads:
    unsealed = msgspec.json.encode(msgspec.structs.replace(document, digest=""), order="sorted")
    return msgspec.structs.replace(document, digest=hashlib.sha256(unsealed).hexdigest())
