"""Every public name is documented."""

from __future__ import annotations

import json
import pkgutil
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from chronolake_metastore.app import create_app
from chronolake_metastore.domain import stored_events
from chronolake_metastore.settings import Settings
from chronolake_model.deletable import Refusal
from chronolake_model.problems import ProblemCode
from docs import generate
from tests.docs import command_lines, markdown
from tests.docs.markdown import ROOT

_NOUNS = (
    "table, timeline, instant, action, state, requested time, completion time, partition path, file "
    "group, file slice, base file, log file, record key, ordering field, marker, write stat, "
    "savepoint, restore, rollback, clean, compaction, log compaction, clustering, archive, "
    "lease, heartbeat, checkpoint, writer, epoch, outcome, request id, idempotency key, lake_table, "
    "wall clock, lane, group, event, projection, sequencer, tick, clock, version, namespace, actor, "
    "cursor, problem, bucket, write token, refusal, auditor, address, field id, schema, schema version"
)


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    """The pages by their names. They are made together, which takes a second."""
    return generate.pages()


@pytest.mark.parametrize(
    "name",
    [
        "audit.md",
        "cli.md",
        "decisions.md",
        "events.md",
        "metrics.md",
        "properties.md",
        "python.md",
        "rest.md",
        "settings.md",
        "spark-options.md",
    ],
)
def test_a_generated_reference_is_up_to_date(name: str, generated: dict[str, str]) -> None:
    written = (generate.FOLDER / name).read_text(encoding="utf-8")
    assert written == generated[name], "run `make docs`"


def test_no_reference_lies_beside_the_generated_ones(generated: dict[str, str]) -> None:
    assert {path.name for path in generate.FOLDER.iterdir()} == set(generated)


@pytest.mark.parametrize("code", list(ProblemCode))
def test_a_problem_code_is_documented_with_its_status_and_title(code: ProblemCode) -> None:
    assert f"| `{code}` | {code.status} | {code.title} |" in _text("docs/reference/rest.md")


def test_a_field_that_may_be_left_out_is_not_documented_as_required() -> None:
    schemas = create_app(Settings(dsn="")).openapi_schema.to_schema()["components"]["schemas"]
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", _text("docs/reference/rest.md"), re.M | re.S))
    wrong = [
        f"{name}.{field}"
        for name, schema in schemas.items()
        for field in schema.get("properties", {}).keys() - set(schema.get("required", ()))
        if re.search(rf"^\| `{field}` \| .* \| required \|", sections[name], re.M)
    ]
    assert wrong == []


def test_every_endpoint_is_documented() -> None:
    paths = create_app(Settings(dsn="")).openapi_schema.to_schema()["paths"]
    headings = [f"### `{method.upper()} {path}`" for path, methods in paths.items() for method in methods]
    assert [heading for heading in headings if heading not in _text("docs/reference/rest.md")] == []


@pytest.mark.parametrize("reason", list(Refusal))
def test_a_reason_why_a_file_stays_is_explained_to_writers(reason: Refusal) -> None:
    assert f"| `{reason}` | " in _text("docs/reference/rest.md")


@pytest.mark.parametrize("name", list(stored_events.PAYLOADS))
def test_an_event_type_is_documented(name: str) -> None:
    assert f"## {name}\n" in _text("docs/reference/events.md")


def test_every_command_is_documented() -> None:
    server = [f"## `chronolake-metastore {name}`" for name in command_lines.server_commands()]
    client = [f"## `chronolake {name}`" for name in command_lines.client_commands()]
    assert [heading for heading in server if heading not in _text("docs/reference/settings.md")] == []
    assert [heading for heading in client if heading not in _text("docs/reference/cli.md")] == []


def test_every_environment_variable_in_the_code_is_documented() -> None:
    sources = [path for folder in ("client", "metastore", "spark_integration") for path in _python(folder)]
    used = {name for path in sources for name in re.findall(r"CHRONOLAKE_[A-Z_]+", path.read_text("utf-8"))}
    pages = ("docs/reference/settings.md", "docs/reference/cli.md", "docs/spark.md", "docs/security.md")
    documented = "".join(map(_text, pages))
    assert {name for name in used if name not in documented} == set()


@pytest.mark.parametrize("noun", _NOUNS.split(", "))
def test_a_noun_is_in_the_glossary(noun: str) -> None:
    rows = [line.split("|")[1] for line in _text("docs/glossary.md").splitlines() if line.startswith("| ")]
    words = {word.strip(" `") for row in rows for word in row.split(",")}
    assert noun in words


def test_every_sql_table_is_explained() -> None:
    scripts = (ROOT / "migrations/chronolake_migrations").rglob("*.sql")
    tables = {
        name for path in scripts for name in re.findall(r"CREATE TABLE chronolake\.(\w+)", path.read_text())
    }
    assert {name for name in tables if f"`{name}`" not in _text("docs/concepts/log.md")} == set()


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads(_text("pyproject.toml"))
    groups = [
        project["project"]["dependencies"],
        *project["project"]["optional-dependencies"].values(),
        project["dependency-groups"]["test"],
        project["dependency-groups"]["fuzz"],
        project["dependency-groups"]["lint"],
        project["build-system"]["requires"],
    ]
    names = {re.split(r"[\[<>=]", text)[0] for group in groups for text in group} - {"chronolake"}
    explained = set(re.findall(r'^ *"([\w-]+).*",  # \S', _text("pyproject.toml"), re.MULTILINE))
    assert names - explained == set()


def test_each_decision_has_a_number_of_its_own() -> None:
    numbers = [path.name[:4] for path in (ROOT / "docs/decisions").glob("0*.md")]
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize(
    "name",
    [
        "chronolake_spark.tables:SparkTable.upsert",
        "chronolake_spark.write.writes:tagged",
        "chronolake_spark.write.writes:run",
        "chronolake_spark.write.shuffles",
        "chronolake_spark.write.data_source",
        "chronolake_metastore.api.application:FastPath",
        "chronolake_metastore.api.instants:complete_instant",
        "chronolake_metastore.service.service:Service.execute",
        "chronolake_metastore.batching.sequencer:Sequencer.submit",
        "chronolake_metastore.commands.group:run_tasks",
        "chronolake_metastore.commands.completing:CompleteInstantHandler",
        "chronolake_metastore.domain.instants:complete",
        "chronolake_metastore.domain.state:State.append",
        "chronolake_metastore.domain.state:State.evolve",
        "chronolake_metastore.commands.recording:write",
    ],
)
def test_the_life_of_an_upsert_names_code_that_exists(name: str) -> None:
    section = _text("docs/architecture.md").partition("## Life of an upsert")[2].partition("\n## ")[0]
    assert pkgutil.resolve_name(name)
    assert re.split("[.:]", name)[-1] in section


def test_a_decision_record_has_at_most_400_words() -> None:
    words = {path.name: len(path.read_text("utf-8").split()) for path in (ROOT / "docs/decisions").glob("*.md")}
    del words["README.md"]
    assert {name: count for name, count in words.items() if count > 400} == {}


def test_the_pages_that_are_written_by_hand_have_at_most_60_000_words() -> None:
    pages = [page for page in markdown.PAGES if page.parent.name != "reference"]
    # The bars of tables are no words.
    assert sum(len(re.findall(r"\S*\w\S*", page.read_text("utf-8"))) for page in pages) <= 60_000


def _text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _python(folder: str) -> list[Path]:
    return list((ROOT / folder).rglob("*.py"))


def test_the_limits_of_integers_are_integers_and_commands_document_their_keys() -> None:
    document = create_app(Settings(dsn="")).openapi_schema.to_schema()
    begin = document["paths"]["/v1/tables/{table}/instants"]["post"]
    limit = next(parameter for parameter in _parameters_of_timeline(document) if parameter["name"] == "limit")

    assert re.search(r'"(?:min|max)imum": \d+\.', json.dumps(document)) is None
    assert limit["schema"] | {"minimum": 1, "maximum": 1_000} == limit["schema"]
    assert "Idempotency-Key" in begin["responses"]["201"]["headers"]
    assert "Idempotency-Key" in begin["responses"]["404"]["headers"]


def _parameters_of_timeline(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The parameters of the timeline."""
    parameters: list[dict[str, Any]] = document["paths"]["/v1/tables/{table}/instants"]["get"]["parameters"]
    return parameters


def test_every_page_and_section_that_the_code_cites_exists() -> None:
    sources = [
        path
        for folder in (
            "client",
            "metastore",
            "migrations",
            "spark_integration",
            "tests",
            "benchmarks",
            "examples",
        )
        for pattern in ("*.py", "*.sql")
        for path in (ROOT / folder).rglob(pattern)
    ]
    cited = {
        (page, anchor)
        for path in sources
        for page, anchor in re.findall(r"\b(docs/[\w/-]+\.md)(?:#([\w-]+))?", path.read_text("utf-8"))
    }
    missing = {
        (page, anchor)
        for page, anchor in cited
        if not (ROOT / page).exists() or (anchor and anchor not in markdown.anchors(ROOT / page))
    }
    assert missing == set()
