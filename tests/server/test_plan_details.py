"""The details of plans of table services: what no executor could follow is refused."""

from __future__ import annotations

import httpx
import pytest

from tests.server import rest
from tests.server.planned import clustered, planned, simple, write_small
from tests.server.rest import Json, Table, refused, succeeded


@pytest.mark.parametrize(
    ("column", "advice"), [("place", "struct<x:int> has no order"), ("place.x", "which is no column")]
)
def test_records_are_not_sorted_by_a_nested_column(shared_http: httpx.Client, column: str, advice: str) -> None:
    sort = {"hoodie.clustering.plan.strategy.sort.columns": column}
    schema = [*rest.SCHEMA, {"name": "place", "type": "struct<x:int>"}]
    table = rest.make_table(shared_http, index={"type": "simple"}, schema=schema)

    answer = shared_http.patch(f"/v1/tables/{table.name}", json={"set": sort})
    stated = table.plan_services(services=["clustering"], force=True, details=sort)

    assert advice in refused(answer, 422, "invalid-table")["detail"]
    assert advice in refused(stated, 422, "invalid-plan")["detail"]


def test_a_curve_through_too_many_columns_is_not_planned(shared_http: httpx.Client) -> None:
    columns = [f"c{number}" for number in range(17)]
    schema = [*rest.SCHEMA, *({"name": name, "type": "int"} for name in columns)]
    curve = {
        "hoodie.clustering.plan.strategy.sort.columns": ",".join(columns),
        "hoodie.layout.optimize.strategy": "zorder",
    }
    table = rest.make_table(shared_http, index={"type": "simple"}, schema=schema, properties=curve)

    [held] = succeeded(table.plan_services(services=["clustering"], force=True))["held"]
    stated = table.plan_services(services=["clustering"], force=True, details=curve)

    assert (held["reason"], "names 17 columns" in held["message"]) == ("off", True)
    assert "names 17 columns" in refused(stated, 422, "invalid-plan")["detail"]


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("hoodie.clustering.plan.strategy.sort.columns", "amount", "which is no column"),
        ("hoodie.clustering.plan.strategy.sort.columns", "place", "has no order"),
        ("hoodie.layout.optimize.strategy", "spiral", "linear or zorder or hilbert"),
        ("hoodie.clustering.plan.strategy.target.file.max.bytes", "1 GB", "a number of bytes"),
        ("hoodie.clustering.plan.strategy.sort.colums", "id", "did you mean"),
        ("files.max-file-size", "1000", "a property of the table"),
    ],
)
def test_a_plan_whose_details_no_executor_could_follow_is_refused(
    shared_http: httpx.Client, name: str, value: str, advice: str
) -> None:
    """An executor would refuse it each time, so the plan would hold its file groups until it expires."""
    schema = [*rest.SCHEMA, {"name": "place", "type": "struct<x:int>"}]
    table = rest.make_table(shared_http, index={"type": "simple"}, schema=schema, partition_fields=["day"])
    began = write_small(table, "day=1")
    groups = [{"partition_path": "day=1", "file_id": f"{began}-0"}]
    details = {name: value, "note": "free"}

    by_hand = table.begin(action="clustering", plan={"file_groups": groups, "details": details})
    by_round = table.plan_services(force=True, details=details)

    assert advice in refused(by_hand, 422, "invalid-plan")["detail"]
    assert advice in refused(by_round, 422, "invalid-plan")["detail"]


@pytest.mark.parametrize(
    "change", [{"change": "drop", "name": "name"}, {"change": "rename", "name": "name", "new_name": "title"}]
)
def test_a_clustering_that_sorts_by_a_column_that_is_gone_is_cancelled(
    shared_http: httpx.Client, change: Json
) -> None:
    table, waiting = sorted_by_name(shared_http)
    succeeded(shared_http.post(f"/v1/tables/{table.name}/schema", json={"changes": [change]}))
    shown = succeeded(shared_http.get(f"/v1/tables/{table.name}/instants/{waiting['requested_time']}"))

    [again] = planned(table, services=["clustering"], force=True)

    assert (shown["state"], shown["rollback_cause"]) == ("rolled_back", "schema")
    assert "names 'NAME', which is no column" in shown["rollback_reason"]
    assert again["plan"]["file_groups"] == waiting["plan"]["file_groups"]


def test_a_clustering_that_is_executed_keeps_the_schema_that_it_was_taken_with(
    shared_http: httpx.Client,
) -> None:
    table, taken = sorted_by_name(shared_http)
    succeeded(table.inflight(taken["requested_time"]))
    dropped = {"changes": [{"change": "drop", "name": "name"}]}
    succeeded(shared_http.post(f"/v1/tables/{table.name}/schema", json=dropped))

    groups = taken["plan"]["file_groups"]
    whole = clustered(table, taken)
    assert succeeded(table.complete(taken["requested_time"], whole, replaced_file_groups=groups))


def sorted_by_name(http: httpx.Client) -> tuple[Table, Json]:
    """A table with a plan of a clustering that sorts by the column ``name``, and the plan."""
    table = simple(http)
    for _ in range(4):
        write_small(table, "day=1")
    details = {"hoodie.clustering.plan.strategy.sort.columns": "NAME"}
    [instant] = planned(table, services=["clustering"], details=details)
    return table, instant
