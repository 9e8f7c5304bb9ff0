"""Table services that the server plans, over REST."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from chronolake_metastore.domain.services import ROUND_GROUPS_MAX
from tests.fix_server import ServerProcess
from tests.server import database, planned, rest
from tests.server.planned import (
    append,
    compact,
    merge_on_read,
    messages,
    planned as plan,
    reasons,
    simple,
    small_stat,
    write_small,
)
from tests.server.rest import Json, Table, log_stat, refused, succeeded, write_stat


def actions(instants: list[Json]) -> list[str]:
    return [instant["action"] for instant in instants]


def groups(instant: Json) -> set[str]:
    return {group["file_id"] for group in instant["plan"]["file_groups"]}


def test_a_table_that_nobody_configured_is_compacted_after_five_delta_commits(
    shared_http: httpx.Client,
) -> None:
    """#5835, #1823: a table whose writer schedules nothing is planned for all the same."""
    table = merge_on_read(shared_http)
    append(table, times=3)
    before = table.services("/preview")
    append(table)
    then = table.services("/preview")

    [instant] = plan(table)

    assert (before["plans"], reasons(before, "compaction")) == ([], ["below-threshold"])
    assert (before["is_due"], then["is_due"], table.services("/preview")["is_due"]) == (False, True, False)
    assert (instant["action"], instant["state"], instant["writer"]) == ("compaction", "requested", "planner")
    assert instant["plan"]["file_groups"] == [
        {"partition_path": "", "file_id": write_stat("20260101000000000")["file_id"]}
    ]


def test_two_requests_never_plan_one_file_group_twice(shared_http: httpx.Client) -> None:
    """#1780, #5916, HUDI-2774: the groups of a pending plan are left out of the next one."""
    table = merge_on_read(shared_http)
    append(table, 0, times=5)
    [first] = plan(table)
    append(table, 0, 1, times=5)

    [second] = plan(table)

    assert groups(first).isdisjoint(groups(second))
    preview = table.services("/preview")
    assert reasons(preview, "compaction") == ["pending-plan"]
    # It is off, so no plan holds it.
    assert reasons(preview, "log-compaction") == ["off"]


def test_logs_that_complete_after_the_request_wait_for_the_next_compaction(shared_http: httpx.Client) -> None:
    table = merge_on_read(shared_http)
    append(table, times=5)
    [instant] = plan(table)
    append(table)
    planned.compact(table, instant)

    assert plan(table, services=["compaction"]) == []
    append(table, times=4)
    assert actions(plan(table, services=["compaction"])) == ["compaction"]


def test_groups_of_a_plan_that_was_rolled_back_are_planned_again_at_once(shared_http: httpx.Client) -> None:
    """#10964, #17879: a failed service can be cancelled, and blocks nothing."""
    table = merge_on_read(shared_http)
    append(table, times=5)
    [instant] = plan(table)
    planned.compact(table, instant)
    append(table, times=5)
    [cancelled] = plan(table)
    succeeded(table.roll_back(cancelled["requested_time"], writer="anyone"))

    [again] = plan(table, services=["compaction"])

    assert groups(again) == groups(cancelled)


def test_writes_go_on_while_a_round_is_decided(shared_server: ServerProcess, shared_http: httpx.Client) -> None:
    """#10270, #9849: planning held up the ingestion, or its checkpoint."""
    table = simple(shared_http)
    before = {f"{write_small(table, 'day=1')}-0" for _ in range(4)}
    with ThreadPoolExecutor(1) as threads, database.connected(shared_server.dsn) as other:
        with other.transaction():
            other.execute("LOCK TABLE clustering_look IN ACCESS EXCLUSIVE MODE")
            planning = threads.submit(plan, table, services=["clustering"])
            database.wait_for_waiting(shared_server.dsn, 1)

            write_small(table, "day=1")

            assert not planning.done()
        [instant] = planning.result()
    assert groups(instant) == before


def test_of_eight_requests_at_two_servers_each_file_group_is_in_one_plan(
    shared_servers: tuple[ServerProcess, ServerProcess],
) -> None:
    """HUDI-2774, PR 4118: two planners at a time."""
    with rest.connect(shared_servers[0].url) as first, rest.connect(shared_servers[1].url) as second:
        table = merge_on_read(first)
        append(table, 0, 1, times=5)
        tables = [table, Table(second, table.name)] * 4
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(lambda asked: asked.plan_services(services=["compaction"]), tables))

    instants = [instant for answer in answers for instant in succeeded(answer)["instants"]]
    planned_groups = [group["file_id"] for instant in instants for group in instant["plan"]["file_groups"]]
    assert sorted(planned_groups) == sorted(set(planned_groups))
    assert len(planned_groups) == 2


def test_the_same_request_sent_again_gets_the_first_answer(shared_http: httpx.Client) -> None:
    table = merge_on_read(shared_http)
    append(table, times=5)
    first = table.plan_services("plan-once")
    append(table, 1, times=5)

    assert table.plan_services("plan-once").content == first.content
    assert first.status_code == 201
    refused(table.plan_services("plan-once", force=True), 422, "idempotency-key-reused")


def test_small_files_of_a_partition_are_clustered_together_and_one_alone_never(
    shared_http: httpx.Client,
) -> None:
    """services.md A3: Hudi rewrites one small file alone in its partition for ever."""
    table = simple(shared_http)
    for _ in range(4):
        write_small(table, "day=1")
    write_small(table, "day=2")

    [instant] = plan(table, services=["clustering"])

    assert {group["partition_path"] for group in instant["plan"]["file_groups"]} == {"day=1"}
    assert len(groups(instant)) == 4
    assert instant["plan"]["details"] == {"hoodie.clustering.plan.strategy.target.file.max.bytes": "125829120"}
    planned.cluster(table, instant)
    again = succeeded(table.plan_services(services=["clustering"], force=True))
    assert (again["instants"], reasons(again, "clustering")) == ([], ["nothing-to-do"])


def test_a_round_of_thousands_of_file_groups_is_decided_in_a_process_of_its_own(
    shared_http: httpx.Client,
) -> None:
    table = simple(shared_http)
    began = table.begun()
    files = [small_stat(began, number, "day=1") for number in range(4_000)]
    succeeded(table.complete(began, *files))

    answer = succeeded(table.plan_services(services=["clustering"], force=True))

    [instant] = answer["instants"]
    assert len(groups(instant)) == ROUND_GROUPS_MAX
    [held] = answer["held"]
    assert (held["reason"], held["file_groups"]) == ("bounded", 4_000 - ROUND_GROUPS_MAX)


def test_a_file_group_that_a_round_compacts_is_clustered_by_a_later_one(shared_http: httpx.Client) -> None:
    """One request asks for all services: the two plans of one file group made it fail."""
    table = rest.make_table(shared_http, type="merge_on_read", index={"type": "simple"})
    began = write_small(table, "", "", action="deltacommit")
    for _ in range(4):
        appended = table.begun(action="deltacommit")
        name = f".{began}-0_{appended}.log.1_0-0-0"
        succeeded(table.complete(appended, small_stat(began, 0, "") | {"file_name": name}))
    preview = table.services("/preview")

    [compaction] = plan(table)
    compacted = compact(table, compaction)
    [clustering] = plan(table)

    assert messages(preview, "clustering", "bounded") == [
        "small file groups that this round compacts, and a later one clusters: 1"
    ]
    assert reasons(preview, "clustering") == ["bounded", "nothing-to-do"]
    assert (compaction["action"], groups(compaction)) == ("compaction", {f"{began}-0"})
    assert compacted["state"] == "completed"
    assert (clustering["action"], groups(clustering)) == ("clustering", {f"{began}-0", f"{began}-1"})


def test_a_new_small_file_is_clustered_with_one_of_a_partition_that_was_seen_before(
    shared_http: httpx.Client,
) -> None:
    table = simple(shared_http)
    write_small(table, "day=1", "day=2", "day=2")
    for _ in range(3):
        write_small(table, "day=3", "day=3")
    for instant in plan(table, services=["clustering"]):
        planned.cluster(table, instant)
    assert plan(table, services=["clustering"]) == []
    for _ in range(4):
        write_small(table, "day=1")

    [instant] = plan(table, services=["clustering"])

    assert len(groups(instant)) == 5


def test_a_partition_beyond_the_bound_of_a_round_is_in_the_next_one(shared_http: httpx.Client) -> None:
    table = simple(shared_http, hoodie_clustering_plan_strategy_max_num_groups="1")
    for _ in range(4):
        write_small(table, "day=1", "day=1", "day=2")
    [first] = plan(table, services=["clustering"])
    planned.cluster(table, first)

    [second] = plan(table, services=["clustering"])

    assert (len(groups(first)), len(groups(second))) == (8, 4)


def test_partitions_of_a_clustering_that_was_rolled_back_are_planned_again(shared_http: httpx.Client) -> None:
    table = simple(shared_http)
    for _ in range(4):
        write_small(table, "day=1")
    [cancelled] = plan(table, services=["clustering"])
    succeeded(table.roll_back(cancelled["requested_time"]))
    write_small(table, "day=2")

    [again] = plan(table, services=["clustering"])

    assert groups(again) == groups(cancelled)


def test_a_sorted_file_is_not_sorted_again(shared_http: httpx.Client) -> None:
    table = simple(
        shared_http,
        hoodie_clustering_plan_strategy_sort_columns="name, day",
        hoodie_layout_optimize_strategy="ZORDER",
    )
    for path in ("day=1", "day=2", "day=3", "day=4"):
        write_small(table, path)
    instants = plan(table, services=["clustering"])
    for instant in instants:
        assert instant["plan"]["details"] == {
            "hoodie.clustering.plan.strategy.target.file.max.bytes": "125829120",
            "hoodie.clustering.plan.strategy.sort.columns": "name,day",
            "hoodie.layout.optimize.strategy": "zorder",
        }
        planned.cluster(table, instant)

    assert len(instants) == 4
    assert plan(table, services=["clustering"], force=True) == []


def test_policies_in_the_details_of_a_request_count_in_place_of_those_of_the_table(
    shared_http: httpx.Client,
) -> None:
    table = simple(shared_http)
    write_small(table, "day=1", size_bytes=2**30)
    details = {
        "hoodie.clustering.plan.strategy.sort.columns": "name",
        "hoodie.clustering.plan.strategy.small.file.limit": str(2**40),
    }

    [instant] = plan(table, services=["clustering"], force=True, details=details)
    planned.cluster(table, instant)

    assert plan(table, services=["clustering"], force=True, details=details) == []
    wrong = table.plan_services(details={"hoodie.layout.optimize.strategy": "spiral"})
    refused(wrong, 422, "invalid-plan")


def test_a_clean_is_planned_by_the_policy_of_the_table(shared_http: httpx.Client) -> None:
    table = merge_on_read(shared_http, hoodie_clean_commits_retained="1")
    began = table.begun(action="deltacommit")
    succeeded(table.complete(began, write_stat(began)))

    [instant] = plan(table, services=["clean"])
    again = succeeded(table.plan_services(services=["clean"]))

    assert (instant["action"], instant["state"]) == ("clean", "requested")
    assert instant["plan"]["files_to_delete_count"] == 1
    assert (again["instants"], reasons(again, "clean")) == ([], ["pending-plan"])


def test_a_clean_waits_for_the_commits_of_its_trigger(shared_http: httpx.Client) -> None:
    properties = {"hoodie_clean_commits_retained": "1", "hoodie_clean_trigger_max_commits": "3"}
    table = merge_on_read(shared_http, **properties)
    held: list[list[str]] = []
    for _ in range(2):
        held.append(reasons(table.services("/preview"), "clean"))
        began = table.begun(action="deltacommit")
        succeeded(table.complete(began, write_stat(began)))

    [instant] = plan(table, services=["clean"])

    assert held == [["below-threshold"]] * 2

    assert (instant["action"], instant["plan"]["files_to_delete_count"]) == ("clean", 2)


def test_a_round_moves_the_earliest_commit_to_retain_without_a_file_to_delete(
    shared_http: httpx.Client,
) -> None:
    """#5835, #6373, #6953: nothing cleans a table to which records are only added."""
    properties = {"hoodie.write.empty.clean.interval.hours": "0", "hoodie.clean.commits.retained": "1"}
    table = rest.make_table(shared_http, properties=properties)
    for bucket in (0, 1):
        began = table.begun()
        succeeded(table.complete(began, write_stat(began, bucket)))

    assert plan(table, services=["clean"]) == []

    timeline = succeeded(shared_http.get(f"/v1/tables/{table.name}/instants", params={"action": "clean"}))
    assert [(clean["state"], clean["action"]) for clean in timeline["instants"]] == [("completed", "clean")]


@pytest.mark.parametrize(
    ("properties", "deletable"),
    [
        ({"hoodie_clean_commits_retained": "2"}, 1),
        ({"hoodie_clean_fileversions_retained": "1"}, 2),
        ({"hoodie_clean_policy": "keep_latest_by_hours", "hoodie_clean_commits_retained": "1"}, 0),
        ({}, 0),
    ],
)
def test_a_clean_without_a_policy_takes_that_of_the_table(
    shared_http: httpx.Client, properties: dict[str, str], deletable: int
) -> None:
    table = merge_on_read(shared_http, **properties)
    for _ in range(2):
        began = table.begun(action="deltacommit")
        succeeded(table.complete(began, write_stat(began)))

    preview = succeeded(shared_http.post(f"/v1/tables/{table.name}/clean-plans", json={}))

    assert len(preview["files_to_delete"]) == deletable


def test_log_files_are_merged_where_the_strategy_leaves_a_group_out(shared_http: httpx.Client) -> None:
    """RFC-103: full or log compaction is chosen for each file group, in one round."""
    table = merge_on_read(
        shared_http,
        hoodie_log_compaction_enable="true",
        hoodie_compaction_logfile_size_threshold="10000",
    )
    for _ in range(5):
        began = table.begun(action="deltacommit")
        large = log_stat(began, 0) | {"size_bytes": 5_000}
        succeeded(table.complete(began, large, log_stat(began, 1)))

    full, log = plan(table, services=["compaction", "log-compaction"])

    assert actions([full, log]) == ["compaction", "logcompaction"]
    assert groups(full).isdisjoint(groups(log))


def test_cancelled_clusterings_are_counted_until_one_completes(shared_http: httpx.Client) -> None:
    """#18830: a clustering that starves is shown."""
    table = simple(shared_http)
    for _ in range(4):
        write_small(table, "day=1")
    for _ in range(2):
        [instant] = plan(table, services=["clustering"])
        planned.rewrite(table, instant["plan"]["file_groups"][0])
    starved = table.services()["cancelled_clusterings"]
    assert not re.search(r"^chronolake_clusterings_cancelled 0", shared_http.get("/metrics").text, re.MULTILINE)
    [instant] = plan(table, services=["clustering"])
    planned.cluster(table, instant)

    assert (starved, table.services()["cancelled_clusterings"]) == (2, 0)


def test_a_table_that_switches_services_off_is_told_so(shared_http: httpx.Client) -> None:
    table = merge_on_read(shared_http, hoodie_table_services_enabled="false")
    append(table, times=5)

    preview = table.services("/preview")

    assert {held["reason"] for held in preview["held"]} == {"off"}
    assert actions(plan(table, services=["compaction"], force=True)) == ["compaction"]


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("hoodie.compact.inline.max.delta.commits", "0", "a number of commits, 1 to"),
        ("hoodie.compaction.strategy", "Fastest", "LogFileSizeBased"),
        ("hoodie.clustering.plan.strategy.sort.colums", "id", "did you mean"),
        ("hoodie.cleaner.commits.retained", "3", "did you mean hoodie.clean.commits.retained"),
        ("hoodie.compaction.partition.path.regex", "(a)\\1", "a regular expression"),
        ("hoodie.clustering.plan.strategy.sort.columns", "day, amount", "the columns are at, day, id, name"),
        ("services.plan-expires-second", "3", "did you mean services.plan-expires-seconds"),
    ],
)
def test_a_policy_that_has_no_effect_is_refused_with_advice(
    shared_http: httpx.Client, table: Table, name: str, value: str, advice: str
) -> None:
    answer = shared_http.patch(f"/v1/tables/{table.name}", json={"set": {name: value}})

    assert advice in refused(answer, 422, "invalid-table")["detail"]


def test_hudis_class_names_are_strategies(shared_http: httpx.Client) -> None:
    strategies = (
        "org.apache.hudi.table.action.compact.strategy.PartitionRegexBasedCompactionStrategy,"
        "LogFileNumBasedCompactionStrategy"
    )
    table = merge_on_read(shared_http, hoodie_compaction_strategy=strategies)
    append(table, 0, 1, times=5)
    regex = {"hoodie.compaction.partition.path.regex": "day=.*"}
    unmatched = plan(table, services=["compaction"])
    for instant in unmatched:
        succeeded(table.roll_back(instant["requested_time"]))
    succeeded(shared_http.patch(f"/v1/tables/{table.name}", json={"set": regex}))

    assert (len(unmatched), plan(table, services=["compaction"])) == (1, [])
