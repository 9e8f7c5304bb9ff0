"""Writes examples/writers/vectors.json: values and the keys, hashes, buckets and names that every writer
must make of them.

Run by `make docs`. The tests compare the file with the client, with Spark, and with both example writers.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from chronolake import _keys
from chronolake_model import partition_paths
from chronolake_model.file_names import base_file_name, bucket_file_id, write_token
from chronolake_model.partition_paths import DEFAULT_PARTITION, Spelling

FILE: Final = Path(__file__).parent.parent / "examples" / "writers" / "vectors.json"
BUCKETS: Final = (1, 4, 7, 64, 100_000)
Json = dict[str, Any]

_STRINGS: Final = (
    *(
        "a",
        "abc",
        "7",
        "007",
        "true",
        "null",
        " spaced ",
        "Zürich",
        "Zu\u0308rich",
        "東京/🗼",
        "\ufeff",
        "\U0010ffff",
    ),
    *("line\nfeed", "tab\t", "\x01", "\x7f", "a,b:1", "__null__", "__empty__", "__HIVE_DEFAULT_PARTITION__"),
    *(
        "x" * 3,
        "x" * 4,
        "x" * 7,
        "x" * 8,
        "x" * 31,
        "x" * 32,
        "x" * 33,
        "é" * 16,
        "x" * 100,
        "0123456789" * 100,
    ),
)
_SINGLES: Final[dict[str, tuple[Any, ...]]] = {
    "boolean": (True, False),
    "tinyint": ("-128", "0", "127"),
    "smallint": ("-32768", "32767"),
    "int": ("-2147483648", "-1", "0", "42", "2147483647"),
    "bigint": ("-9223372036854775808", "0", "1000000", "9223372036854775807"),
    "decimal(10,2)": ("0.00", "-0.01", "12.50", "99999999.99"),
    "decimal(12,8)": ("0.00000000", "0.00000001", "-0.00000001", "1234.50000000"),
    "decimal(38,0)": ("-99999999999999999999999999999999999999", "0", "1000"),
    "string": _STRINGS,
    "date": ("-719529", "-719528", "-719162", "-1", "0", "18628", "2932896", "2932897"),
    "timestamp": ("-62135596800000000", "-1", "0", "1", "1767225600123456"),
    "timestamp_ntz": (
        *("-62167219200000001", "-1", "0", "100000", "120000", "1767225600123456", "1767225600000000"),
        "253402300800000000",
    ),
}
_PAIRS: Final = (
    *(("1", "2"), (None, "2"), ("", "2"), ("1", None), ("1", ""), ("Korea, South", "b"), ("a:1", "x,y:2")),
    *(
        (None, None),
        ("", ""),
        (None, ""),
        ("__null__", "x"),
        ("x", "__empty__"),
        ("1,b:2", "3"),
        ("1", "2,a:3"),
    ),
)
_PARTITIONS: Final = (
    None,
    "",
    "x",
    "a/b=c%d",
    "%2F",
    ".",
    "..",
    "a b",
    "Côte d'Ivoire",
    "東京/🗼",
    "\\",
    "[x]^{y}",
    "\x1f\x7f",
    DEFAULT_PARTITION,
)
_PARTITIONS_SPELLED: Final = (
    None,
    "",
    DEFAULT_PARTITION,
    "x",
    "a:b [c]",
    "a/b",
    "50%",
    "a=b",
    "\\",
    "..",
    ".hoodie",
)
_SPELLINGS: Final = (Spelling(hive_style=False), Spelling(url_encode=False), Spelling(False, False))
_TIMES: Final = (
    *(
        "-377705116800000000",
        "-62167219200000001",
        "-1",
        "0",
        "100000",
        "1767225607123456",
        "253402300800000000",
    ),
    *("1767225607000000", "9000000000000000000", None),
)


def vectors() -> Json:
    """The contents of the file."""
    return {
        "about": "Test vectors for writers of Chronolake tables; docs/writing.md explains every part.",
        "version": 1,
        "keys": [*_single_keys(), *_keys_of_several()],
        "partition_paths": _partition_paths(),
        "names": [_names(0, 0, (0, 0, 0), 0), _names(5, 0, (5, 2, 117), 41), _names(99_999, 3, (12, 0, 1), 7)],
    }


def text() -> str:
    """The text of the file."""
    parts = [f' "{name}": {_lines(value)}' for name, value in vectors().items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def column(values: Sequence[Any], type_: str) -> pa.Array:
    """The values as the file spells them, in an Arrow column of the table's type."""
    name = type_.partition("(")[0]
    match name:
        case "boolean" | "string":
            return pa.array(values, pa.bool_() if name == "boolean" else pa.string())
        case "decimal":
            precision, scale = (int(number) for number in type_[8:-1].split(","))
            decimals = [None if value is None else Decimal(value) for value in values]
            return pa.array(decimals, pa.decimal128(precision, scale))
        case _:
            physical, logical = _PHYSICAL[name]
            numbers = [None if value is None else int(value) for value in values]
            return pa.array(numbers, physical).cast(logical)


_PHYSICAL: Final = {
    "tinyint": (pa.int8(), pa.int8()),
    "smallint": (pa.int16(), pa.int16()),
    "int": (pa.int32(), pa.int32()),
    "bigint": (pa.int64(), pa.int64()),
    "date": (pa.int32(), pa.date32()),
    "timestamp": (pa.int64(), pa.timestamp("us", "UTC")),
    "timestamp_ntz": (pa.int64(), pa.timestamp("us")),
}


def _lines(value: Any) -> str:
    """A list with each entry on a line of its own; anything else on one."""
    if not isinstance(value, list):
        return json.dumps(value)
    return "[\n" + ",\n".join(f"  {json.dumps(entry)}" for entry in value) + "\n ]"


def _single_keys() -> list[Json]:
    rows = [(type_, value) for type_, values in _SINGLES.items() for value in (*values, None)]
    return [_key([["k", type_]], [value]) for type_, value in (*rows, ("string", ""))]


def _keys_of_several() -> list[Json]:
    mixed = [["id", "bigint"], ["day", "date"], ["price", "decimal(12,8)"]]
    return [
        *(_key([["a", "string"], ["b", "string"]], list(pair)) for pair in _PAIRS),
        _key(mixed, ["7", "18628", "0.00000001"]),
        _key(mixed, [None, "0", None]),
    ]


def _key(fields: list[list[str]], values: list[Any]) -> Json:
    spelled = _spelled(fields, values)
    key = _keys.record_keys([name for name, _ in fields], spelled)[0].as_py()
    vector: Json = {"fields": fields, "values": values, "texts": [text[0].as_py() for text in spelled]}
    vector["key"] = key
    if key is None:
        return vector
    return vector | {
        "xxhash64": str(_keys.xxhash64(spelled).view("int64")[0]),
        "buckets": {str(count): int(_keys.buckets(spelled, count)[0]) for count in BUCKETS},
    }


def _partition_paths() -> list[Json]:
    fields = [["region", "string"], ["day", "date"], ["a=b", "int"]]
    rows = [(value, "18628", "1") for value in _PARTITIONS] + [("eu", None, None)]
    vectors = [{"fields": fields, "values": list(row), "path": _path(fields, row)} for row in rows]
    times = [["at", "timestamp"], ["local", "timestamp_ntz"]]
    vectors += [{"fields": times, "values": [value] * 2, "path": _path(times, [value] * 2)} for value in _TIMES]
    vectors += [_path_in(spelling, value) for spelling in _SPELLINGS for value in _PARTITIONS_SPELLED]
    return [*vectors, {"fields": [], "values": [], "path": ""}]


def _path_in(spelling: Spelling, value: str | None) -> Json:
    fields = [["r:n", "string"], ["day", "date"]]
    path = None
    with contextlib.suppress(ValueError):
        names = [name for name, _ in fields]
        path = partition_paths.partition_path(names, [value, "2021-01-01"], spelling)
    return {"fields": fields, "properties": spelling.properties, "values": [value, "18628"], "path": path}


def _path(fields: list[list[str]], values: Sequence[Any]) -> str | None:
    texts = [
        _keys.partition_texts(column([value], type_), type_)
        for (_, type_), value in zip(fields, values, strict=True)
    ]
    names = [name for name, _ in fields]
    with contextlib.suppress(ValueError):
        partition_paths.partition_path(names, [text[0].as_py() for text in texts])
        path: str = _keys.partition_paths(names, texts)[0].as_py()
        return path
    return None


def _spelled(fields: list[list[str]], values: Sequence[Any]) -> list[pa.Array]:
    pairs = zip(fields, values, strict=True)
    return [_keys.texts(column([value], field[1]), field[1]) for field, value in pairs]


def _names(bucket: int, generation: int, attempt: tuple[int, int, int], number: int) -> Json:
    requested_time = "20260131100000123"
    token = write_token(*attempt)
    file_id = bucket_file_id(bucket, generation)
    name = base_file_name(file_id, token, requested_time)
    return {
        "bucket": bucket,
        "generation": generation,
        "attempt": list(attempt),
        "requested_time": requested_time,
        "number": number,
        "file_id": file_id,
        "write_token": token,
        "file_name": name,
        "marker": f"region=eu/{name}.marker.CREATE",
        "commit_seqno": f"{requested_time}_{attempt[0]}_{number}",
    }


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
