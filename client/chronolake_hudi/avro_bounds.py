"""Avro schemas by which any bytes can be read in bounded time, memory and stack. Others are refused.

fastavro reads without bounds: it ends the process at a deep value of a recursive schema, and reads an array of
2^40 nulls, which take no bytes, to its end. So here each value takes at least a byte, and values nest up to
``DEPTH_MAX`` levels. Reading is then bounded by the number of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from chronolake_hudi.errors import DamagedFile

DEPTH_MAX: Final = 64
"""Levels of types in a schema: a record, its field's union, an array in it, and so on."""
_PRIMITIVE: Final = frozenset({"boolean", "bytes", "double", "float", "int", "long", "string"})
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
_ADVICE: Final = "Hudi writes no such file: restore it from a copy"


def refuse_unbounded(schema: object, path: str) -> None:
    """Raise ``DamagedFile`` unless values of ``schema`` in the file ``path`` are bounded by their bytes.

    Refused are recursive types, more than ``DEPTH_MAX`` levels, and types whose values take no bytes: null
    outside a union, records without fields, and ``fixed`` of size 0. Whether the schema is one of Avro at all
    is not checked.
    """
    _Schema(path).depth(schema, "", 1)


class _Schema:
    def __init__(self, path: str) -> None:
        self._path = path
        self._depths: dict[str, int | None] = {}
        """Levels of the named types so far; None while the type is being defined."""

    def depth(self, schema: object, namespace: str, level: int) -> int:
        """The levels of a type, which is in a type at ``level - 1``."""
        if level > DEPTH_MAX:
            raise self._refused(f"has more than {DEPTH_MAX} levels")
        match schema:
            case "null":
                raise self._refused("has nulls that take no bytes")
            case str():
                below = self._depth_of_name(schema, namespace)
            case Mapping():
                below = self._depth_of_type(schema, namespace, level)
            case list():
                branches = [branch for branch in schema if branch not in ("null", {"type": "null"})]
                below = 1 + self._deepest(branches, namespace, level)
            case _:
                below = 1
        if level - 1 + below > DEPTH_MAX:
            raise self._refused(f"has more than {DEPTH_MAX} levels")
        return below

    def _depth_of_name(self, name: str, namespace: str) -> int:
        if name in _PRIMITIVE:
            return 1
        full_name = _full_name(name, namespace)
        if full_name not in self._depths:
            raise self._refused(f"names an unknown type {name[:100]!r}")
        depth = self._depths[full_name]
        if depth is None:
            raise self._refused(f"is recursive: {name[:100]!r} is within itself")
        return depth

    def _depth_of_type(self, schema: Mapping[str, Any], namespace: str, level: int) -> int:
        kind = schema.get("type")
        if not isinstance(kind, str) or kind not in (*_NAMED, "array", "map"):
            # A primitive type with properties, or a type in an object of its own.
            return 1 + self.depth(kind, namespace, level + 1)
        if kind in ("array", "map"):
            return 1 + self.depth(schema.get("items" if kind == "array" else "values"), namespace, level + 1)
        name = _full_name(str(schema.get("name", "")), str(schema.get("namespace", namespace) or ""))
        self._depths[name] = None
        depth = 1
        if kind in ("record", "error"):
            fields = [field.get("type") for field in schema.get("fields", ()) if isinstance(field, Mapping)]
            if not fields:
                raise self._refused("has a record without fields, which takes no bytes")
            depth += self._deepest(fields, name.rpartition(".")[0], level)
        elif kind == "fixed" and not schema.get("size"):
            raise self._refused("has a fixed type of size 0, which takes no bytes")
        self._depths[name] = depth
        return depth

    def _deepest(self, schemas: Sequence[object], namespace: str, level: int) -> int:
        return max((self.depth(schema, namespace, level + 1) for schema in schemas), default=0)

    def _refused(self, problem: str) -> DamagedFile:
        return DamagedFile(self._path, f"its Avro schema {problem}", _ADVICE)


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
