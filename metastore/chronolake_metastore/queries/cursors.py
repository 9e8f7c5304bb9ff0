"""Cursors of paged lists: where the next page goes on, in a form that callers need not understand."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, TypeVar

import msgspec

from chronolake_metastore import errors
from chronolake_model.times import MICROS_MAX

Time = Annotated[int, msgspec.Meta(ge=0, le=MICROS_MAX)]
"""A time inside a cursor, in microseconds; no other number passes for one."""

Place = TypeVar("Place")

_ADVICE = "begin again without a cursor, or pass next_cursor as it was given"


def encode(place: object) -> str:
    """The cursor for ``place``."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def decode(cursor: str, place: type[Place]) -> Place:
    """The place that ``cursor`` stands for; raises ``InvalidCursor`` when this list gave no such cursor."""
    padded = cursor + "=" * (-len(cursor) % 4)
    try:
        raw = base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True)
        decoded = msgspec.json.decode(raw, type=place)
    # msgspec goes through lists in lists as deep as they are, when it looks for the tag of a place.
    except (UnicodeError, binascii.Error, msgspec.MsgspecError, RecursionError) as exc:
        raise errors.InvalidCursor(_ADVICE) from exc
    if b"\\u0000" in raw:
        raise errors.InvalidCursor(_ADVICE)
    return decoded


def refuse_unless(fits: bool) -> None:
    """Raise ``InvalidCursor`` unless the cursor fits what is read: it may be of a table dropped since."""
    if not fits:
        raise errors.InvalidCursor(_ADVICE)
