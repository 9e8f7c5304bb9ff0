"""Table services through the client and the command line: what would be planned, what is, and why not more."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

import chronolake
from chronolake import FileGroupName, HeldReason, TableService, TableType, WriteStat
from chronolake.cli import output, services
from chronolake_model.file_names import bucket_file_id
from chronolake_model.services import ExpiredService, PendingService, ServiceRun, ServicesStatus
from chronolake_model.vocabulary import State
from tests.client.conftest import Cli

GROUP = FileGroupName("", bucket_file_id(0))


def written(client: chronolake.Client, namespace: str, delta_commits: int) -> chronolake.Table:
    name = f"{namespace}.clicks"
    table = client.create_table(
        name,
        base_path=f"s3://lake/{name}",
        schema=[chronolake.Field("id", "bigint")],
        record_key_fields=["id"],
        type=TableType.MERGE_ON_READ,
        properties={"hudi.publish": "false"},
    )
    for _ in range(delta_commits):
        with table.begin() as write:
            log = f".{GROUP.file_id}_{write.requested_time}.log.1_0-0-0"
            write.add(WriteStat("", GROUP.file_id, log, size_bytes=512, records=3))
    return table


def test_a_plan_is_previewed_made_and_executed(client: chronolake.Client, namespace: str, cli: Cli) -> None:
    table = written(client, namespace, delta_commits=5)

    [previewed] = table.services.preview().plans
    shown = cli("services", "preview", table.name).out
    [planned] = table.services.plan(TableService.COMPACTION, details={"why": "a test"}).instants
    waiting = cli("services", "status", table.name).out
    with table.execute(planned.requested_time) as write:
        base = f"{GROUP.file_id}_0-0-0_{write.requested_time}.parquet"
        write.add(WriteStat("", GROUP.file_id, base, size_bytes=1024, records=15))
    [run] = table.services.status().last_runs

    assert (previewed.service, previewed.files_before, previewed.files_after) == ("compaction", 5, 1)
    assert "compaction" in shown
    assert planned.plan is not None
    assert planned.plan.details == {"why": "a test"}
    assert planned.requested_time in waiting
    assert "run chronolake services run" in waiting
    assert (run.files_before, run.bytes_before, run.files_after, run.bytes_after) == (5, 2_560, 1, 1_024)
    assert run.requested_time in {
        done.requested_time for services in client.services() for done in services.last_runs
    }


def test_the_status_shows_a_plan_that_expired(capsys: pytest.CaptureFixture[str]) -> None:
    expired = ExpiredService(TableService.COMPACTION, "20260101000000000", "the last execution: no space left")
    status = ServicesStatus("web.views", [], 0, None, [], [expired], 0)

    services.print_status(output.console(), status)

    assert f"The compaction {expired.requested_time} expired: {expired.reason}\n" in capsys.readouterr().out


def test_the_tables_of_a_status_fit_into_80_columns() -> None:
    groups, writer, time = 100, "ann@a-long-name-of-a-host.example:4711", "20260101000000000"
    pending = PendingService(
        TableService.LOG_COMPACTION, time, State.INFLIGHT, groups, writer, 3600.0, 1, None, None, None, 59.0
    )
    run = ServiceRun(
        TableService.LOG_COMPACTION, time, time, writer, 1_000, 999_000_000_000, 100, 99_000_000_000
    )
    status = ServicesStatus("web.views", [pending], 1, None, [run], [], 0)
    shown = io.StringIO()

    services.print_status(Console(file=shown, width=80), status)

    assert time in shown.getvalue()
    assert [line for line in shown.getvalue().splitlines() if len(line.rstrip()) > 80] == []


def test_a_service_may_be_named_by_a_text(client: chronolake.Client, namespace: str) -> None:
    table = written(client, namespace, delta_commits=5)

    with pytest.raises(ValueError, match="'compact' is not a valid TableService"):
        table.services.plan("compact")
    [planned] = table.services.plan("compaction").instants

    assert planned.action == "compaction"


def test_the_command_line_says_why_nothing_is_planned(
    client: chronolake.Client, namespace: str, cli: Cli
) -> None:
    table = written(client, namespace, delta_commits=3)

    held = cli("services", "preview", table.name, "--json").json["held"]
    shown = cli("services", "preview", table.name).out

    assert {entry["service"]: entry["reason"] for entry in held} == {
        "compaction": HeldReason.BELOW_THRESHOLD,
        "log-compaction": HeldReason.OFF,
        "clustering": HeldReason.OFF,
        "clean": HeldReason.NOTHING_TO_DO,
    }
    assert "3 of 5 delta commits" in shown
    assert cli("services", "status", table.name, "--json").json["pending"] == []
    assert table.services.plan().instants == []
