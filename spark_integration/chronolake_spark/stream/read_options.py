"""The options of ``readStream`` with ``format("chronolake")``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import msgspec

from chronolake_model import decoding
from chronolake_model.times import Bound, digits_of
from chronolake_spark import errors
from chronolake_spark.common import format_options
from chronolake_spark.common.format_options import FormatOptions, QueryView, Use
from chronolake_spark.stream.offsets import StreamOffset
from chronolake_spark.stream.plans import BatchLimits

COMMITS_DEFAULT: Final = 1_000
COMMITS_MAX: Final = 10_000
LEASE_SECONDS_DEFAULT: Final = 86_400
LEASE_SECONDS_MAX: Final = 604_800
IDLE_MS_DEFAULT: Final = 500
_NO_LIMIT: Final = 2**62
_REFUSED: Final = {
    "as_of": "a stream reads changes: begin with the option from",
    "to": "a stream has no end: read a range with spark.read and the options from and to",
    "filter": "filter the frame of the stream with .where(…)",
}


@dataclass(frozen=True, slots=True)
class FeedCursor:
    """The place in the log after which a stream begins, of the table's events or of those of all tables."""

    text: str


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options of a stream, checked.

    ``begin`` is an offset, a cursor of the log, a completion time in digits, or a word.

    ``table`` has the options that a stream has in common with other reads.
    """

    table: FormatOptions
    begin: str | StreamOffset | FeedCursor
    limits: BatchLimits
    lease_seconds: int
    idle_ms: int
    reader: str | None


def parse(options: Mapping[str, str]) -> StreamOptions:
    """The options of a stream. Raises ``InvalidOption``."""
    given = {name.lower(): text for name, text in options.items()}
    for name, advice in _REFUSED.items():
        if name in given:
            raise errors.InvalidOption(f"a stream has no option {name}: {advice}", {"option": name})
    begin = _begin(given)
    table = format_options.parse(
        {name: text for name, text in given.items() if name != "from"}, Use.READ_STREAM
    )
    if table.view is not QueryView.CHANGES and ("view" in given or "from" not in given):
        _refuse_view(table, is_given="view" in given)
    return StreamOptions(
        table=table,
        begin=begin,
        limits=BatchLimits(
            commits=_number(given, "max_commits", COMMITS_MAX, COMMITS_DEFAULT),
            files=_number(given, "max_files", _NO_LIMIT),
            size_bytes=_number(given, "max_bytes", _NO_LIMIT),
        ),
        lease_seconds=_number(given, "lease_seconds", LEASE_SECONDS_MAX, LEASE_SECONDS_DEFAULT)
        or LEASE_SECONDS_DEFAULT,
        idle_ms=_number(given, "idle_ms", 60_000, IDLE_MS_DEFAULT) or IDLE_MS_DEFAULT,
        reader=given.get("reader"),
    )


def _refuse_view(table: FormatOptions, *, is_given: bool) -> NoReturn:
    """Raise ``InvalidOption``: without the column of the change type, deletes would look like other changes."""
    if is_given:
        raise errors.InvalidOption(
            f"a stream shows changes, and has no view {table.view}: leave the option view out",
            {"option": "view"},
        )
    raise errors.InvalidOption(
        "a stream shows changes: add the option view with the value changes, or give Spark the Java part by "
        "chronolake_spark.catalog(spark, 'lake')",
        {"option": "view"},
    )


def _begin(given: Mapping[str, str]) -> str | StreamOffset | FeedCursor:
    if "after" in given:
        if "from" in given:
            raise errors.InvalidOption("give where the stream begins once: by the option from, or by after")
        return FeedCursor(given["after"])
    text = given.get("from", Bound.EARLIEST)
    if text.lstrip().startswith("{"):
        return _offset(text)
    try:
        return digits_of(text)
    except ValueError as exc:
        raise errors.InvalidOption(
            f"the option from: {exc}; or the endOffset of a query's lastProgress. A cursor of the log is given "
            "as the option after",
            {"option": "from"},
        ) from None


def _offset(text: str) -> StreamOffset:
    try:
        return StreamOffset.of(decoding.decode(text, dict[str, Any]))
    except (msgspec.DecodeError, errors.InvalidOption):
        raise errors.InvalidOption(
            f"the option from: {text[:100]!r} is not the endOffset of a query's lastProgress",
            {"option": "from"},
        ) from None


def _number(given: Mapping[str, str], name: str, maximum: int, default: int | None = None) -> int | None:
    text = given.get(name)
    if text is None:
        return default
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
    if not 1 <= number <= maximum:
        raise errors.InvalidOption(
            f"the option {name} is a whole number from 1 to {maximum:,}, not {text[:100]!r}", {"option": name}
        )
    return number
