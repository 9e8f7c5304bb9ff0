"""The async client and the blocking one have the same methods, with the same parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import chronolake

PAIRS = [
    (chronolake.AsyncClient, chronolake.Client),
    (chronolake.AsyncMarkers, chronolake.Markers),
    (chronolake.AsyncReading, chronolake.Reading),
    (chronolake.AsyncServices, chronolake.Services),
    (chronolake.AsyncStreamWriter, chronolake.StreamWriter),
    (chronolake.AsyncTable, chronolake.Table),
    (chronolake.AsyncTimeline, chronolake.Timeline),
    (chronolake.AsyncWrite, chronolake.Write),
]
TWINS = {"__aenter__": "__enter__", "__aexit__": "__exit__", "__aiter__": "__iter__"}


def members(class_: type) -> dict[str, Any]:
    """The public members of a class, by their names in the blocking client."""
    names = (name for name in dir(class_) if not name.startswith("_") or name in {*TWINS, *TWINS.values()})
    return {TWINS.get(name, name): inspect.getattr_static(class_, name) for name in names}


def signature(function: Callable[..., Any]) -> str:
    """A signature as text, without the words of async."""
    text = str(inspect.signature(function))
    return re.sub(r"Async(?=[A-Z])", "", text)


@pytest.mark.parametrize(("awaited", "blocking"), PAIRS, ids=lambda class_: class_.__name__)
def test_both_clients_have_the_same_members(awaited: type, blocking: type) -> None:
    assert members(awaited).keys() == members(blocking).keys()


@pytest.mark.parametrize(("awaited", "blocking"), PAIRS, ids=lambda class_: class_.__name__)
def test_both_clients_have_the_same_signatures(awaited: type, blocking: type) -> None:
    functions = {name: member for name, member in members(awaited).items() if inspect.isfunction(member)}

    assert {name: signature(function) for name, function in functions.items()} == {
        name: signature(members(blocking)[name]) for name in functions
    }


def test_both_clients_are_opened_alike() -> None:
    assert signature(chronolake.connect_async) == signature(chronolake.connect)


def test_the_package_exports_both_of_each_pair() -> None:
    awaited = {name.removeprefix("Async") for name in chronolake.__all__ if re.match(r"Async[A-Z]", name)}

    assert awaited <= set(chronolake.__all__)
    assert awaited == {blocking.__name__ for _, blocking in PAIRS}
