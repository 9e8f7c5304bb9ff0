"""The reference of the Python API: signatures and docstrings of what callers use."""

from __future__ import annotations

import enum
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

import chronolake
import chronolake_spark
from chronolake import streaming
from chronolake_spark import table_services
from chronolake_spark.write import instant_options, merges
from docs import markdown_text

_LINE_CHARS_MAX: Final = 100
_INDENT: Final = "    "
_STARS: Final[Mapping[object, str]] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}
_SECTIONS: Final[tuple[tuple[str, str, tuple[Any, ...]], ...]] = (
    (
        "Spark",
        "`import chronolake_spark`. [Spark](../spark.md) shows how to use it.",
        (
            chronolake_spark.session,
            chronolake_spark.create_table,
            chronolake_spark.table,
            chronolake_spark.catalog,
            chronolake_spark.SparkTable,
            instant_options.InstantOptions,
            instant_options.CommitOptions,
            table_services.ServicesExecuted,
            table_services.LeftPlan,
            chronolake_spark.writer,
            chronolake_spark.BatchWriter,
            merges.Merge,
            chronolake_spark.row_counts,
            chronolake_spark.RowCounts,
        ),
    ),
    (
        "The client",
        "`import chronolake`. The client for an event loop has the same functions: `connect_async`, "
        "`AsyncClient`, `AsyncTable` and so on. Errors are in `chronolake.errors`, those of rows that "
        "do not fit in `chronolake.slices.errors`, and those of Spark's part in `chronolake_spark.errors`; all "
        "are `chronolake.ChronolakeError`. The fields of instants, snapshots and so on are those of the "
        "[bodies of REST](rest.md#bodies).",
        (
            chronolake.connect,
            chronolake.ClientCredentials,
            chronolake.ServerAccess,
            chronolake.Client,
            chronolake.Cut,
            chronolake.Table,
            chronolake.Timeline,
            chronolake.Write,
            chronolake.Markers,
            chronolake.Reading,
            chronolake.StreamWriter,
            chronolake.col,
            chronolake.Column,
        ),
    ),
    (
        "The writer of a streaming task",
        "`from chronolake import streaming`; it needs `chronolake[arrow]`. "
        "[Streams](../concepts/streams.md#the-writer-of-a-task) shows how to use it.",
        (
            streaming.TaskWriter,
            streaming.Limits,
            streaming.Written,
            streaming.StreamFiles,
            streaming.TaskFiles,
            streaming.Flushed,
        ),
    ),
)


def lines() -> Iterator[str]:
    """The lines of the page."""
    yield from ("# The Python API", "", "From the signatures and docstrings of the code.")
    for title, about, objects in _SECTIONS:
        yield from ("", f"## {title}", "", about)
        for value in objects:
            yield from _class(value) if inspect.isclass(value) else _function(value, value.__name__)


def _class(cls: type) -> Iterator[str]:
    yield from ("", f"### {cls.__name__}", *_docstring(cls))
    if fields := [
        f"{name}: {_form(form)}" for name, form in inspect.get_annotations(cls).items() if name[0] != "_"
    ]:
        yield from _code(fields)
    for name, member in _members(cls).items():
        if isinstance(member, property):
            getter = member.fget
            assert getter is not None
            returns = inspect.signature(getter).return_annotation
            yield from (
                "",
                f"#### `{cls.__name__}.{name}`",
                *_code([f"{name}: {returns}"]),
                *_docstring(getter),
            )
        else:
            yield from _function(member, f"{cls.__name__}.{name}", level=4)


def _form(annotation: Any) -> str:
    """The text of an annotation, which a TypedDict keeps in an object."""
    return str(getattr(annotation, "__forward_arg__", annotation))


def _members(cls: type) -> dict[str, Any]:
    """The public properties and methods, those of base classes first, in the order of the code."""
    members: dict[str, Any] = {}
    for base in reversed(cls.__mro__[:-1]):
        for name, member in vars(base).items():
            function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if not name.startswith("_") and (inspect.isfunction(function) or isinstance(function, property)):
                members[name] = function
    return members


def _function(function: Callable[..., Any], name: str, level: int = 3) -> Iterator[str]:
    yield from ("", f"{'#' * level} `{name}`", *_code(_signature(function)), *_docstring(function))


def _signature(function: Callable[..., Any]) -> list[str]:
    signature = inspect.signature(inspect.unwrap(function))
    kept = [parameter for parameter in signature.parameters.values() if parameter.name not in {"self", "cls"}]
    texts = []
    for before, parameter in zip([None, *kept], kept, strict=False):
        is_first_keyword = parameter.kind is parameter.KEYWORD_ONLY and (
            before is None or before.kind not in {parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL}
        )
        texts += ["*"] if is_first_keyword else []
        texts.append(_parameter(parameter))
    head, end = f"def {function.__name__}(", f") -> {_double_quoted(str(signature.return_annotation))}: ..."
    line = head + ", ".join(texts) + end
    if len(line) <= _LINE_CHARS_MAX:
        return [line]
    return [head, *(f"{_INDENT}{text}," for text in texts), end]


def _parameter(parameter: inspect.Parameter) -> str:
    text = f"{_STARS.get(parameter.kind, '')}{parameter.name}"
    if parameter.annotation is not parameter.empty:
        text += f": {_double_quoted(str(parameter.annotation))}"
    return text if parameter.default is parameter.empty else f"{text} = {_default(parameter.default)}"


def _default(value: object) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, msgspec.Struct):
        assert value == type(value)(), "the text below leaves the fields out"
        return f"{type(value).__name__}()"
    if inspect.isroutine(value):
        return f"{value.__module__}.{value.__name__}"
    return _double_quoted(repr(value))


def _double_quoted(code: str) -> str:
    """As ruff formats the blocks of a page."""
    return code.replace("'", '"')


def _docstring(documented: Any) -> Iterator[str]:
    """The paragraphs of a docstring; what is indented after ``::`` is code."""
    code: list[str] = []
    for part in inspect.cleandoc(documented.__doc__ or "").split("\n\n"):
        if part.startswith(_INDENT):
            code += [*([""] if code else []), *textwrap.dedent(part).splitlines()]
            continue
        if code:
            yield from _code(code)
            code = []
        if part:
            text = markdown_text.flowed(part)
            yield from ("", re.sub(r"(\w|`)::$", r"\1:", text).removesuffix("::").rstrip())
    if code:
        yield from _code(code)


def _code(code: list[str]) -> Iterator[str]:
    yield from ("", "```python", *code, "```")
