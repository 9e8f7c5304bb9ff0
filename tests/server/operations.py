"""Every operation of the REST API, and the ways to get its requests wrong, by the OpenAPI document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from typing_extensions import override

from chronolake_metastore.app import create_app
from chronolake_metastore.settings import Settings
from chronolake_model.file_names import base_file_name, bucket_file_id
from tests.server.rest import Json

DOCUMENT: Final[Json] = create_app(Settings(dsn="")).openapi_schema.to_schema()
TABLE = "shop.orders"
NEVER_BEGUN = "20260101000000000"
FILE_GROUP: Json = {"partition_path": "", "file_id": bucket_file_id(0)}
_BEGINNING_OF_LOG = "WyIwIiwwXQ"
"""The cursor of an empty log of all tables."""
_QUERIES = {
    "file_id": bucket_file_id(0),
    "name": f"{base_file_name(bucket_file_id(0), '0-0-0', NEVER_BEGUN)}.marker.CREATE",
    "after": _BEGINNING_OF_LOG,
    "begin": NEVER_BEGUN,
    "end": NEVER_BEGUN,
}
"""Valid values of required parameters in queries."""
_WORDS = {"partition_path": "", "file_id": bucket_file_id(0), "kind": "CREATE", "action": "commit"}
"""Values of fields that suit each other; other fields have any value that their schema allows."""
_ONE_OF_SEVERAL = ("retain_hours", "retain_versions", "cursor")
"""Fields that a body has only without others."""
Path = tuple[str | int, ...]


class Place(NamedTuple):
    """A place in a body, with its schema."""

    at: Path
    schema: Json
    is_required: bool


@dataclass(frozen=True)
class Operation:
    """One method at one path of the OpenAPI document."""

    method: str
    template: str

    @override
    def __str__(self) -> str:
        return f"{self.method} {self.template}"

    @property
    def description(self) -> Json:
        described: Json = DOCUMENT["paths"][self.template][self.method.lower()]
        return described

    def parameters(self, place: str) -> dict[str, Json]:
        """The schemas of its parameters in the path, the query or the headers, by their names."""
        listed = self.description.get("parameters", [])
        return {parameter["name"]: parameter["schema"] for parameter in listed if parameter["in"] == place}

    @property
    def body_schema(self) -> Json | None:
        request = self.description.get("requestBody")
        return request and _resolved(request["content"]["application/json"]["schema"])

    @property
    def may_omit_body(self) -> bool:
        """Whether an empty body is ``{}``."""
        return not self.description["requestBody"]["required"]

    def body(self, instant: str) -> Any:
        """A valid body with the required fields, about an instant; none if it takes none."""
        return self.body_schema and _value(self.body_schema, instant, is_whole=False)

    def whole_body(self, instant: str) -> Any:
        """A valid body with all fields."""
        return self.body_schema and _value(self.body_schema, instant, is_whole=True)

    def path(self, requested_time: str, **parts: str) -> str:
        """The path with its parameters filled in unquoted: the caller quotes unusual ones."""
        values = {
            "table": TABLE,
            "namespace": "shop",
            "requested_time": requested_time,
            "key": "never-used",
            "schema_version": "1",
            "lease_id": "00000000-0000-0000-0000-000000000000",
            "stream": "job",
        }
        path = self.template.format(**{**values, **parts})
        listed = self.description.get("parameters", [])
        required = [each["name"] for each in listed if each["in"] == "query" and each["required"]]
        query = "&".join(f"{name}={_QUERIES[name]}" for name in required)
        return f"{path}?{query}" if query else path


def operation(method: str, template: str) -> Operation:
    """The operation at a path of the document."""
    assert method.lower() in DOCUMENT["paths"][template]
    return Operation(method, template)


def quoted(text: str) -> str:
    """A text as one segment of a path."""
    return quote(text, safe="", errors="surrogateescape")


# A value for each schema


def _resolved(schema: Json) -> Json:
    """The schema itself, where a document has a reference; of several kinds of values the last."""
    while True:
        if "$ref" in schema:
            schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        elif options := [option for option in _options(schema) if option.get("type") != "null"]:
            schema = options[-1]
        else:
            return schema


def _options(schema: Json) -> list[Json]:
    options: list[Json] = schema.get("anyOf") or schema.get("allOf") or []
    match schema.get("type"):
        case list() as types:
            return [*options, *(schema | {"type": of_value} for of_value in types)]
        case _:
            return options


def _value(schema: Json, instant: str, *, is_whole: bool, name: str = "") -> Any:
    schema = _resolved(schema)
    match schema.get("type"):
        case "object" if "properties" in schema:
            fields = schema["properties"].items()
            return {
                field: _value(of_field, instant, is_whole=is_whole, name=field)
                for field, of_field in fields
                if field in schema.get("required", []) or (is_whole and field not in _ONE_OF_SEVERAL)
            }
        case "object":
            return {"a": "b"}
        case "array":
            return [_value(schema["items"], instant, is_whole=is_whole, name=name)]
        case "integer" | "number":
            return max(1, schema.get("minimum", 1))
        case "boolean":
            return False
        case _:
            return _text(schema, instant, name)


def _text(schema: Json, instant: str, name: str) -> str:
    words: list[str] = schema.get("enum", []) + schema.get("examples", [])
    if name == "file_name":
        return base_file_name(bucket_file_id(0), "0-0-0", instant)
    if name in _WORDS:
        return _WORDS[name]
    return words[0] if words else instant if re.match(schema.get("pattern", "$"), instant) else "w"


# Wrong bodies


def places(tried: Operation) -> Iterator[Place]:
    """Every place below the whole body of an operation; of a list only the first entry."""
    schema = tried.body_schema
    assert schema is not None
    yield from _places(schema, ())


def _places(schema: Json, at: Path) -> Iterator[Place]:
    for field, of_field in schema.get("properties", {}).items():
        if field not in _ONE_OF_SEVERAL:
            yield Place((*at, field), of_field, field in schema.get("required", []))
            yield from _places(_resolved(of_field), (*at, field))
    if "items" in schema:
        yield Place((*at, 0), schema["items"], is_required=False)
        yield from _places(_resolved(schema["items"]), (*at, 0))


_OF_TYPES = {
    "null": "null",
    "boolean": "true",
    "integer": "1",
    "number": "1.5",
    "string": '"x"',
    "array": "[]",
    "object": "{}",
}
NOT_TIMES = ("00000000000000000", "20260230000000000", "99999999999999999999", "20260101000000000\n", "x", "")


def wrong_values(schema: Json) -> Iterator[str]:
    """Raw values, JSON or not, that the schema excludes."""
    types, of_type = set(_types(schema)), _resolved(schema)
    yield from (raw for name, raw in _OF_TYPES.items() if name not in types)
    match of_type.get("type"):
        case "string":
            yield from ('"\\u0000"', '"\\ud800"', '"\xff"')
            texts = ("nonsense", *NOT_TIMES, "x" * (of_type.get("maxLength", 0) + 1))
            yield from (json.dumps(text) for text in texts if excludes(of_type, text))
        case "integer" if "number" not in types:
            bounds = (of_type.get("minimum", 0) - 1, of_type.get("maximum", 2**64) + 1)
            yield from (*map(str, bounds), "1e400", "9" * 5_000)
        case "array":
            yield from ("[null]", "[" * 1_000)
        case "object" if "properties" in of_type:
            yield '{"nobody_knows_this": 1}'
        case "object":
            yield from ('{"x": null}', '{"x": 1}', '{"\\u0000": "x"}', '{"x": "\\ud800"}')
        case _:
            pass


def _types(schema: Json) -> Iterator[str]:
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    for option in _options(schema):
        yield from _types(option)
    if "enum" in schema:
        yield "string"
    match schema.get("type"):
        case "number":
            yield from ("number", "integer")
        case str(of_value):
            yield of_value
        case _:
            pass


def with_raw(body: Json, at: Path, raw: str) -> bytes:
    """The body as bytes, with raw text, valid JSON or not, in one place."""
    mark = "the place to be filled"
    return json.dumps(replaced(body, at, mark)).replace(json.dumps(mark), raw).encode("latin-1")


def replaced(body: Any, at: Path, value: object) -> Any:
    """A copy of the body with another value in one place."""
    if not at:
        return value
    copy: Any = dict(body) if isinstance(body, dict) else list(body)
    copy[at[0]] = replaced(copy[at[0]], at[1:], value)
    return copy


def without(body: Any, at: Path) -> Any:
    """A copy of the body with one place left out."""
    if len(at) == 1:
        return {name: value for name, value in body.items() if name != at[0]}
    copy: Any = dict(body) if isinstance(body, dict) else list(body)
    copy[at[0]] = without(copy[at[0]], at[1:])
    return copy


# Wrong parameters


_TEXTS = (
    *("", "x", "-1", "1.5", "NaN", "null", "9" * 40, "a b", "a.b", "a.b.c", ".b", "-a", "é", "a;b", "%", "\0"),
    *("a.b\n", "a.b\0", "\x7f", "\udcff", "x" * 300, f"{'x' * 129}.b", "x" * 5_000, "a.' OR 1=1"),
    *("2026010100000000", "202601010000000000", "20261301000000000", "20260101240000000", "20260101006000000"),
    *("20260101000060000", "\uff12026010100000000", "2026010100000000x", *NOT_TIMES),
)


def wrong_texts(schema: Json) -> Iterator[str]:
    """Texts that the schema of a parameter excludes."""
    yield from (text for text in _TEXTS if excludes(schema, text))


def excludes(schema: Json, text: str) -> bool:
    """Whether a schema excludes a text as the value of a parameter."""
    schema = _resolved(schema)
    match schema.get("type"):
        case "integer":
            is_number = re.fullmatch("-?[0-9]+", text) is not None
            return not is_number or not schema["minimum"] <= int(text) <= schema["maximum"]
        case "boolean":
            return text not in ("true", "false")
        case "array":
            return excludes(schema["items"], text)
        case _:
            # The document's `$` is the end of the text, not that of a line.
            pattern = re.sub(r"\$$", r"\\Z", schema.get("pattern", ""))
            is_of_length = schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", 10**9)
            return not is_of_length or re.match(pattern, text) is None or text not in schema.get("enum", [text])


# The operations


ALL = tuple(
    Operation(method.upper(), template) for template, methods in DOCUMENT["paths"].items() for method in methods
)
OPERATIONS = tuple(tried for tried in ALL if tried.template != "/v1/events/stream")
"""Without the answer that does not end by itself; ``test_feed.py`` tries it."""
WITH_BODY = tuple(tried for tried in OPERATIONS if tried.body_schema is not None)
COMMANDS = tuple(
    tried
    for tried in OPERATIONS
    # A report of a publication is a note unless it records a pause.
    if "Idempotency-Key" in tried.parameters("header") and not tried.template.endswith("/publication")
)
LISTS = tuple(tried for tried in OPERATIONS if tried.method == "GET" and "cursor" in tried.parameters("query"))


def of(parameter: str) -> tuple[Operation, ...]:
    """The operations that have a parameter in their path."""
    return tuple(tried for tried in OPERATIONS if parameter in tried.parameters("path"))
