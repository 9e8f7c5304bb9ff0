"""The parameters of the OpenAPI document: what Litestar does not see, as handlers check it by themselves.

The patterns of times match only times, and some wrong 29ths of February. The server's own decoder asks for
digits only, and then says which part of a time is wrong.
"""

from __future__ import annotations

from typing import Any, Final

from chronolake_metastore.api.parameters import IDEMPOTENCY_KEY_LENGTH_MAX, TABLE_ID_HEADER, UUID_PATTERN
from chronolake_model.cuts import CUT_TABLES_MAX
from chronolake_model.names import NAME_PATTERN, TABLE_NAME_PATTERN
from chronolake_model.streams import STREAM_NAME_PATTERN
from chronolake_model.tables import SCHEMA_VERSION_MAX
from chronolake_model.times import INSTANT_TIME_PATTERN, READ_TIME_PATTERN

_YEAR: Final = "([0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_DAY: Final = (
    "((0[13578]|1[02])(0[1-9]|[12][0-9]|3[01])|(0[469]|11)(0[1-9]|[12][0-9]|30)|02(0[1-9]|1[0-9]|2[0-9]))"
)
_TIME: Final = f"{_YEAR}{_DAY}([01][0-9]|2[0-3])[0-5][0-9][0-5][0-9][0-9]{{3}}([0-9]{{3}})?"

INSTANT_TIME: Final = f"^{_TIME}$"
READ_TIME: Final = f"^({_TIME}|earliest|latest)$"
PATTERNS: Final = {INSTANT_TIME_PATTERN: INSTANT_TIME, READ_TIME_PATTERN: READ_TIME}
"""The pattern in the document for each pattern of the model."""


Json = dict[str, Any]

_TABLE_NAME: Final = TABLE_NAME_PATTERN.removeprefix("^").removesuffix("$")
_NO_NUL: Final = r"^[^\u0000]*$"
_PRINTABLE: Final[Json] = {
    "pattern": r"^[!-~]([ -~]*[!-~])?$",
    "minLength": 1,
    "maxLength": IDEMPOTENCY_KEY_LENGTH_MAX,
}
_READ_TIME: Final[Json] = {"pattern": READ_TIME}
_INSTANT_TIME: Final[Json] = {"pattern": INSTANT_TIME}
_CURSOR: Final[Json] = {"pattern": "^[A-Za-z0-9_-]+$"}
_FORMS: Final[dict[tuple[str, str], Json]] = {
    ("path", "table"): {"pattern": TABLE_NAME_PATTERN, "examples": ["shop.orders"]},
    ("path", "namespace"): {"pattern": NAME_PATTERN, "examples": ["shop"]},
    ("path", "requested_time"): _INSTANT_TIME,
    ("path", "schema_version"): {"pattern": "^[1-9][0-9]{0,8}$"},
    ("path", "key"): _PRINTABLE,
    ("path", "stream"): {"pattern": STREAM_NAME_PATTERN, "examples": ["clicks-job"]},
    ("path", "lease_id"): {"format": "uuid", "pattern": UUID_PATTERN},
    ("query", "table"): {"pattern": TABLE_NAME_PATTERN},
    ("query", "namespace"): {"pattern": NAME_PATTERN},
    ("query", "tables"): {"pattern": f"^{_TABLE_NAME}(,{_TABLE_NAME}){{0,{CUT_TABLES_MAX - 1}}}$"},
    ("query", "as_of"): _READ_TIME,
    ("query", "from"): _READ_TIME,
    ("query", "to"): _READ_TIME,
    ("query", "before_or_on"): _INSTANT_TIME,
    ("query", "begin"): _INSTANT_TIME,
    ("query", "end"): _INSTANT_TIME,
    ("query", "requested_from"): _INSTANT_TIME,
    ("query", "requested_to"): _INSTANT_TIME,
    ("query", "completed_from"): _INSTANT_TIME,
    ("query", "completed_to"): _INSTANT_TIME,
    ("query", "skip"): {"minimum": 0},
    ("query", "grace_seconds"): {"minimum": 0},
    ("query", "cursor"): _CURSOR,
    ("query", "after"): _CURSOR,
    ("query", "writer"): {"pattern": _NO_NUL},
    ("query", "partition_path"): {"pattern": _NO_NUL},
    ("query", "file_id"): {"pattern": _NO_NUL},
    ("query", "name"): {"pattern": r"^[^\u0000]+\.marker\.(CREATE|MERGE|APPEND)$"},
    ("header", "Idempotency-Key"): _PRINTABLE,
    ("header", "Chronolake-Actor"): _PRINTABLE,
    ("header", "Last-Event-ID"): _CURSOR,
    ("header", TABLE_ID_HEADER): {"pattern": UUID_PATTERN},
}
_LIMITS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")

assert len(str(SCHEMA_VERSION_MAX)) == 10  # nine digits are always less


def describe(parameter: Json) -> None:
    """Give a parameter of an operation all of its constraints."""
    schema = _without_null(parameter["schema"])
    form = _FORMS.get((parameter["in"], parameter["name"]), {})
    if form is _PRINTABLE:
        schema.pop("format", None)  # Litestar's of a parameter that goes to the end of the path.
    schema |= form
    if schema.get("type") == "integer":
        # Litestar makes floats of all limits; strict readers refuse them for integers.
        schema |= {name: int(schema[name]) for name in _LIMITS if name in schema}
    parameter["schema"] = schema


def _without_null(schema: Json) -> Json:
    """A parameter is left out, and never null."""
    kinds = [kind for kind in schema.get("oneOf", ()) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return schema
    left: Json = {name: value for name, value in schema.items() if name != "oneOf" and value is not None}
    whole: Json = kinds[0] | left
    return whole
