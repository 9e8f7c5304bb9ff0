"""The OpenAPI document is a contract: requests made from it are answered as it says."""

from __future__ import annotations

import base64
import hashlib
import inspect
import re
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from chronolake_metastore.app import create_app
from chronolake_metastore.settings import Settings
from chronolake_model import instants, readers, scans, slices, tables
from chronolake_model.files import ARROW
from chronolake_model.names import TABLE_NAME_PATTERN, decoder_pattern, document_pattern
from tests import examples
from tests.fix_server import ServerProcess
from tests.fuzz import attack
from tests.server import operations
from tests.server.operations import NEVER_BEGUN

PATTERNS = [
    (tables.Name, "shop"),
    (tables.TableName, "shop.orders"),
    (instants.InstantTime, "20260131100000123"),
    (inspect.get_annotations(instants.CompleteInstant, eval_str=True)["cleaned_before"], "20260131100000123"),
    (inspect.get_annotations(readers.BeginReading, eval_str=True)["as_of"], "latest"),
    (inspect.get_annotations(scans.Scan, eval_str=True)["as_of"], "20260131100000123"),
    (inspect.get_annotations(slices.FindFileGroups, eval_str=True)["as_of"], "earliest"),
]

SEED = 20261122
SECONDS = 20 if examples.ALL else 12


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    made: dict[str, Any] = create_app(Settings(dsn="")).openapi_schema.to_schema()
    return made


def operation(document: dict[str, Any], method: str, path: str) -> dict[str, Any]:
    description: dict[str, Any] = document["paths"][f"/v1/tables/{{table}}{path}"][method]
    return description


def test_each_generated_request_is_answered_as_documented(server: ServerProcess, tmp_path: Path) -> None:
    assert attack.run(server, tmp_path, SECONDS, SEED, "--phases", "examples,coverage,fuzzing") == 0


def test_the_document_that_is_served_is_the_one_that_is_printed(
    shared_http: httpx.Client, document: dict[str, Any]
) -> None:
    assert shared_http.get("/openapi.json").json() == document


def test_the_page_of_the_api_has_all_of_the_document_and_loads_nothing(
    shared_http: httpx.Client, document: dict[str, Any]
) -> None:
    answer = shared_http.get("/docs")
    page = answer.text
    anchors = re.findall(r'<article id="([^"]+)"', page)
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]

    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert sorted(anchors) == sorted(
        [*document["components"]["schemas"], *(f"operation-{of['operationId']}" for of in operations)]
    )
    assert {name for name in re.findall(r'href="#([^"]+)"', page)} == set(anchors)
    assert re.findall(r'(?:src|href)="(?!#)([^"]*)"', page) == ["/openapi.json"]
    [style] = re.findall("<style>(.*)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert answer.headers["content-security-policy"].startswith(
        f"default-src 'none'; style-src 'sha256-{digest}'; "
    )
    assert re.findall("<script|style=| on[a-z]+=", page) == []


def test_t51_no_answer_but_the_page_of_the_api_is_a_page(shared_http: httpx.Client) -> None:
    script = "<script>alert(1)</script>"
    paths = {tried.path(NEVER_BEGUN) for tried in operations.ALL if tried.method == "GET"}
    paths |= {f"/v1/tables/{operations.quoted(script)}", f"/iceberg/v1/namespaces/{operations.quoted(script)}"}
    for path in paths - {"/v1/events/stream"}:
        answer = shared_http.get(path, headers={"accept": "text/html"})
        assert not re.match("text/|.*(html|xml|svg)", answer.headers["content-type"]), path


@pytest.mark.parametrize("path", ["tables/{table}/cleans", "tables/{table}/savepoints", "grants"])
def test_a_command_that_may_find_an_existing_object_documents_200(document: dict[str, Any], path: str) -> None:
    responses = document["paths"][f"/v1/{path}"]["post"]["responses"]

    assert responses["200"]["content"] == responses["201"]["content"]


def test_an_answer_without_content_has_no_type_of_content(document: dict[str, Any]) -> None:
    empty = [
        endpoint["responses"]["204"]
        for methods in document["paths"].values()
        for endpoint in methods.values()
        if "204" in endpoint["responses"]
    ]

    assert empty
    assert [response for response in empty if "content" in response] == []


def test_no_value_is_of_one_of_several_kinds_that_overlap(document: dict[str, Any]) -> None:
    assert b'"oneOf"' not in msgspec.json.encode(document["components"])


@pytest.mark.parametrize("path", ["/snapshot", "/changes", "/published"])
def test_arrow_is_among_the_types_of_an_answer(document: dict[str, Any], path: str) -> None:
    assert ARROW in operation(document, "get", path)["responses"]["200"]["content"]


def test_the_stream_of_events_is_documented_as_one(document: dict[str, Any]) -> None:
    responses = document["paths"]["/v1/events/stream"]["get"]["responses"]

    assert list(responses["200"]["content"]) == ["text/event-stream"]


def test_every_text_in_a_path_has_a_pattern(document: dict[str, Any]) -> None:
    parameters = [
        parameter
        for methods in document["paths"].values()
        for operation in methods.values()
        for parameter in operation.get("parameters", ())
    ]

    assert [
        parameter
        for parameter in parameters
        if parameter["in"] == "path" and "pattern" not in parameter["schema"]
    ] == []
    assert [
        parameter
        for parameter in parameters
        if parameter["name"] == "cursor" and "pattern" not in parameter["schema"]
    ] == []


def test_no_pattern_has_the_end_of_a_text_in_pythons_spelling(document: dict[str, Any]) -> None:
    assert rb"\\Z" not in msgspec.json.encode(document)


def test_a_503_has_retry_after(document: dict[str, Any]) -> None:
    assert "Retry-After" in operation(document, "get", "/snapshot")["responses"]["503"]["headers"]


def test_the_key_of_an_outcome_is_no_address(document: dict[str, Any]) -> None:
    [key] = document["paths"]["/v1/outcomes/{key}"]["get"]["parameters"]

    assert "format" not in key["schema"]


@pytest.mark.parametrize(("type_", "text"), PATTERNS)
def test_a_line_feed_after_a_text_is_refused(type_: object, text: str) -> None:
    assert msgspec.json.decode(msgspec.json.encode(text), type=type_) == text
    with pytest.raises(msgspec.ValidationError, match="regex"):
        msgspec.json.decode(msgspec.json.encode(f"{text}\n"), type=type_)


def test_the_document_has_the_pattern_that_the_decoder_was_made_of() -> None:
    assert document_pattern(decoder_pattern(TABLE_NAME_PATTERN)) == TABLE_NAME_PATTERN
    assert document_pattern("^a+$") == "^a+$"


def test_each_value_has_a_type_that_generators_of_clients_know(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    properties = {
        name: form for schema in schemas.values() for name, form in schema.get("properties", {}).items()
    }

    assert schemas["WriteStat"]["properties"]["size_bytes"]["format"] == "int64"
    assert schemas["Action"]["type"] == "string"
    assert schemas["Scan"]["properties"]["partition_paths"]["type"] == ["array", "null"]
    assert [name for name, form in properties.items() if form.get("enum") and "type" not in form] == []
