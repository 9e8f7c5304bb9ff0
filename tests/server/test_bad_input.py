"""The answer to any invalid body is a documented problem, never a failure, and nothing has changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import given, strategies as st

from chronolake_metastore.api import known_fields
from chronolake_model.instants import BeginInstant
from chronolake_model.markers import CreateMarkers
from tests.fix_server import ServerProcess
from tests.server import bad_bodies, operations, rest
from tests.server.operations import OPERATIONS, Operation
from tests.server.refusals import FUZZ, JSON_VALUES, NEVER_BEGUN, ServedTable, named

MAX_BODY_BYTES = 2_048


def test_these_tests_cover_every_operation_of_the_openapi_document(served: ServedTable) -> None:
    documented = {
        (method.upper(), template)
        for template, methods in served.openapi["paths"].items()
        for method in methods
    }

    assert {(tried.method, tried.template) for tried in (*OPERATIONS, *operations.STREAMS)} == documented


# ---------------------------------------------------------------------------------- bodies


@named(operations.WITH_BODY)
def test_a_body_of_another_form_is_refused(refuse: Callable[..., None], tried: Operation) -> None:
    for _, raw in bad_bodies.not_json(tried):
        refuse(tried, 400, "invalid-request", content=raw, headers={"Content-Type": "application/json"})


@named(operations.WITH_BODY)
def test_a_field_of_another_type_is_refused(
    served: ServedTable, refuse: Callable[..., None], tried: Operation
) -> None:
    assert tried.body is not None
    for at, raw in bad_bodies.wrong_types(tried):
        body = bad_bodies.with_raw(tried.body(served.inflight), at, raw)
        refuse(tried, 400, "invalid-request", content=body, headers={"Content-Type": "application/json"})


@named(operations.WITH_BODY)
def test_digits_that_are_no_time_are_refused(
    served: ServedTable, refuse: Callable[..., None], tried: Operation
) -> None:
    assert tried.body is not None
    for at in bad_bodies.times(served.openapi, tried, tried.body(served.inflight)):
        for digits in ("00000000000000000", "20260230000000000", "99999999999999999999"):
            body = bad_bodies.replaced(tried.body(served.inflight), at, digits)
            refuse(tried, 400, "invalid-request", json=body)


@named(operations.WITH_BODY)
def test_a_missing_field_is_refused(served: ServedTable, refuse: Callable[..., None], tried: Operation) -> None:
    assert tried.body is not None
    for at in bad_bodies.required_fields(tried):
        refuse(tried, 400, "invalid-request", json=bad_bodies.without(tried.body(served.inflight), at))


@named(operations.WITH_BODY)
def test_an_unknown_field_beside_the_known_ones_is_refused(
    served: ServedTable, refuse: Callable[..., None], tried: Operation
) -> None:
    assert tried.body is not None

    refuse(tried, 400, "invalid-request", json=tried.body(served.inflight) | {"nobody_knows_this": 1})


@pytest.mark.parametrize(
    ("body", "wanted", "advice"),
    [
        ('{"markers": [{"type": "x"}]}', CreateMarkers, "the fields are partition_path, file_name, kind"),
        ('{"plan": {"file_groups": [{"file": 1}]}}', BeginInstant, "the fields are partition_path, file_id"),
        (
            '{"inflght": true}',
            BeginInstant,
            "the fields are writer, action, operation, lease_seconds, inflight",
        ),
        ('{"operation": "x"}', BeginInstant, "it is one of insert, upsert, bulk_insert"),
        ('{"writer": 1}', BeginInstant, ""),
    ],
)
def test_the_refusal_of_a_body_lists_the_known_fields(body: str, wanted: type, advice: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.json.decode(body, type=wanted)

    given_advice = known_fields.advice(str(refused.value), wanted)

    assert given_advice.startswith(f"; {advice}") if advice else not given_advice


def test_a_misspelt_field_is_refused_with_the_known_ones(served: ServedTable) -> None:
    response = served.http.post("/v1/namespaces", json={"nme": "n"})

    assert response.json()["detail"] == (
        "body: Object contains unknown field `nme`; the fields are name, properties"
    )


def test_an_unknown_address_is_refused_with_the_place_of_the_list(served: ServedTable) -> None:
    assert served.http.get("/v1/table").json()["detail"].endswith("; GET /openapi.json lists all addresses")


# ---------------------------------------------------------------------------------- bodies too large


@pytest.fixture(scope="module")
def narrow(
    shared_dsn: str, served: ServedTable, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    """A client of another server on the same database, which takes small bodies only."""
    log = tmp_path_factory.mktemp("narrow") / "server.log"
    server = ServerProcess(shared_dsn, log, "--max-body-bytes", str(MAX_BODY_BYTES))
    try:
        with rest.connect(server.start().url) as http:
            yield http
    finally:
        server.stop()


@named(operations.WITH_BODY)
@pytest.mark.parametrize("chunked", [False, True], ids=["with its length", "chunked"])
def test_a_body_that_is_too_large_is_refused(
    served: ServedTable, narrow: httpx.Client, tried: Operation, chunked: bool
) -> None:
    assert tried.body is not None
    whole = json.dumps(tried.body(served.inflight)).encode().ljust(4 * MAX_BODY_BYTES)
    content: Any = iter([whole[:100], whole[100:]]) if chunked else whole
    before = served.contents()

    response = narrow.request(
        tried.method,
        tried.path(served.inflight),
        content=content,
        headers={"Content-Type": "application/json"},
    )

    assert served.check_problem(tried, response).code == "body-too-large"
    assert served.contents() == before


# ---------------------------------------------------------------------------------- fuzz


def send_fuzz(served: ServedTable, tried: Operation, content: bytes) -> None:
    """Send bytes as a body: an answer that is no success must be a documented problem."""
    response = served.send(
        tried, path=tried.path(NEVER_BEGUN), content=content, headers={"Content-Type": "application/json"}
    )
    if not response.is_success:
        served.check_problem(tried, response)


@named(operations.WITH_BODY)
@FUZZ
@given(value=JSON_VALUES)
def test_no_json_breaks_an_endpoint(served: ServedTable, tried: Operation, value: object) -> None:
    send_fuzz(served, tried, json.dumps(value).encode())


@named(operations.WITH_BODY)
@FUZZ
@given(choice=st.data())
def test_no_change_of_a_valid_body_breaks_an_endpoint(
    served: ServedTable, tried: Operation, choice: st.DataObject
) -> None:
    assert tried.body is not None
    body = tried.body(NEVER_BEGUN)
    at = choice.draw(st.sampled_from([at for at, _ in bad_bodies.places(body)]))

    send_fuzz(served, tried, json.dumps(bad_bodies.replaced(body, at, choice.draw(JSON_VALUES))).encode())


@named(operations.WITH_BODY)
@FUZZ
@given(content=st.binary(max_size=200))
def test_no_bytes_break_an_endpoint(served: ServedTable, tried: Operation, content: bytes) -> None:
    send_fuzz(served, tried, content)
