"""A text stands for a member of an enum, in each parameter of the client: most users write one."""

from __future__ import annotations

import contextlib
import enum
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

import chronolake
from chronolake import BucketIndex, FileGroupName
from chronolake_model.vocabulary import IndexType
from tests.client.conftest import SCHEMA

CLASSES = (
    chronolake.Client,
    chronolake.Table,
    chronolake.Timeline,
    chronolake.Services,
    chronolake.StreamWriter,
)
Functions = dict[str, Callable[..., Any]]


def choices_of(hint: object) -> list[enum.StrEnum]:
    """The members of the enums that a parameter takes."""
    if isinstance(hint, type):
        return list(hint) if issubclass(hint, enum.StrEnum) else []
    return [choice for part in typing.get_args(hint) for choice in choices_of(part)]


def parameters() -> Iterator[tuple[str, str, list[enum.StrEnum]]]:
    """Functions with a parameter that takes members of an enum. Those that read and write rows take none."""
    for class_ in CLASSES:
        for name, function in inspect.getmembers(class_, inspect.isfunction):
            hints: dict[str, object] = {}
            with contextlib.suppress(NameError, AttributeError):
                hints = typing.get_type_hints(inspect.unwrap(function), localns={"pa": pa})
            for parameter, hint in hints.items():
                if parameter != "return" and choices_of(hint):
                    yield f"{class_.__name__}.{name}", parameter, choices_of(hint)


PARAMETERS = list(parameters())


@pytest.fixture
def functions(client: chronolake.Client, table: chronolake.Table, tmp_path: Path) -> Functions:
    """The functions, with what they need besides."""
    group = FileGroupName("", "00000000-0000-0000-0000-000000000000-0")
    new_table: dict[str, Any] = {
        "base_path": str(tmp_path / "new"),
        "schema": SCHEMA,
        "record_key_fields": ["id"],
    }
    return {
        "Client.can_i": partial(client.can_i, on="shop"),
        "Client.grant": partial(client.grant, "oidc:corp:ann", on="unknown.orders"),
        "Client.create_table": partial(client.create_table, "unknown.orders", **new_table),
        "Table.begin": table.begin,
        "Table.credentials": table.credentials,
        "Table.begin_many": partial(table.begin_many, 2),
        "Table.plan": lambda action="compaction", **named: table.plan(action, [group], **named),
        "Table.instants": table.instants,
        "Table.markers_of": partial(table.markers_of, "20260101000000000"),
        "Table.snapshot": table.snapshot,
        "Timeline.where": table.timeline.where,
        "Services.plan": table.services.plan,
        "StreamWriter.instant": partial(table.open_stream("s").instant, 0, "task"),
    }


@pytest.fixture
def requests(client: chronolake.Client, functions: Functions) -> list[tuple[str, bytes]]:
    """The requests that the functions send."""
    sent: list[tuple[str, bytes]] = []

    def add(request: httpx.Request) -> None:
        sent.append((str(request.url), request.content))

    client._transport._http.event_hooks["request"].append(add)
    return sent


def ended(function: Callable[..., Any], **named: Any) -> object:
    """The type of the result, or the code of the refusal."""
    try:
        result = function(**named)
        return type(list(result) if isinstance(result, Iterable) else result)
    except chronolake.ChronolakeError as refused:
        return refused.code


def test_the_functions_are_those_with_such_a_parameter(functions: Functions) -> None:
    assert functions.keys() == {function for function, _, _ in PARAMETERS}


@pytest.mark.parametrize(
    ("function", "parameter", "choice"),
    # The first choice is often the default, which is not sent.
    [(function, parameter, choices[1]) for function, parameter, choices in PARAMETERS],
)
def test_a_text_is_taken_as_the_member(
    functions: Functions, requests: list[tuple[str, bytes]], function: str, parameter: str, choice: enum.StrEnum
) -> None:
    by_member = ended(functions[function], **{parameter: choice})
    sent = list(requests)
    requests.clear()

    assert ended(functions[function], **{parameter: choice.value}) == by_member
    assert requests == sent


@pytest.mark.parametrize(("function", "parameter"), [(function, name) for function, name, _ in PARAMETERS])
def test_a_word_that_is_no_choice_is_named(functions: Functions, function: str, parameter: str) -> None:
    with pytest.raises((ValueError, chronolake.ChronolakeError), match="'nonsense'"):
        list(functions[function](**{parameter: "nonsense"}))


@pytest.mark.parametrize(("parameter", "choice"), [("type", "merge_on_read"), ("index", "simple")])
def test_an_unknown_type_or_index_of_a_table_is_refused_with_the_choices(
    functions: Functions, parameter: str, choice: str
) -> None:
    with pytest.raises(ValueError, match=f"^{parameter} is one of .*{choice}.*, not 'nonsense'"):
        functions["Client.create_table"](**{parameter: "nonsense"})


@pytest.mark.parametrize("index", list(IndexType))
def test_an_index_is_named_by_its_type(
    client: chronolake.Client, namespace: str, tmp_path: Path, index: IndexType
) -> None:
    table = client.create_table(
        f"{namespace}.of_text",
        base_path=str(tmp_path / "of_text"),
        schema=SCHEMA,
        record_key_fields=["id"],
        index=index.value,
    )

    assert table.definition.index == BucketIndex(index)
