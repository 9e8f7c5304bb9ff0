"""Parameters of the endpoints: what they are called, what they mean, and what they are turned into."""

from __future__ import annotations

import re
from typing import Annotated, Final

from litestar.params import FromPath, HeaderParameter, QueryParameter

from chronolake_metastore import errors
from chronolake_model.names import NAME_PATTERN, split_table_name
from chronolake_model.times import Micros, parse_time

PAGE_DEFAULT: Final = 100
PAGE_MAX: Final = 1_000
FILES_PAGE_DEFAULT: Final = 1_000
FILES_PAGE_MAX: Final = 10_000
IDEMPOTENCY_KEY_LENGTH_MAX: Final = 255

_PRINTABLE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_NAME = re.compile(NAME_PATTERN, re.ASCII)

TableInPath = FromPath[str]
RequestedTimeInPath = FromPath[str]

Limit = Annotated[int, QueryParameter(ge=1, le=PAGE_MAX, description="Entries of a page at most.")]
FilesLimit = Annotated[int, QueryParameter(ge=1, le=FILES_PAGE_MAX, description="Entries of a page at most.")]
Cursor = Annotated[
    str | None, QueryParameter(name="cursor", description="`next_cursor` of the page before, unchanged.")
]
IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        description=(
            "Names this request, so that it can be sent again safely: the second time it gets the first "
            "answer. 1 to 255 printable ASCII characters. Without one, a retry is a new request."
        ),
    ),
]
ActorHeader = Annotated[
    str | None,
    HeaderParameter(
        name="Chronolake-Actor",
        description="Who asks, for the log; self-declared, as long as no access is configured.",
    ),
]


def time_parameter(name: str, description: str) -> QueryParameter:
    """A query parameter that holds an instant time."""
    return QueryParameter(name=name, description=f"{description} 17 or 20 digits, UTC.")


def table(name: str) -> str:
    """``namespace.table`` from the path; raises ``InvalidParameter``."""
    try:
        split_table_name(name)
    except ValueError as exc:
        raise errors.InvalidParameter(str(exc), parameter="table") from exc
    return name


def namespace(name: str) -> str:
    """The name of a namespace; raises ``InvalidParameter``."""
    if not _NAME.fullmatch(name):
        raise errors.InvalidParameter(
            f"a namespace is named by letters, digits, _ and -, 128 at most, not {name!r}",
            parameter="namespace",
        )
    return name


def instant_time(parameter: str, text: str) -> Micros:
    """The time that ``text`` names; raises ``InvalidParameter``."""
    try:
        return parse_time(text)
    except ValueError as exc:
        raise errors.InvalidParameter(f"{parameter}: {exc}", parameter=parameter) from exc


def optional_time(parameter: str, text: str | None) -> Micros | None:
    """The time that ``text`` names, if there is one; raises ``InvalidParameter``."""
    return None if text is None else instant_time(parameter, text)


def header(name: str, value: str) -> str:
    """The value of a header of ours; raises ``InvalidParameter``."""
    if len(value) > IDEMPOTENCY_KEY_LENGTH_MAX or not _PRINTABLE.fullmatch(value):
        raise errors.InvalidParameter(
            f"{name} takes 1 to {IDEMPOTENCY_KEY_LENGTH_MAX} printable ASCII characters", parameter=name
        )
    return value
