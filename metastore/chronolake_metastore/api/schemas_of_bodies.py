"""The JSON schemas of bodies and answers, by msgspec: it says exactly what the server's decoder takes.

Litestar's own lose the bounds of what is in lists, that unknown fields are refused, and that a number may be an
integer and a float at once, which its ``oneOf`` refuses.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any, Final

import msgspec

import chronolake_model
from chronolake_metastore.api.parameters_in_openapi import PATTERNS
from chronolake_model.names import document_pattern

Json = dict[str, Any]

_INT32_MAX: Final = 2**31 - 1
_REFERENCE: Final = "#/components/schemas/{name}"


def exact(components: Json) -> Json:
    """The schemas of these components, and of all that they refer to, as msgspec has them."""
    classes = _classes()
    known = [classes[name] for name in components if name in classes]
    _, made = msgspec.json.schema_components(known, ref_template=_REFERENCE)
    schemas = {name: _polished(schema) for name, schema in {**components, **made}.items()}
    return dict(sorted(schemas.items()))


def _classes() -> dict[str, type]:
    """The types of the vocabulary, by their names."""
    modules = (
        importlib.import_module(f"{chronolake_model.__name__}.{module.name}")
        for module in pkgutil.iter_modules(chronolake_model.__path__)
    )
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__
    }


def _polished(schema: Any) -> Any:
    """``schema`` with the strict patterns of times, and docstrings as texts."""
    match schema:
        case dict():
            polished = {name: _polished(value) for name, value in schema.items()}
            if isinstance(pattern := polished.get("pattern"), str):
                documented = document_pattern(pattern)
                polished["pattern"] = PATTERNS.get(documented, documented)
            if isinstance(text := polished.get("description"), str):
                polished["description"] = inspect.cleandoc(text)
            return _for_generators(polished)
        case list():
            return [_polished(value) for value in schema]
        case _:
            return schema


def _for_generators(schema: Json) -> Json:
    """``schema`` as generators of clients understand it; it says the same.

    Without a format Java has 32 bits for an integer, and without a type Go has any value for a word of a list.
    Of a list that may be null openapi-generator makes Java that does not compile, and of a text a class of its
    own, unless the type says so.
    """
    if schema.get("type") == "integer" and schema.get("maximum", _INT32_MAX + 1) > _INT32_MAX:
        return {**schema, "format": "int64"}
    if "type" not in schema and schema.get("enum") and all(isinstance(word, str) for word in schema["enum"]):
        return {**schema, "type": "string"}
    match schema.get("anyOf"):
        case [{"type": str(kind)} as values, {"type": "null"}] if "enum" not in values:
            outside = {name: value for name, value in schema.items() if name != "anyOf"}
            return {**values, **outside, "type": [kind, "null"]}
        case _:
            return schema
