"""Parameters of the endpoints: names, descriptions and conversion."""

from __future__ import annotations

import difflib
import functools
import re
from typing import Annotated, Any, Final, get_args, get_origin
from urllib.parse import quote_from_bytes
from uuid import UUID

from litestar import Request
from litestar.handlers import BaseRouteHandler
from litestar.params import FromPath, HeaderParameter, QueryParameter
from litestar.types import HTTPScope, Scope

from chronolake_metastore import errors
from chronolake_model.names import NAME_PATTERN, split_table_name
from chronolake_model.tables import SCHEMA_VERSION_MAX
from chronolake_model.times import Micros, ReadTime, parse_read_time, parse_time

PAGE_DEFAULT: Final = 100
PAGE_MAX: Final = 1_000
SKIP_MAX: Final = 1_000_000
FILES_PAGE_DEFAULT: Final = 1_000
FILES_PAGE_MAX: Final = 10_000
IDEMPOTENCY_KEY_LENGTH_MAX: Final = 255
UUID_PATTERN: Final = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
KEY_HEADER: Final = "Idempotency-Key"
ACTOR_HEADER: Final = "Chronolake-Actor"

_TABLE_ID = re.compile(UUID_PATTERN)
_PRINTABLE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_SCHEMA_VERSION = re.compile(r"[1-9][0-9]{0,9}")
_NAME = re.compile(NAME_PATTERN, re.ASCII)
_NUMBERS: Final = (int, int | None)
_NUMBER = re.compile(r"[+-]?[0-9]+")
_SAFE: Final = "/%:@!$&'()*+,;=~-._"
_KEY_OF_CALLER: Final = "idempotency_key"

TableInPath = FromPath[str]
RequestedTimeInPath = FromPath[str]

_LIMIT: Final = "The largest number of entries of a page. A page may end earlier, at a number of bytes."
Limit = Annotated[int, QueryParameter(ge=1, le=PAGE_MAX, description=_LIMIT)]
FilesLimit = Annotated[int, QueryParameter(ge=1, le=FILES_PAGE_MAX, description=_LIMIT)]
Cursor = Annotated[
    str | None, QueryParameter(name="cursor", description="`next_cursor` of the page before, unchanged.")
]
IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name=KEY_HEADER,
        description=(
            "Names this request, so that it can be sent again safely: a repetition gets the first answer. 1 to "
            "255 printable ASCII characters. Without a key, a repetition is a new request; the answer has the "
            "key that the server made."
        ),
    ),
]
ActorHeader = Annotated[
    str | None,
    HeaderParameter(
        name=ACTOR_HEADER,
        description=(
            "The sender's name, for the log. With `--access off` it is not verified; with `on` it follows the "
            "subject, whose token must allow it to act on behalf of others."
        ),
    ),
]


TABLE_ID_HEADER: Final = "Chronolake-Table-Id"


def time_parameter(name: str, description: str) -> QueryParameter:
    """A query parameter that holds an instant time."""
    return QueryParameter(name=name, description=f"{description} 17 or 20 digits, UTC.")


def read_time_parameter(name: str, description: str) -> QueryParameter:
    """A query parameter with a completion time, `earliest` or `latest`."""
    return QueryParameter(
        name=name,
        description=(
            f"{description} 17 or 20 digits, UTC; or `earliest`, the first time that the table serves, or "
            "`latest`, its last completion."
        ),
    )


AsOf = Annotated[str | None, read_time_parameter("as_of", "The state as of this time. Default: now.")]


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


def optional_read_time(parameter: str, text: str | None) -> ReadTime | None:
    """The completion time that ``text`` names, if there is one; raises ``InvalidParameter``."""
    if text is None:
        return None
    try:
        return parse_read_time(text)
    except ValueError as exc:
        raise errors.InvalidParameter(f"{parameter}: {exc}", parameter=parameter) from exc


def schema_version(text: str) -> int:
    """The version of a schema that ``text`` names; raises ``InvalidParameter``."""
    if not _SCHEMA_VERSION.fullmatch(text) or int(text) > SCHEMA_VERSION_MAX:
        raise errors.InvalidParameter(
            f"a version of a schema is a number from 1 to {SCHEMA_VERSION_MAX}, not {text[:100]!r}",
            parameter="schema_version",
        )
    return int(text)


def plain_text(parameter: str, text: str) -> str:
    """A text that the database can hold; raises ``InvalidParameter``."""
    if "\0" in text:
        raise errors.InvalidParameter(f"{parameter} must not contain the character U+0000", parameter=parameter)
    return text


def header(name: str, value: str) -> str:
    """The value of a header of ours; raises ``InvalidParameter``."""
    if len(value) > IDEMPOTENCY_KEY_LENGTH_MAX or not _PRINTABLE.fullmatch(value):
        raise errors.InvalidParameter(
            f"{name} takes 1 to {IDEMPOTENCY_KEY_LENGTH_MAX} printable ASCII characters", parameter=name
        )
    return value


async def check_request(request: Request[Any, Any, Any]) -> None:
    """Raise ``InvalidParameter`` for what no parameter of the endpoint takes.

    It awaits nothing; but a function that is not async would run in a thread, which costs each request more
    than all the rest of its way through Litestar.
    """
    _refuse_unknown(request)
    expected_table(request)


def expected_table(request: Request[Any, Any, Any]) -> UUID | None:
    """As ``table_id``, for a request that takes Litestar's path."""
    names_table = "table" in request.path_params or b"table=" in request.scope["query_string"]
    return table_id(request.headers.get(TABLE_ID_HEADER), names_table=names_table)


def table_id(header_value: str | None, *, names_table: bool) -> UUID | None:
    """The id in the header of a request, if the request names a table; raises ``InvalidParameter``."""
    if header_value is None:
        return None
    if not _TABLE_ID.fullmatch(header_value):
        raise errors.InvalidParameter(
            f"{TABLE_ID_HEADER} is the table_id of a table, as in {UUID(int=0)}", parameter=TABLE_ID_HEADER
        )
    return UUID(header_value) if names_table else None


def _refuse_unknown(request: Request[Any, Any, Any]) -> None:
    """Raise ``InvalidParameter`` for parameters that are unknown, given twice, or no whole numbers.

    Otherwise they would be silently ignored: ``asof`` would give the present table, ``null`` the default.
    """
    if not request.scope["query_string"]:
        return
    known = _annotations_in_query(request.route_handler)
    seen: set[str] = set()
    for name, value in request.query_params.multi_items():
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            advice = f"did you mean {close[0]}?" if close else f"it takes {', '.join(sorted(known)) or 'none'}"
            raise errors.InvalidParameter(f"there is no parameter {name!r} here; {advice}", parameter=name)
        if known[name] in _NUMBERS and not _NUMBER.fullmatch(value):
            raise errors.InvalidParameter(
                f"{name} is a whole number; leave it out for its default", parameter=name
            )
        if name in seen and not _takes_many(known[name]):
            raise errors.InvalidParameter(f"{name} is given twice; give one value", parameter=name)
        seen.add(name)


def _takes_many(annotation: Any) -> bool:
    return any(get_origin(type_) is list for type_ in get_args(annotation))


@functools.cache
def _annotations_in_query(handler: BaseRouteHandler) -> dict[str, Any]:
    """The type of each parameter of the query."""
    return {
        field.kwarg_definition.name or name: field.annotation
        for name, field in handler.parsed_fn_signature.parameters.items()
        if isinstance(field.kwarg_definition, QueryParameter)
    }


def path_as_sent(scope: Scope) -> str:
    """The path as it was sent, percent-encoded, so that it is always a valid reference to a URI."""
    return quote_from_bytes(scope["raw_path"], safe=_SAFE)


def remember_key(scope: HTTPScope, key: str) -> None:
    """Remember the idempotency key of a command, for its answer or its problem."""
    scope["state"][_KEY_OF_CALLER] = key


def remembered_key(scope: HTTPScope) -> str | None:
    """The key that ``remember_key`` remembered for the request of ``scope``."""
    key: str | None = scope["state"].get(_KEY_OF_CALLER)
    return key
