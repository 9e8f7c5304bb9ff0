"""The command line against a real server: every command, its JSON, every exit code."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

import chronolake
from chronolake.cli import advice, options, output, tables
from tests.client.conftest import Cli
from tests.client.test_writes import publish
from tests.docs import command_lines

UNREACHABLE_URL = "http://127.0.0.1:9"
"""Port 9 (discard) is reserved and never served here."""


def test_an_outcome_is_shown(cli: Cli, client: chronolake.Client, table: chronolake.Table) -> None:
    with pytest.raises(chronolake.errors.TableExists) as caught:
        client.create_table(
            table.name, base_path="file:///x", schema=table.definition.schema, record_key_fields=["id"]
        )
    key = caught.value.idempotency_key or ""

    document = cli("outcome", key, "--json").json
    shown = cli("outcome", key)

    assert (document["request_id"], document["status"], document["table"]) == (key, 409, table.name)
    assert document["answer"]["code"] == "table-exists"
    assert key in shown.out
    assert '"code": "table-exists"' in shown.out


def test_an_unknown_outcome_is_not_found_and_an_invalid_key_is_wrong_usage(cli: Cli) -> None:
    assert cli("outcome", "nobody-used-this").code == output.NOT_FOUND
    assert cli("outcome", "é").code == output.USAGE


def test_namespaces_are_made_listed_and_dropped(cli: Cli, namespace: str) -> None:
    name = f"{namespace}_b"

    made = cli("namespaces", "create", name, "--property", "owner=me", "--json").json
    listed = cli("namespaces", "list", "--json").json
    shown = cli("namespaces", "list")
    dropped = cli("namespaces", "drop", name, "--yes", "--json").json

    assert made["properties"] == {"owner": "me"}
    assert made in listed["namespaces"]
    assert name in shown.out
    assert dropped == {"dropped": name}
    assert cli("namespaces", "drop", name, "--yes").code == output.NOT_FOUND


def test_a_namespace_that_exists_is_a_conflict_unless_that_is_welcome(cli: Cli, namespace: str) -> None:
    assert cli("namespaces", "create", namespace).code == output.CONFLICT
    assert cli("namespaces", "create", namespace, "--if-not-exists").code == output.OK


def test_a_table_is_made_from_flags_and_shown(cli: Cli, namespace: str) -> None:
    name = f"{namespace}.events"
    flags = "--field id:bigint:required --field at:timestamp --field day:date"
    flags = f"--base-path file:///lake/{namespace}/events {flags}"
    settings = "--key id --partition day --ordering at --buckets 7 --type merge_on_read --tick 1us"

    made = cli("tables", "create", name, *flags.split(), *settings.split(), "--property", "a=b", "--json").json
    shown = cli("tables", "show", name, "--json").json
    for_people = cli("tables", "show", name)

    assert shown == made
    id_field = {"name": "id", "type": "bigint", "nullable": False, "field_id": 1, "nested": []}
    assert made["schema"][0] == id_field
    assert made["index"]["buckets"] == 7
    assert (made["type"], made["tick"], made["ordering_field"]) == ("merge_on_read", "1us", "at")
    assert made["partition_fields"] == ["day"]
    assert made["properties"] == {"a": "b"}
    assert name in for_people.out
    assert "merge_on_read" in for_people.out
    assert "7 buckets" in for_people.out


def test_a_table_that_exists_is_a_conflict_unless_that_is_welcome(cli: Cli, table: chronolake.Table) -> None:
    flags = ("--base-path", "file:///x", "--field", "id:bigint:required", "--key", "id")

    assert cli("tables", "create", table.name, *flags).code == output.CONFLICT
    assert cli("tables", "create", table.name, *flags, "--if-not-exists").code == output.OK


def test_tables_are_listed_and_dropped(cli: Cli, namespace: str, table: chronolake.Table) -> None:
    listed = cli("tables", "list", "--namespace", namespace, "--json").json
    shown = cli("tables", "list")
    dropped = cli("--json", "tables", "drop", table.name, "--yes").json

    assert [row["name"] for row in listed["tables"]] == [table.name]
    assert table.name in shown.out
    assert dropped == {"dropped": table.name}
    assert cli("tables", "show", table.name).code == output.NOT_FOUND


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_without_a_yes_nothing_is_dropped(
    cli: Cli, table: chronolake.Table, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))

    refused = cli("tables", "drop", table.name)

    assert refused.code == output.FAILED
    assert refused.out == ""
    assert f"Drop table {table.name}?" in refused.err
    assert "--yes" in refused.err
    assert cli("tables", "show", table.name).code == output.OK


def test_with_a_yes_it_is_dropped_and_stdout_holds_the_document_alone(
    cli: Cli, table: chronolake.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))

    assert cli("tables", "drop", table.name, "--json").out.startswith("{")
    assert cli("tables", "show", table.name).code == output.NOT_FOUND


def test_a_missing_object_is_reported_in_at_most_two_lines(cli: Cli, namespace: str) -> None:
    ran = cli("timeline", f"{namespace}.nothing")

    assert ran.code == output.NOT_FOUND
    assert ran.out == ""
    assert ran.err.splitlines() == [
        "Error: There is no such table (table-not-found)",
        f"there is no table '{namespace}.nothing'; create it first, or check the name",
        f"Commands: chronolake tables list; chronolake tables create {namespace}.nothing --help",
    ]


@pytest.mark.parametrize("command", [*chain.from_iterable(advice.COMMANDS.values()), advice.RENAMED])
def test_the_commands_that_the_terminal_advises_exist(command: str) -> None:
    [(program, arguments)] = command_lines.shown(command)
    assert command_lines.unknown_words(program, arguments) == []


def test_a_dropped_tables_base_path_is_taken_over_by_the_option_that_the_terminal_names(
    cli: Cli, namespace: str, client: chronolake.Client, tmp_path: Path
) -> None:
    flags = ("--base-path", str(tmp_path), "--field", "id:bigint", "--key", "id")
    cli("tables", "create", f"{namespace}.old", *flags)
    publish(client.table(f"{namespace}.old"), 1)
    taken = cli("tables", "create", f"{namespace}.new", *flags)
    client.drop_table(f"{namespace}.old")
    dropped = cli("tables", "create", f"{namespace}.new", *flags)

    assert taken.err.endswith(f"Commands: chronolake tables show {namespace}.old\n")
    assert dropped.err.endswith("Commands: the same one with --reuse-base-path\n")


def test_with_json_a_refusal_is_the_problem_document(cli: Cli, namespace: str) -> None:
    ran = cli("tables", "show", f"{namespace}.nothing", "--json")

    assert ran.code == output.NOT_FOUND
    assert json.loads(ran.err)["code"] == "table-not-found"


def test_a_command_that_the_server_refuses_fails(cli: Cli, namespace: str) -> None:
    flags = ("--base-path", "file:///x", "--field", "id:no_such_type", "--key", "id")

    assert cli("tables", "create", f"{namespace}.t", *flags).code == output.FAILED


@pytest.mark.parametrize("wants_json", [(), ("--json",)])
def test_an_unreachable_server_is_reported_with_a_remedy(run: Cli, wants_json: tuple[str, ...]) -> None:
    ran = run("time", "--url", UNREACHABLE_URL, *wants_json)

    assert ran.code == output.UNREACHABLE
    assert ran.out == ""
    assert UNREACHABLE_URL in ran.err
    assert ("connection-failed" if wants_json else "chronolake-metastore serve") in ran.err


@pytest.mark.parametrize(
    "args",
    [
        ("nonsense",),
        ("timeline", "orders"),
        ("timeline", "shop.orders", "--since", "yesterday"),
        ("events", "orders"),
        ("events", "--limit", "0"),
        ("instant", "shop.orders", "yesterday"),
        ("rollback", "shop.orders", "20261301000000000"),
        ("timeline", "shop.orders", "--state", "done"),
        ("timeline", "shop.orders", "--first", "--nth", "0"),
        ("restore", "shop.orders", "yesterday"),
        ("conflicts", "shop.orders", "20260101000000000"),
        ("conflicts", "shop.orders", "20260101000000000", "--base", "day=1/"),
        ("snapshot", "shop.orders", "--as-of", "20261301"),
        ("tables", "create", "shop.orders"),
        ("tables", "create", "shop.t", "--base-path", "x", "--key", "a", "--field", "a"),
        ("namespaces", "create", "a.b"),
        ("namespaces", "create", "ab", "--property", "x"),
        ("namespaces", "create", "ab", "--property", "=x"),
        ("tables", "set", "shop.orders", "a=1", "a=2"),
        ("time", "--url", "nowhere"),
    ],
)
def test_wrong_usage_is_reported_without_a_request_to_the_server(run: Cli, args: tuple[str, ...]) -> None:
    ran = run("--url", UNREACHABLE_URL, *args)

    assert ran.code == output.USAGE
    assert ran.out == ""
    assert "Traceback" not in ran.err


def test_help_documents_commands_and_exit_codes(run: Cli) -> None:
    ran = run("--help")

    assert ran.code == output.OK
    for word in ("namespaces", "tables", "timeline", "snapshot", "changes", "time", "ingest", "Exit codes"):
        assert word in ran.out


def test_the_version_is_printed(run: Cli) -> None:
    assert run("--version").out == f"chronolake {chronolake.__version__}\n"


def test_the_url_after_the_command_wins_over_the_one_before(run: Cli, server_url: str) -> None:
    assert run("--url", UNREACHABLE_URL, "time", "--url", server_url).code == output.OK


def test_the_environment_names_the_server(run: Cli, server_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHRONOLAKE_URL", server_url)

    assert run("time").code == output.OK


def test_the_installed_command_exits_as_documented(server_url: str) -> None:
    command = [sys.executable, "-c", "from chronolake.cli.main import main; main()"]
    arguments = [*command, "--url", server_url, "tables", "show", "no.such", "--json"]

    ran = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)

    assert ran.returncode == output.NOT_FOUND
    assert json.loads(ran.stderr)["code"] == "table-not-found"
    assert ran.stdout == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id:bigint", chronolake.Field("id", "bigint")),
        ("id:bigint:required", chronolake.Field("id", "bigint", nullable=False)),
        ("p:struct<a:int,b:map<string,int>>", chronolake.Field("p", "struct<a:int,b:map<string,int>>")),
        ("p:struct<a:int>:required", chronolake.Field("p", "struct<a:int>", nullable=False)),
        ("price:decimal(10,2)", chronolake.Field("price", "decimal(10,2)")),
    ],
)
def test_a_field_is_read_as_it_is_written(text: str, expected: chronolake.Field) -> None:
    assert tables.field_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20260131100000123", "20260131100000123"),
        ("20260131100000123456", "20260131100000123456"),
        ("2026-01-31", "20260131000000000"),
        ("2026-01-31T10:00:00.5Z", "20260131100000500"),
        ("2026-01-31T10:00:00.500001Z", "20260131100000500001"),
        ("2026-01-31T10:00:00+02:00", "20260131080000000"),
    ],
)
def test_a_moment_is_digits_or_iso(text: str, expected: str) -> None:
    assert options.moment(text) == expected


def test_a_server_without_access_says_who_may_what_and_keeps_roles_for_later(cli: Cli, namespace: str) -> None:
    subject = "oidc:corp:ann"

    assert cli("whoami", "--json").json["is_unlimited"] is True
    assert cli("can-i", "grant", "*").out == "yes\n"
    assert f"{subject} is writer on {namespace}" in cli("grants", "add", subject, "writer", namespace).out
    [grant] = cli("grants", "list", subject, "--json").json["grants"]
    assert (grant["role"], grant["on"], grant["table_id"]) == ("writer", namespace, None)
    assert (
        f"{subject} is no longer writer on exactly {namespace}"
        in cli("grants", "revoke", subject, namespace).out
    )
    assert f"nothing changed: {subject} has no role" in cli("grants", "revoke", subject, namespace).out
    assert cli("grants", "list", subject, "--json").json["grants"] == []
    assert cli("grants", "add", "ann", "writer", namespace).code == output.USAGE
    assert cli("can-i", "write", "%").code == output.USAGE


@pytest.mark.parametrize(("subject", "on"), [("ann", "shop"), ("oidc:corp:ann", "shop.*s")])
def test_a_malformed_role_is_refused_with_the_forms_and_not_with_a_regular_expression(
    subject: str, on: str
) -> None:
    with chronolake.connect("http://127.0.0.1:1") as client:
        for refuse in (lambda: client.grant(subject, "reader", on), lambda: client.revoke(subject, on)):
            with pytest.raises(ValueError, match=r"token:<id|shop\.raw_\*"):
                refuse()
