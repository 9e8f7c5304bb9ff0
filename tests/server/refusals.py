"""The rule of every refusal: a documented problem, after which nothing has changed."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import httpx
import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, settings, strategies as st

from chronolake_model.problems import Problem, ProblemCode
from tests.examples import examples
from tests.server import database
from tests.server.operations import COMMANDS, Operation
from tests.server.rest import Json

_STATUS = {str(code): code.status for code in ProblemCode}

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=10), inside, max_size=4),
    max_leaves=10,
)
FUZZ = settings(
    max_examples=examples(40),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
"""The same examples in every run: a failure here is reproduced."""


@dataclass
class ServedTable:
    """A server with a table whose timeline has an instant in each state."""

    connection: psycopg.Connection[database.Row]
    http: httpx.Client
    requested: str
    inflight: str
    completed: str
    rolled_back: str

    def send(self, operation: Operation, *, path: str | None = None, **request: Any) -> httpx.Response:
        """Send a request of an operation, about the inflight instant unless ``path`` says otherwise."""
        return self.http.request(**request_of(operation, path or operation.path(self.inflight), **request))

    def contents(self) -> dict[str, list[str]]:
        """All that the database holds."""
        return database.rows_of(self.connection, *database.LOG, *database.PROJECTIONS, database.MARKERS)

    def timelines(self) -> dict[str, list[str]]:
        """All stored events, projections and markers, without refusals."""
        return database.rows_of(self.connection, *database.EVENTS, *database.PROJECTIONS, database.MARKERS)

    def decided(self) -> dict[str, int]:
        """How many commands were decided, and how many of them refused."""
        return database.counts_of(self.connection, *database.DECISIONS)


def request_of(tried: Operation, path: str, *, params: Json | None = None, **request: Any) -> Json:
    """A request of an operation, whose required parameters in the query stay."""
    return {"method": tried.method, "url": httpx.URL(path).copy_merge_params(params or {})} | request


def check_problem(tried: Operation, response: httpx.Response) -> Problem:
    """The problem of a response, which must be of the documented form and documented for the operation."""
    assert 400 <= response.status_code < 500, response.text
    assert response.headers["content-type"].partition(";")[0] == "application/problem+json"
    problem = msgspec.json.decode(response.content, type=Problem)
    assert _STATUS[problem.code] == problem.status == response.status_code
    assert problem.detail
    if problem.code not in (ProblemCode.ROUTE_NOT_FOUND, ProblemCode.METHOD_NOT_ALLOWED):
        documented = tried.description["responses"][str(problem.status)]
        assert f"`{problem.code}`" in documented["description"], problem
    return problem


def is_decision(tried: Operation, problem: Problem) -> bool:
    """Whether a problem is the decision on a command, and is therefore recorded."""
    return (
        tried in COMMANDS
        and problem.status in (404, 409, 410, 422)
        and problem.code not in (ProblemCode.ROUTE_NOT_FOUND, ProblemCode.IDEMPOTENCY_KEY_REUSED)
    )


def named(cases: tuple[Operation, ...]) -> pytest.MarkDecorator:
    """Parametrize a test by operations."""
    return pytest.mark.parametrize("tried", cases, ids=str)


def cursor_of(raw: bytes) -> str:
    """A cursor that says ``raw``."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
