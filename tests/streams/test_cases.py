"""The cases that streaming sinks of other projects have got wrong, and the tests that cover each.

They come from Hudi's coordinator of Flink writers and its bugs, from articles on exactly-once sinks, and from
prototypes with Spark and Flink. A test whose name is not found fails this module, so the table stays true. One
case has no test: compaction that is scheduled after a commit, because servers do not schedule it yet.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).parent.parent
STREAMS = "server/test_streams.py"
CASES_OF_SERVER = "server/test_stream_cases.py"
REPORTED = "server/test_reported_files.py"
SILENT = "server/test_silent_streams.py"
CLIENT = "client/test_streams.py"
SCHEDULES = "streams/test_schedules.py"
KILLED = "streams/test_killed_servers.py"
WRITER = "streams/test_task_writer.py"
QUERIES = "spark/test_stream_queries.py"
BATCHES = "spark/test_stream_batches.py"
SOURCE_PLANS = "spark/test_stream_plans.py"
SOURCE = "spark/test_stream_reader.py"
FLINK = "flink/test_flink_sink.py"

Tests = tuple[tuple[str, str], ...]
HUDI: Final[dict[str, Tests]] = {
    "reports of one task and instant merge, each checkpoint has a buffer of its own": (
        (STREAMS, "several_flushes_of_a_task_merge"),
        (STREAMS, "another_checkpoint_gets_another_instant_at_once"),
    ),
    "a task asks with the last barrier, and the same id gets the cached instant": (
        (STREAMS, "the_same_checkpoint_gets_the_same_instant"),
        (STREAMS, "tasks_that_ask_at_once_begin_one_instant"),
        (SCHEDULES, "tasks_that_ask_with_the_last_complete_checkpoint_are_found"),
    ),
    "blocking mode waits for the instant before": (
        (STREAMS, "in_blocking_mode_an_instant_begins_when_the_one_before_has_ended"),
        (STREAMS, "not_yet_is_no_outcome_so_the_same_request_gets_an_instant_later"),
        (CLIENT, "a_blocking_task_waits_no_longer_than_it_says"),
    ),
    "a report for another instant is refused": ((STREAMS, "an_instant_of_another_checkpoint_is_refused"),),
    "an acknowledgement n completes every id below n in order; a lost one is subsumed": (
        (STREAMS, "an_acknowledgement_completes_every_earlier_checkpoint_in_order"),
        (STREAMS, "a_lost_acknowledgement_is_covered_by_the_next"),
        (SCHEDULES, "completing_the_checkpoint_that_is_acknowledged_is_found"),
    ),
    "an empty checkpoint makes no commit unless a property says so; one that fails holds the later back": (
        (STREAMS, "a_checkpoint_without_files_completes_no_instant"),
        (STREAMS, "a_table_may_want_commits_without_files"),
        (STREAMS, "a_task_that_has_not_reported_its_last_batch_holds_the_checkpoint_back"),
        (REPORTED, "one_new_group_is_refused_in_a_second_pending_checkpoint"),
    ),
    "the buffer survives a failover; a restored job completes what was acknowledged (PR 13530, PR 13543)": (
        (STREAMS, "a_restored_job_completes_what_was_acknowledged_and_nothing_behind_it"),
        (KILLED, "each_record_is_visible_exactly_once_while_servers_are_killed"),
    ),
    "restored tasks send their events again; a part of them completes nothing": (
        (STREAMS, "a_restored_task_may_report_a_completed_instant_again"),
        (STREAMS, "a_report_that_comes_again_is_the_same_event"),
        (STREAMS, "a_task_that_has_not_reported_its_last_batch_holds_the_checkpoint_back"),
    ),
    "the end of the input completes what is left, when all tasks have ended": (
        (STREAMS, "what_is_left_completes_when_all_tasks_have_ended"),
    ),
    "issues 19215, 19237: a checkpoint in progress, without reports, disturbs a restore": (
        (
            CASES_OF_SERVER,
            "a_checkpoint_in_progress_that_no_task_has_reported_survives_no_restore_and_loses_nothing",
        ),
    ),
    "issue 19357: two coordinators are alive at once": (
        (STREAMS, "a_later_open_fences_every_call_of_the_earlier_epoch"),
        (CLIENT, "a_restored_job_rolls_back_what_is_behind_its_checkpoint"),
        (SCHEDULES, "missing_fencing_is_found"),
    ),
    "issues 19902, 19587: a request for an instant waits for a lock until the job restarts": (
        (STREAMS, "another_checkpoint_gets_another_instant_at_once"),
        (STREAMS, "not_yet_is_no_outcome_so_the_same_request_gets_an_instant_later"),
    ),
    "issue 14157: a commit after a restore is recorded under another checkpoint": (
        (CASES_OF_SERVER, "an_instant_that_completes_after_a_restore_keeps_its_own_checkpoint"),
    ),
    "issue 18051: what a task failed to write is lost in silence": (
        (STREAMS, "a_task_that_has_not_reported_its_last_batch_holds_the_checkpoint_back"),
        (STREAMS, "marked_files_that_no_task_reported_hold_the_checkpoint_back_until_they_are_deleted"),
        (WRITER, "no_row_is_lost_or_visible_twice_whatever_fails"),
    ),
}
ARTICLES: Final[dict[str, Tests]] = {
    "1 the same id gets the cached instant": ((STREAMS, "the_same_checkpoint_gets_the_same_instant"),),
    "2 a new id gets one at once": ((STREAMS, "another_checkpoint_gets_another_instant_at_once"),),
    "3 requests carry the last barrier, for a flush may come from a full buffer": (
        (WRITER, "the_instant_is_asked_for_at_the_first_flush_not_ahead"),
    ),
    "4 a first start asks with -1, a restart from its state": (
        (STREAMS, "a_stateless_restart_asks_for_the_first_checkpoint_again_and_gets_a_new_instant"),
        (STREAMS, "a_restored_job_completes_what_was_acknowledged_and_nothing_behind_it"),
    ),
    "5 the flushes of a task merge": (
        (STREAMS, "several_flushes_of_a_task_merge"),
        (SCHEDULES, "replacing_reports_instead_of_merging_them_is_found"),
    ),
    "6 an acknowledgement completes every earlier id in order, then forgets them": (
        (STREAMS, "an_acknowledgement_completes_every_earlier_checkpoint_in_order"),
        (STREAMS, "checkpoints_complete_in_the_order_of_their_ids_not_of_their_instants"),
    ),
    "7 a lost acknowledgement is subsumed": ((STREAMS, "a_lost_acknowledgement_is_covered_by_the_next"),),
    "8 the buffer is durable": ((KILLED, "each_record_is_visible_exactly_once_while_servers_are_killed"),),
    "9 the coordinator holds what is before the checkpoint, the tasks what is behind it": (
        (STREAMS, "a_restored_job_completes_what_was_acknowledged_and_nothing_behind_it"),
        (STREAMS, "a_task_that_restarts_keeps_what_it_reported_before_its_checkpoint"),
    ),
    "10 slices go by completion time, and compaction waits for no writer": (
        (CASES_OF_SERVER, "a_compaction_does_not_wait_for_the_pending_instants_of_a_stream"),
    ),
    "11 times increase although clocks differ": (
        (CASES_OF_SERVER, "the_instants_of_a_stream_increase_although_the_clock_is_set_back"),
    ),
    "12 an idle stream makes no instant ahead": ((STREAMS, "an_idle_stream_begins_no_instant_ahead"),),
    "13 an empty checkpoint breaks nothing behind it": (
        (CASES_OF_SERVER, "checkpoints_behind_an_empty_one_complete"),
    ),
    "14 an instant may span checkpoints when notices are missed": (
        (STREAMS, "an_aborted_checkpoint_keeps_its_files_for_the_next"),
        (STREAMS, "repeated_and_earlier_acknowledgements_change_nothing"),
    ),
    "15 the next checkpoint brings what one that timed out had": (
        (STREAMS, "an_aborted_checkpoint_keeps_its_files_for_the_next"),
    ),
    "16 rows that arrive while flushing belong to the next checkpoint": (
        (WRITER, "rows_behind_a_barrier_belong_to_the_next_checkpoint"),
    ),
    "17 a failed checkpoint or task rolls back": (
        (STREAMS, "a_task_that_restarts_alone_drops_only_its_own_files"),
        (SILENT, "an_instant_without_its_last_batches_is_rolled_back_with_all_behind_it"),
    ),
    "18 a fresh task has nothing to send, a restored one sends what is pending": (
        (STREAMS, "a_report_that_comes_again_is_the_same_event"),
        (STREAMS, "a_restored_task_may_report_a_completed_instant_again"),
    ),
    "19 the end of the input comes in order, and no flush after it": (
        (STREAMS, "a_task_that_has_ended_does_not_write_again"),
        (STREAMS, "the_log_has_the_end_of_the_input_after_an_acknowledged_checkpoint"),
        (WRITER, "the_end_of_the_input_writes_what_is_left"),
    ),
    "20 a commit may be repeated, and its final failure is told": (
        (STREAMS, "a_task_that_has_not_reported_its_last_batch_holds_the_checkpoint_back"),
        (REPORTED, "one_new_group_is_refused_in_a_second_pending_checkpoint"),
        (CLIENT, "files_of_failed_attempts_are_deleted_before_a_checkpoint_completes"),
        (BATCHES, "a_completion_that_fails_in_the_background_ends_the_query"),
    ),
    "21 files that were flushed early stay invisible": (
        (CASES_OF_SERVER, "reported_files_are_invisible_until_the_acknowledgement"),
    ),
    "22 without checkpoints instants stay pending": (
        (SILENT, "a_live_stream_keeps_its_instants_however_long_they_take"),
    ),
    "23 rows are shuffled by file group, and two tasks never write one": (
        ("spark/test_bucket_writer.py", "rows_of_a_group_that_do_not_come_together_are_refused"),
    ),
    "24 one task that makes instants is a bottleneck: the server makes them": (
        (STREAMS, "tasks_that_ask_at_once_begin_one_instant"),
    ),
}
RUNS: Final[dict[str, Tests]] = {
    "the barrier is the key, not the notification": (
        (SCHEDULES, "tasks_that_ask_with_the_last_complete_checkpoint_are_found"),
    ),
    "region failover with early flushes": (
        (STREAMS, "a_task_that_restarts_alone_drops_only_its_own_files"),
        (SCHEDULES, "a_restart_of_one_task_that_drops_the_files_of_all_is_found"),
        (WRITER, "no_row_is_lost_or_visible_twice_whatever_fails"),
        ("server/test_restarted_tasks.py", "reported_files_that_a_restart_drops_may_be_deleted_and_others_not"),
        (FLINK, "a_killed_task_restarts_alone_and_nothing_is_lost_or_doubled"),
    ),
    "a job is restored with another number of tasks": (
        (FLINK, "a_killed_job_is_restored_with_another_number_of_tasks_while_acknowledgements_fail"),
    ),
    "stateless restart": (
        (STREAMS, "a_stateless_restart_asks_for_the_first_checkpoint_again_and_gets_a_new_instant"),
    ),
    "calls of an old job are fenced": (
        (STREAMS, "a_later_open_fences_every_call_of_the_earlier_epoch"),
        (FLINK, "a_job_that_was_thought_dead_changes_nothing_any_more"),
    ),
    "repeated acknowledgements, also before the restore": (
        (STREAMS, "repeated_and_earlier_acknowledgements_change_nothing"),
        (
            CASES_OF_SERVER,
            "an_acknowledgement_that_was_under_way_before_the_restore_is_refused_and_then_repeated",
        ),
        (FLINK, "refused_acknowledgements_come_again_after_the_tasks_have_failed"),
    ),
    "two tasks ask at once in blocking mode": (
        (CASES_OF_SERVER, "tasks_that_ask_at_once_in_blocking_mode_begin_one_instant"),
    ),
    "a slow acknowledgement does not stall writers": (
        (STREAMS, "another_checkpoint_gets_another_instant_at_once"),
        (BATCHES, "batches_complete_while_later_ones_are_written"),
    ),
    "pending instants are bounded, and complete together": (
        (STREAMS, "pending_instants_are_bounded"),
        (STREAMS, "an_acknowledgement_completes_every_earlier_checkpoint_in_order"),
    ),
    "a replay writes no files": (
        (QUERIES, "a_query_writes_each_batch_once_also_where_spark_lost_its_log_of_the_last"),
        (BATCHES, "a_batch_that_has_completed_writes_nothing_again"),
    ),
    "an abort after the completion": (
        (CASES_OF_SERVER, "a_late_abort_of_a_complete_checkpoint_takes_nothing_back"),
    ),
    "asynchronous progress tracking is refused": ((QUERIES, "what_cannot_be_exactly_once_is_refused"),),
    "the offset of a source goes back": ((SOURCE_PLANS, "an_offset_never_goes_back"),),
    "an idle source polls without a pause": ((SOURCE, "an_idle_query_asks_no_more_often_than_its_pause"),),
}


@pytest.mark.parametrize("case", [*HUDI.items(), *ARTICLES.items(), *RUNS.items()], ids=lambda case: case[0])
def test_the_tests_of_a_case_exist(case: tuple[str, Tests]) -> None:
    _, tests = case
    for path, name in tests:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert f"\ndef test_{name}(" in text or f"\ntest_{name} = " in text, f"{path} has no test_{name}"
