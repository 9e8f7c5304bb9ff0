"""The schemas of a table with schema on read (Hudi: InternalSchema): JSON in which each field has an id.

The last one is in the metadata of a commit under ``latest_schema``; all of them are in the newest file
``.hoodie/.schema/<requested time>.schemacommit``. Hudi finds a column of a file by its id, through the schema
that the file was written with.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from chronolake_hudi.errors import DamagedFile

LATEST_KEY: Final = "latest_schema"
"""The key in the extra metadata of a commit."""
FOLDER: Final = ".hoodie/.schema"
_ADVICE: Final = "restore the file from a copy"

Ids = dict[str, int]
"""The id of each column by its name, and of each field within one by the names that lead to it."""


class InternalSchema(msgspec.Struct, frozen=True):
    """One schema. Its ``version`` is the requested time of the instant that it began with, as a number."""

    version: int
    ids: Ids


def latest(text: str, path: str) -> InternalSchema:
    """The schema that the commit in the file ``path`` states. Raises ``DamagedFile``."""
    try:
        return _schema(msgspec.json.decode(text))
    except (msgspec.DecodeError, KeyError, TypeError) as exc:
        raise DamagedFile(path, f"its {LATEST_KEY} cannot be read: {exc}", _ADVICE) from exc


def history(content: bytes, path: str) -> list[InternalSchema]:
    """The schemas in a file of the history. Raises ``DamagedFile``."""
    try:
        return [_schema(schema) for schema in msgspec.json.decode(content)["schemas"]]
    except (msgspec.DecodeError, KeyError, TypeError) as exc:
        raise DamagedFile(path, f"it cannot be read as a history of schemas: {exc}", _ADVICE) from exc


def in_force(schemas: Iterable[InternalSchema], requested_times: Iterable[str]) -> list[InternalSchema]:
    """The last schema, and those with which instants of these times have written."""
    ordered = sorted(schemas, key=lambda schema: schema.version)
    versions = [schema.version for schema in ordered]
    places = {max(0, bisect.bisect_right(versions, int(time)) - 1) for time in requested_times}
    return [ordered[place] for place in sorted({*places, len(ordered) - 1})] if ordered else []


def renamed(schemas: Iterable[InternalSchema]) -> str | None:
    """A name that a column got from another one, or had before another one got it; None if there is none.

    Without one, columns found by their names are those that Hudi finds by their ids.
    """
    by_name: Ids = {}
    by_id: dict[int, str] = {}
    for schema in schemas:
        for name, field_id in schema.ids.items():
            if by_name.setdefault(name, field_id) != field_id or by_id.setdefault(field_id, name) != name:
                return name
    return None


def _schema(stated: Any) -> InternalSchema:
    return InternalSchema(int(stated.get("version_id", 0)), dict(_ids(stated, "")))


def _ids(struct: Any, prefix: str) -> Iterator[tuple[str, int]]:
    for field in struct["fields"]:
        name = f"{prefix}{field['name']}"
        yield name, field["id"]
        yield from _ids_within(field["type"], name)


def _ids_within(type_: Any, name: str) -> Iterator[tuple[str, int]]:
    if isinstance(type_, str):
        return
    match type_["type"]:
        case "record":
            yield from _ids(type_, f"{name}.")
        case "array":
            yield f"{name}.element", type_["element_id"]
            yield from _ids_within(type_["element"], f"{name}.element")
        case "map":
            yield f"{name}.value", type_["value_id"]
            yield from _ids_within(type_["value"], f"{name}.value")
        case _:
            return
