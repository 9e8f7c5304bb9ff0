"""The option ``--where``: a filter as an expression, or in the JSON form of the REST API."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
import typer

import chronolake
from chronolake_model import decoding, filter_text
from chronolake_model.files import Snapshot
from chronolake_model.filters import Filter

WhereOption = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="FILTER",
        help="Only slices that could hold a record like this: \"amount >= 10 and region in ('eu', 'us')\", or "
        "a filter of the REST API in JSON.",
    ),
]
_JSON: Final[msgspec.json.Decoder[Filter]] = decoding.decoder(Filter)


def snapshot(
    table: chronolake.Table, where: str | None, as_of: str | None, partition: str | None
) -> tuple[Snapshot, str]:
    """The live slices that could match ``where``, or all if it is not given, and a text that says so."""
    if where is None:
        return table.snapshot(as_of, partition), ""
    filter = parsed(where, table)
    scanned = table.scan(filter, as_of, None if partition is None else [partition])
    return scanned, f" that could match {filter_text.written(filter)}"


def parsed(where: str, table: chronolake.Table, option: str = "--where") -> Filter:
    """The filter that ``where``, the value of ``option``, describes; an invalid one is a usage error."""
    try:
        if where.lstrip().startswith("{"):
            return _JSON.decode(where)
        return filter_text.parse(where, {field.name: field.type for field in table.definition.schema})
    except (ValueError, RecursionError) as exc:
        raise typer.BadParameter(str(exc), param_hint=option) from exc
