"""Filters as people type them: ``amount >= 10.50 and (region in ('eu', 'us') or not note starts with 'x')``.

    filter   = group { "or" group }
    group    = part { "and" part }
    part     = "not" part | "(" filter ")" | test
    test     = column ( operator value | ["not"] "in" "(" value { "," value } ")"
                      | "is" ["not"] "null" | "starts" "with" string )
    operator = "=" | "!=" | "<>" | "<" | "<=" | ">" | ">="
    value    = number | string | "true" | "false"

Strings stand in single quotes, columns with odd names in backquotes or double quotes, and a quote within is
doubled. A backslash is a character like others. Numbers have no leading zeros, for a string of digits would
lose them. Words are recognised regardless of their case, columns are not. Dates, timestamps and ``'NaN'`` are
strings of the form that ``chronolake_model.filters`` describes. ``unlike_sql`` says where Spark's SQL differs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Final, NoReturn, TypeAlias, assert_never

import msgspec

from chronolake_model.filters import (
    DEPTH_MAX,
    And,
    Compare,
    ComparisonOperator,
    Filter,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    StartsWith,
)

_TOKEN: Final = re.compile(
    r"""
      (?P<name>     [^\W\d]\w* )
    | (?P<number>   -?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)? )
    | (?P<string>   '(?:[^']|'')*' )
    | (?P<quoted>   "(?:[^"]|"")*" | `(?:[^`]|``)*` )
    | (?P<symbol>   <=|>=|!=|<>|[=<>(),] )
    | (?P<unknown>  \S )
    """,
    re.VERBOSE,
)
_PLAIN: Final = re.compile(r"[^\W\d]\w*")
_INTEGER: Final = re.compile(r"-?[0-9]+")
_ZEROS_FIRST: Final = re.compile(r"-?0[0-9]")
_WORDS: Final = frozenset({"and", "or", "not", "in", "is", "null", "starts", "with", "true", "false"})
"""Words of the language; columns that are called so stand in quotes."""
_OPERATORS: Final = {operator.value: operator for operator in ComparisonOperator} | {
    "<>": ComparisonOperator.NOT_EQUAL
}
_TESTS: Final = "=, !=, <, <=, >, >=, in, not in, is null, is not null or starts with"
_SHOWN_CHARS: Final = 40

_Rule: TypeAlias = Callable[[], Filter]


class _Token(msgspec.Struct, frozen=True):
    kind: str
    text: str
    place: int

    @property
    def word(self) -> str:
        """The word or symbol that it may be; nothing for a column or a value in quotes."""
        return self.text.lower() if self.kind in ("name", "symbol") else ""


def parse(text: str, types: Mapping[str, str] | None = None) -> Filter:
    """The filter that ``text`` says; raises ``ValueError``, which says where and what was expected.

    ``types`` are those of the columns, as a table's schema has them: a number that is compared with a decimal
    is taken digit by digit.
    """
    return _Parser(text, types or {}).whole()


def unlike_sql(text: str) -> str | None:
    """Why Spark's SQL reads the text of a filter in another way; None if no quotes or characters say so."""
    tokens = [(match.lastgroup, match.group()) for match in _TOKEN.finditer(text)]
    if any(kind == "string" and "\\" in token for kind, token in tokens):
        return "in SQL a backslash within a text escapes the next character"
    if any(kind == "quoted" and token[0] == '"' for kind, token in tokens):
        return "in SQL a text in double quotes is a value; write the name of a column in backquotes"
    if "${" in text:
        return "Spark replaces ${…} in SQL by a variable"
    return None


def written(wanted: Filter) -> str:
    """The filter as text. Parsed it is the same again, but for each ``and`` or ``or`` of a single part."""
    match wanted:
        case And():
            return " and ".join(map(_enclosed, wanted.filters))
        case Or():
            return " or ".join(map(_enclosed, wanted.filters))
        case Not(filter=IsNull(column=column)):
            return f"{_column(column)} is not null"
        case Not():
            return f"not {_enclosed(wanted.filter)}"
        case _:
            return f"{_column(wanted.column)} {_text_of_test(wanted)}"


def _text_of_test(test: Compare | In | IsNull | StartsWith) -> str:
    match test:
        case Compare():
            return f"{test.operator} {_value(test.value)}"
        case In():
            return f"in ({', '.join(map(_value, test.values))})"
        case IsNull():
            return "is null"
        case StartsWith():
            return f"starts with {_value(test.prefix)}"
        case _:
            assert_never(test)


def _enclosed(part: Filter) -> str:
    return f"({written(part)})" if isinstance(part, And | Or) else written(part)


def _column(name: str) -> str:
    is_plain = _PLAIN.fullmatch(name) and name.lower() not in _WORDS
    return name if is_plain else "`" + name.replace("`", "``") + "`"


def _value(value: Literal) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return "'" + value.replace("'", "''") + "'"
        case _:
            return repr(value)


class _Parser:
    """Goes through the tokens once: a method for each rule of the grammar."""

    def __init__(self, text: str, types: Mapping[str, str]) -> None:
        self._types = types
        self._tokens = [_Token(str(m.lastgroup), m.group(), m.start()) for m in _TOKEN.finditer(text)]
        self._tokens.append(_Token("end", "", len(text)))
        self._next = 0
        self._depth = 0

    def whole(self) -> Filter:
        filter_ = self._filter()
        if self._seen.kind != "end":
            self._fail("and, or, or the end")
        return filter_

    def _filter(self) -> Filter:
        parts = self._several(self._group, "or")
        return parts[0] if len(parts) == 1 else Or(parts)

    def _group(self) -> Filter:
        parts = self._several(self._part, "and")
        return parts[0] if len(parts) == 1 else And(parts)

    def _several(self, rule: _Rule, between: str) -> list[Filter]:
        parts = [rule()]
        while self._took(between):
            parts.append(rule())
        return parts

    def _part(self) -> Filter:
        if self._took("not"):
            return Not(self._nested(self._part))
        if self._took("("):
            filter_ = self._nested(self._filter)
            self._expect(")")
            return filter_
        return self._test()

    def _nested(self, rule: _Rule) -> Filter:
        # Python's own stack ends before a text does.
        self._depth += 1
        if self._depth > DEPTH_MAX:
            self._fail(f"at most {DEPTH_MAX} levels of parentheses and not")
        result = rule()
        self._depth -= 1
        return result

    def _test(self) -> Filter:
        column = self._name()
        if (operator := _OPERATORS.get(self._seen.word)) is not None:
            self._next += 1
            return Compare(column, operator, self._literal(column))
        if self._took("is"):
            negated = self._took("not")
            self._expect("null")
            return Not(IsNull(column)) if negated else IsNull(column)
        if self._took("starts"):
            self._expect("with")
            return StartsWith(column, self._string())
        negated = self._took("not")
        if not self._took("in"):
            self._fail(
                "in" if negated else "=, !=, <, <=, >, >=, in, not in, is null, is not null or starts with"
            )
        self._expect("(")
        values = [self._literal(column)]
        while self._took(","):
            values.append(self._literal(column))
        self._expect(")")
        return Not(In(column, values)) if negated else In(column, values)

    def _name(self) -> str:
        token = self._seen
        is_name = token.kind == "name" and token.word not in _WORDS
        if not is_name and (token.kind != "quoted" or len(token.text) == len("``")):
            self._fail("a column, not or (")
        self._next += 1
        quote = token.text[0]
        return token.text if is_name else token.text[1:-1].replace(quote * 2, quote)

    def _literal(self, column: str) -> Literal:
        token = self._seen
        match token.kind:
            case "string":
                return self._string()
            case "number":
                if _ZEROS_FIRST.match(token.text):
                    self._fail(f"for a string '{token.text}' in single quotes, for a number no leading zeros")
                number = _number(token.text, self._types.get(column, ""))
                if number is None:
                    self._fail("a number that is not so large")
                self._next += 1
                return number
            case _ if token.word in ("true", "false"):
                self._next += 1
                return token.word == "true"
            case _ if token.word == "null":
                self._fail("a value; null is asked for with is null")
            case _:
                self._fail("a value: a number, true, false, or a text in single quotes")

    def _string(self) -> str:
        token = self._seen
        if token.kind != "string":
            self._fail("a text in single quotes")
        self._next += 1
        return token.text[1:-1].replace("''", "'")

    @property
    def _seen(self) -> _Token:
        return self._tokens[self._next]

    def _took(self, word: str) -> bool:
        is_next = self._seen.word == word
        self._next += is_next
        return is_next

    def _expect(self, word: str) -> None:
        if not self._took(word):
            self._fail(word)

    def _fail(self, expected: str) -> NoReturn:
        token = self._seen
        if token.kind == "unknown" and token.text in "'\"`":
            raise ValueError(
                f"at character {token.place + 1} begins a text whose end, {token.text}, is missing"
            )
        text = repr(token.text[:_SHOWN_CHARS]) if token.text else "the end"
        if token.text == "=" and expected.startswith("a value"):
            text += " (one = is enough)"
        raise ValueError(f"at character {token.place + 1}: expected {expected}; found {text}")


def _number(digits: str, type_: str) -> int | float | str | None:
    """The literal for a column of the type; None when no literal says so large a number."""
    try:
        if _INTEGER.fullmatch(digits):
            return int(digits)
    except ValueError:
        return None
    if type_.strip().lower().startswith("decimal"):
        return digits
    number = float(digits)
    return number if math.isfinite(number) else None
