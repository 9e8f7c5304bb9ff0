"""The forms of values in words, for the reference of the API in HTML and in Markdown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

Json = dict[str, Any]
_BOUNDS = ("minimum", "maximum", "minLength", "maxLength")


class Markup(msgspec.Struct, frozen=True):
    """How the names of bodies and constant values are written."""

    link: Callable[[str], str]
    constant: Callable[[str], str]


def form(schema: Json, markup: Markup) -> str:
    """The form of a value: a name of a body, a list of something, a plain type with its bounds."""
    if "$ref" in schema:
        return markup.link(schema["$ref"].rpartition("/")[2])
    for several in ("oneOf", "anyOf", "allOf"):
        if several in schema:
            return " or ".join(form({**_bounds_of(schema), **variant}, markup) for variant in schema[several])
    match schema.get("type"):
        case [kind, "null"]:
            return f"{form({**schema, 'type': kind}, markup)} or null"
        case _:
            return _plain(schema, markup) + _bounds(schema)


def _plain(schema: Json, markup: Markup) -> str:
    match schema.get("type"):
        case "array":
            words = f"list of {form(schema['items'], markup)}"
        case "object" if schema.get("additionalProperties") == {"type": "string"}:
            words = "object of strings"
        case "integer":
            words = "integer"
        case "string" if schema.get("enum"):
            words = " or ".join(map(markup.constant, schema["enum"]))
        case kind:
            words = markup.constant(schema["const"]) if "const" in schema else str(schema.get("format", kind))
    return words


def content(holder: Json) -> Json:
    """The schema of a body."""
    schema: Json = next(iter(holder["content"].values()))["schema"]
    return schema


def forms(answer: Json, markup: Markup) -> str:
    """All forms of an answer."""
    kinds: Json = answer.get("content", {})
    named = (
        form(media["schema"], markup) if name.endswith("json") else markup.constant(name)
        for name, media in kinds.items()
    )
    return " or ".join(named) or "nothing"


def meaning(status: str, answer: Json) -> str:
    """When an answer is given."""
    if status == "200" and not answer["description"].startswith("Request fulfilled"):
        return str(answer["description"])
    return "done" if status.startswith("2") else str(answer["description"])


def by_tag(document: Json) -> dict[str, list[tuple[str, str, Json]]]:
    """The operations, each with its method and path, by the tag that each has."""
    tags: dict[str, list[tuple[str, str, Json]]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tags.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    return tags


def _bounds_of(schema: Json) -> Json:
    return {name: schema[name] for name in _BOUNDS if name in schema}


def _bounds(schema: Json) -> str:
    if "minimum" in schema and "maximum" in schema:
        return f", {schema['minimum']:.0f} to {schema['maximum']:.0f}"
    if "maxLength" in schema:
        return f", {schema.get('minLength', 0)} to {schema['maxLength']} characters"
    return ""
