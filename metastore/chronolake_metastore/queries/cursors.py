"""Opaque cursors of paged lists: each says where the next page begins."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Protocol, TypeVar
from uuid import UUID

import msgspec

from chronolake_metastore import errors
from chronolake_model import decoding
from chronolake_model.times import MICROS_MAX

Time = Annotated[int, msgspec.Meta(ge=0, le=MICROS_MAX)]
"""A time inside a cursor, in microseconds since 1970; a number out of range is refused."""

Place = TypeVar("Place")


class InTable(Protocol):
    """A place in a list that belongs to one table."""

    @property
    def table_id(self) -> UUID: ...


PlaceInTable = TypeVar("PlaceInTable", bound=InTable)

_ADVICE = "begin again without a cursor, or pass next_cursor as it was given"


def encode(place: object) -> str:
    """The cursor for ``place``."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def decode(cursor: str, place: type[Place]) -> Place:
    """The place that ``cursor`` stands for; raises ``InvalidCursor`` unless it is a cursor of this list."""
    padded = cursor + "=" * (-len(cursor) % 4)
    try:
        raw = base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True)
        decoded = decoding.decode(raw, place)
    # msgspec recurses into nested lists while it looks for the tag of a place.
    except (UnicodeError, binascii.Error, msgspec.MsgspecError, RecursionError) as exc:
        raise errors.InvalidCursor(_ADVICE) from exc
    if b"\\u0000" in raw:
        raise errors.InvalidCursor(_ADVICE)
    return decoded


def in_table(cursor: str | None, place: type[PlaceInTable], table_id: UUID) -> PlaceInTable | None:
    """The place that ``cursor`` stands for in a list of this table's; none on the first page.

    Raises ``InvalidCursor``, also for a cursor of another table, such as a dropped one of the same name.
    """
    if cursor is None:
        return None
    decoded = decode(cursor, place)
    refuse_unless(decoded.table_id == table_id)
    return decoded


def refuse_unless(fits: bool) -> None:
    """Raise ``InvalidCursor`` unless the cursor fits the request."""
    if not fits:
        raise errors.InvalidCursor(_ADVICE)
