"""Advice for values of CSV files that do not fit their column, or that no type can keep.

Advice names only types that can hold the value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from chronolake.ingest import csv_profiles
from chronolake.ingest.csv_profiles import Profile, ValueKind, ValueSummary
from chronolake.slices import errors
from chronolake.writing import column_names, csv_types
from chronolake_model.schemas import DECIMAL_PRECISION_MAX, WIDER_TYPES

_EXAMPLES: Final = {
    ValueKind.NUMBERS: "9.5 is larger than 10",
    ValueKind.TIMESTAMPS: "2026-01-31T12:00:00+02:00 is later than 2026-01-31T11:00:00Z",
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def check_types_known(unknown: Sequence[str], rows: int | None) -> None:
    """Raise ``SchemaMismatch`` when the types of columns would be inferred from files without rows.

    ``unknown`` are the columns without a known type, ``rows`` the number of rows in all files, None if it is
    not known.
    """
    if rows != 0 or not unknown:
        return
    raise errors.SchemaMismatch(
        f"the files hold no row, so the types of {', '.join(unknown)} cannot be inferred; "
        f"state all types with {_statement(unknown[0], 'BIGINT, ...')}, or take strings with --all-strings",
        {"columns": list(unknown)},
    )


def check_typed(untyped: Sequence[str]) -> None:
    """Raise ``SchemaMismatch`` for columns of Parquet files that have no type, because they have only nulls."""
    if untyped:
        raise errors.SchemaMismatch(
            f"the columns {', '.join(untyped)} have no type in the files, because they hold only nulls; state "
            f"their types, as with {_statement(untyped[0], csv_types.STRING.upper())}",
            {"columns": list(untyped)},
        )


def check_ordering(name: str, profile: Profile) -> None:
    """Raise ``SchemaMismatch`` when an ordering field of numbers or timestamps would be compared as text."""
    value_summary = profile.value_summary
    if profile.type != csv_types.STRING or value_summary.kind is None or value_summary.is_ordered_as_text:
        return
    typed = (
        f"state its type with {_statement(name, value_summary.type)}" if value_summary.type else "correct them"
    )
    raise errors.SchemaMismatch(
        f"the ordering field {name} would be a string: its values are all {value_summary.kind}, but no type "
        f"keeps them as they are written, and compared as text {_EXAMPLES[value_summary.kind]}; {typed}, or "
        f"have them compared as text with {_statement(name, csv_types.STRING.upper())}",
        {"column": name, "wanted": value_summary.type},
    )


def notes(profiles: Mapping[str, Profile]) -> dict[str, str]:
    """A note for each column that became a string although its values are numbers or timestamps."""
    return {
        name: _note(name, profile.value_summary)
        for name, profile in profiles.items()
        if profile.type == csv_types.STRING and profile.value_summary.kind in _EXAMPLES
    }


def advice_for_value(name: str, type_: str, value: str, *, stated: bool, is_fixed: bool = False) -> str:
    """The advice for a value that does not fit the type of its column, which the caller ``stated`` or not.

    ``is_fixed`` if no change of the schema gives the column another type.
    """
    if stated:
        other = _type_to_state(type_, value)
        return f"correct the value, or state another type, as {_statement(name, other)}"
    ways = ["correct the value"]
    if (wider := _wider(type_, value)) and not is_fixed:
        change = column_names.argument(f"{column_names.plain(name)}:{wider}")
        ways.append(f"change the column's type with `chronolake schema change TABLE --widen {change}`")
    if _accepts(value, type_, stated=True):
        ways.append(
            f"if this is another way to write a {type_} (as 007 for 7, or a time without a zone for one in "
            f"UTC), say so with {_statement(name, type_)}"
        )
    if len(ways) == 1:
        ways[0] += ": the column cannot be widened to a type that holds it"
    return "; or ".join(ways)


def _note(name: str, value_summary: ValueSummary) -> str:
    if value_summary.has_zeros_first:
        # As numbers, 007 and 7 would be one value, and in a record key one record.
        return "numbers with leading zeros, which only a string keeps"
    advice = "; state a type with --schema, and a refusal names the first value that does not fit"
    if value_summary.type is not None:
        advice = f": {_statement(name, value_summary.type)}"
    return f"{value_summary.kind} that no type keeps as written{advice}"


def _statement(name: str, type_: str) -> str:
    """The option that states the type of a column."""
    return f"--schema {column_names.argument(f'{column_names.plain(name)} {type_}')}"


def _type_to_state(type_: str, value: str) -> str:
    """A type, as DDL, that takes ``value``, and where a decimal can, values of ``type_`` too."""
    value_summary = csv_profiles.summary_of(pa.array([value]))
    match = _DECIMAL.fullmatch(type_)
    if match and "decimal" in value_summary.types:
        precision, scale = int(match[1]), max(int(match[2]), value_summary.scale)
        if value_summary.whole_digits + scale <= DECIMAL_PRECISION_MAX:
            digits = max(precision - int(match[2]), value_summary.whole_digits) + scale
            return f"DECIMAL({min(digits, DECIMAL_PRECISION_MAX)},{scale})"
        # A decimal of another scale would refuse values that the stated one takes.
        value_summary = replace(value_summary, types=value_summary.types & {"double"})
    return value_summary.type or csv_types.STRING.upper()


def _wider(type_: str, value: str) -> str | None:
    """The first type that a column of ``type_`` can be widened to that takes ``value``, if any."""
    wider: Sequence[str] = WIDER_TYPES.get(type_, ())
    if match := _DECIMAL.fullmatch(type_):
        precisions = range(int(match[1]) + 1, DECIMAL_PRECISION_MAX + 1)
        wider = [f"decimal({precision},{match[2]})" for precision in precisions]
    return next((type_ for type_ in wider if _accepts(value, type_, stated=False)), None)


def _accepts(value: str, type_: str, *, stated: bool) -> bool:
    return csv_types.accepts(pa.array([value]), type_, stated=stated)
