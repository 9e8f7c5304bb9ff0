"""The pattern of lines that teach nothing new: strict decoding accepts them, and learns nothing."""

from __future__ import annotations

import copy
import io
import itertools
import json
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from chronolake.ingest import json_patterns, json_records, operations
from chronolake.ingest.json_shape import Shape
from chronolake_spark import errors

FILE = Path("a.jsonl")


NUMBERS = ["0", "-0", "7", "-345", "1.5", "0.50", "0.05", "-10.25", "0.1234567890123456", "9" * 18, "9" * 40]
NUMBERS += [str(2**63 - 1), str(2**63), "1e2", "1.5e1", "1e-3", "01", "01.5", ".5", "1.", "+1", "NaN"]
STRINGS = [
    '"x"',
    '""',
    '"é"',
    r'"a\"b\\"',
    r'"\u00e9"',
    r'"\ud83d\ude00"',
    r'"\uD800"',
    r'"\ud800x"',
    r'"\udC00"',
]
STRINGS += [
    r'"\\ud800"',
    '"a\tb"',
    '"\x01"',
    r'"\x"',
    "'x'",
    '"x',
    'x"',
    '"x":1',
    '"D"',
    '" Insert "',
    '"merge"',
]
CONSTANTS = ["null", "true", "false", "nul", "", "{}", "[]", "[null]", '{"x":null}']
VALUES = NUMBERS + STRINGS + CONSTANTS
MEMBERS = ['"a":1', '"b":1', '"c":1']
OBJECTS = [
    f"{{{','.join(members)}}}"
    for members in itertools.chain.from_iterable(itertools.product(MEMBERS, repeat=count) for count in range(4))
]
OBJECTS += [
    '{"a":1,"A":1}',
    '{"a":1 "b":1}',
    '{"a":1,}',
    '{,"a":1}',
    "{a:1}",
    '{"a" 1}',
    '{"a":1}{"a":1}',
    '{"a":1',
]


def embedded(template: str, values: list[str]) -> list[str]:
    return [template.replace("?", value) for value in values]


LINES = {
    "value": embedded('{"v":?}', VALUES),
    "value in an array": embedded('{"v":[?]}', VALUES),
    "second value in an array": embedded('{"v":[null,?]}', VALUES),
    "operation": embedded('{"op":?}', VALUES),
    "object": OBJECTS,
    "nested object": embedded('{"v":?}', OBJECTS),
    "text around it": [
        before + '{"v":1}' + behind
        for before in ("", " ", "[", "\r", "\n")
        for behind in ("", " ", "\n", "\r\n", "\r", "\r\r\n", "\n\n", "}", ",", '{"v":1}', '\n{"v":1}', "\x0b")
    ],
}


def shape_of(lines: Iterable[str]) -> Shape | None:
    """The shape of the records of ``lines``, or None if a file of these lines is refused."""
    shape = Shape("")
    try:
        for line in lines:
            add(shape, line)
    except (errors.SourceUnreadable, AssertionError, ValueError):
        return None
    return shape


def add(shape: Shape, line: str) -> None:
    """Add the record of a line as a file's reader does."""
    [text] = io.StringIO(line, newline=None)
    record = json_records.line_record(FILE, 1, text)
    assert record is not None
    shape.add(record.fields, record)
    operation = record.fields.get("op")
    assert operation is None or operations.is_known(str(operation))


def matching(shape: Shape, lines: list[str]) -> list[str]:
    """The lines that the pattern matches."""
    pattern = json_patterns.line_pattern(shape, "op")
    if pattern is None:
        return []
    matches = pc.match_substring_regex(pa.array([line.encode() for line in lines], pa.large_binary()), pattern)
    return list(itertools.compress(lines, matches.to_pylist()))


@pytest.mark.parametrize("lines", LINES.values(), ids=LINES)
def test_a_line_that_matches_is_strict_and_leaves_the_shape_as_it_is(lines: list[str]):
    records = [line for line in lines if shape_of([line]) is not None]
    matches = 0
    shapes = map(shape_of, itertools.combinations(records, 2))
    for shape in filter(None, shapes):
        for line in matching(shape, lines):
            same_shape = copy.deepcopy(shape)
            add(same_shape, line)
            assert same_shape == shape, line
            matches += 1
    assert matches


@pytest.mark.parametrize(
    ("known_lines", "line"),
    [
        (['{"id":10,"s":"x"}'], '{ "id" : 7 , "s" : null }\r\n'),
        (['{"a":1.25}', '{"a":100}'], '{"a":-10.5}'),
        (['{"b":1}', '{"a":1,"b":1,"c":1}'], '{"a":1,"b":2}'),
        (['{"a":1,"c":1}', '{"a":1,"b":1,"c":1}'], '{"a":1,"b":2,"c":3}'),
        (['{"a":1}', "{}", '{"b":1}'], '{"b":1}'),
        (['{"é":"x"}'], r'{"\u00e9":"\ud83d\ude00 \u00e9 \" \\ud800"}'),
        (['{"s":{"a":[true]},"t":[{"x":1}]}'], '{"s":{"a":[]},"t":[{"x":1},null,{"x":2}]}'),
        (['{"op":"d"}'], '{"op":" Insert "}'),
        (['{"id":1000000000000000000}'], '{"id":8999999999999999999}'),
        (['{"v":0.1234567890123456}'], '{"v":0.9876543210987654}'),
    ],
)
def test_a_line_like_those_before_matches(known_lines: list[str], line: str):
    shape = shape_of(known_lines)

    assert shape is not None
    assert matching(shape, [line])


def test_a_record_of_very_many_fields_has_a_pattern_that_matches():
    line = json.dumps({f"field {number}": "x" for number in range(500)})
    shape = shape_of([line])

    assert shape is not None
    assert matching(shape, [line])
