"""Calls of namespaces."""

from __future__ import annotations

import re

from chronolake.calls import base
from chronolake.calls.base import Call, post, query
from chronolake_model.names import NAME_PATTERN
from chronolake_model.tables import CreateNamespace, Namespace, NamespacePage

_NAME = re.compile(NAME_PATTERN, re.ASCII)


def create(body: CreateNamespace) -> Call[Namespace]:
    """Create a namespace."""
    return post("/v1/namespaces", Namespace, body)


def get(name: str) -> Call[Namespace]:
    """One namespace."""
    return Call("GET", _path(name), Namespace)


def list_all() -> Call[NamespacePage]:
    """All namespaces, by name."""
    return Call("GET", "/v1/namespaces", NamespacePage, query(limit=base.LIMIT_MAX))


def drop(name: str) -> Call[None]:
    """Drop an empty namespace."""
    return Call("DELETE", _path(name), type(None))


def _path(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"a namespace's name is letters, digits, _ and -, 128 at most, not {name!r}")
    return f"/v1/namespaces/{name}"
