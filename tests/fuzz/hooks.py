"""Facts for the request generator that the OpenAPI document cannot express."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any

import schemathesis
from schemathesis import GenerationMode
from schemathesis.core import NotSet
from schemathesis.hooks import HookContext

_TIME = re.compile(r"[0-9]{4}0229[0-9]{9}([0-9]{3})?")
_PLACES = ("cursor", "after", "Last-Event-ID", "Chronolake-Table-Id")
_POLICIES = ("retain_commits", "retain_hours", "retain_versions")


@schemathesis.hook
def before_call(context: HookContext, case: Any, kwargs: dict[str, Any]) -> None:
    """Make generated requests satisfy the rules that a schema cannot express.

    A cursor must come from a page, and a table id from a table: no other value is valid, in any form. A clean
    has one policy, and a range of completion times begins before it ends. The 29th of February and NUL are left
    out. Integers are written without a fraction, because the server refuses ``1.0``.

    A missing body stays missing. Schemathesis checks the body again after a hook has set it. It takes a missing
    body for an invalid one, although it is optional, and would expect a refusal.
    """
    if case.meta is None or case.meta.generation.mode is not GenerationMode.POSITIVE:
        return
    for holder in (case.query, case.headers, case.body):
        if isinstance(holder, MutableMapping):
            for name in _PLACES:
                holder.pop(name, None)
    case.path_parameters, case.query = _plain(case.path_parameters), _plain(case.query)
    if not isinstance(case.body, NotSet):
        case.body = _plain(case.body)
    if isinstance(case.query, dict) and {"from", "to"} <= case.query.keys():
        case.query["from"], case.query["to"] = sorted((case.query["from"], case.query["to"]), key=_order)
        if case.query["from"] == "earliest":
            # It is a time of the table, which may be later than any other that is named.
            case.query["to"] = "latest"
    if isinstance(case.body, dict):
        given = [name for name in _POLICIES if case.body.get(name) is not None]
        for name in given[1:]:
            del case.body[name]


def _order(time: str) -> str:
    return {"earliest": "", "latest": "x"}.get(time, time.ljust(20, "0"))


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {name: _plain(member) for name, member in value.items()}
        case list():
            return [_plain(item) for item in value]
        case float() if value.is_integer():
            return int(value)
        case str() if "\0" in value:
            return value.replace("\0", "0")
        case str() if _TIME.fullmatch(value):
            return f"{value[:4]}0228{value[8:]}"
        case _:
            return value
