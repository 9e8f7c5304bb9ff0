"""Counts the values in Avro's binary form before they are decoded: each becomes an object of 50 bytes or more.

250 million empty arrays have as many bytes, which deflate to 256 KB, and take 16 GB once they are decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from chronolake_hudi.avro_bounds import DEPTH_MAX
from chronolake_hudi.errors import DamagedFile

VALUES_MAX: Final = 10_000_000
"""Maximum number of values of one record, nested ones too: that of a commit of 300,000 files."""
_BYTES_UNCOUNTED: Final = VALUES_MAX // DEPTH_MAX
"""A byte is of one value that has others in it only up to the bound of levels, so fewer bytes need no count."""
_LONG_BITS_MAX: Final = 63

_Skip = Callable[[int], int]
"""Takes the place of a value, and returns the place after it."""


def refuse_many(encoded: bytes, schema: object, path: str, advice: str) -> None:
    """Raise ``DamagedFile`` if a record of the file ``path`` has more than ``VALUES_MAX`` values.

    ``schema`` is as fastavro parsed it, and has bounds (``avro_bounds``). Raises ``IndexError`` or
    ``ValueError`` for bytes that are no such record.
    """
    if len(encoded) > _BYTES_UNCOUNTED and not _Counter(encoded).is_bounded(schema):
        raise DamagedFile(path, f"its record has more than {VALUES_MAX:,} values", advice)


class _TooMany(Exception):
    pass


class _Counter:
    """Walks over one encoded value. Each container counts the values that it holds."""

    def __init__(self, encoded: bytes) -> None:
        self._encoded = encoded
        self._left = VALUES_MAX
        self._named: dict[str, _Skip] = {
            "null": _fixed(0),
            "boolean": _fixed(1),
            "float": _fixed(4),
            "double": _fixed(8),
            "int": self._skip_long,
            "long": self._skip_long,
            "bytes": self._skip_bytes,
            "string": self._skip_bytes,
        }

    def is_bounded(self, schema: object) -> bool:
        try:
            self._skip_of(schema)(0)
        except _TooMany:
            return False
        return True

    def _count(self, values: int) -> None:
        self._left -= values
        if self._left < 0:
            raise _TooMany

    def _skip_of(self, schema: Any) -> _Skip:
        if isinstance(schema, str):
            return self._named[schema]
        if isinstance(schema, list):
            return self._union([self._skip_of(branch) for branch in schema])
        skip = self._complex(schema)
        if "name" in schema:
            self._named[schema["name"]] = skip
        return skip

    def _complex(self, schema: dict[str, Any]) -> _Skip:
        match schema["type"]:
            case "record" | "error":
                return self._record([self._skip_of(field["type"]) for field in schema["fields"]])
            case "array":
                return self._blocks([self._skip_of(schema["items"])])
            case "map":
                return self._blocks([self._skip_bytes, self._skip_of(schema["values"])])
            case "enum":
                return self._skip_long
            case "fixed":
                return _fixed(schema["size"])
            case simple:
                return self._skip_of(simple)

    def _record(self, skips: Sequence[_Skip]) -> _Skip:
        def skip_record(place: int) -> int:
            self._count(len(skips))
            for skip in skips:
                place = skip(place)
            return place

        return skip_record

    def _union(self, skips: Sequence[_Skip]) -> _Skip:
        def skip_union(place: int) -> int:
            branch, place = self._long(place)
            if branch < 0:
                raise ValueError(f"a union has the branch {branch}")
            return skips[branch](place)

        return skip_union

    def _blocks(self, skips: Sequence[_Skip]) -> _Skip:
        def skip_blocks(place: int) -> int:
            while True:
                items, place = self._long(place)
                if items == 0:
                    return place
                if items < 0:
                    # The size of the block in bytes follows.
                    items, place = -items, self._long(place)[1]
                self._count(items * len(skips))
                for _ in range(items):
                    for skip in skips:
                        place = skip(place)

        return skip_blocks

    def _skip_bytes(self, place: int) -> int:
        size, place = self._long(place)
        if size < 0:
            raise ValueError(f"a text has {size} bytes")
        return place + size

    def _skip_long(self, place: int) -> int:
        return self._long(place)[1]

    def _long(self, place: int) -> tuple[int, int]:
        byte = self._encoded[place]
        place += 1
        number, bits = byte & 0x7F, 7
        while byte & 0x80:
            if bits > _LONG_BITS_MAX:
                raise ValueError("a number has more than 64 bits")
            byte = self._encoded[place]
            place += 1
            number |= (byte & 0x7F) << bits
            bits += 7
        return (number >> 1) ^ -(number & 1), place


def _fixed(size: int) -> _Skip:
    return lambda place: place + size
