"""Random workloads beside table services of both engines, savepoints and restores."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import hudi
import pytest
from typing_extensions import override

from chronolake.errors import NotPublished
from chronolake.slices import columns
from chronolake_model import service_properties as names
from chronolake_model.files import FileSlice
from chronolake_model.instants import Instant
from chronolake_model.vocabulary import (
    Action,
    IndexType,
    Operation,
    State as InstantState,
    TableService,
    TableType,
)
from chronolake_spark import service_jobs, services
from chronolake_spark.services import executing, jobs
from tests.spark import hudi_reader
from tests.spark.oracle import State
from tests.spark.test_services import sorted_rows
from tests.spark.workloads import Operation as Step, Workload

Digest: TypeAlias = "dict[tuple[str, str], list[tuple[Any, ...]]]"
"""The rows of each file group, or of each partition, with Hudi's columns but for the name of the file."""
_OF_SERVICES: Final = (Operation.COMPACT, Operation.LOG_COMPACT, Operation.CLUSTER)
_WRITTEN: Final = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)


class ServedWorkload(Workload):
    """A workload whose table has services. Plans may wait for their executor while others write."""

    _savepoint: tuple[str, State] | None = None

    @override
    def step(self) -> None:
        if self._draws.random() < 0.5:
            super().step()
            return
        steps = [self._serve, self._plan, self._execute_waiting, self._write_while_executed, self._clean]
        self._draws.choice([*steps, self._give_up, self._pin, self._restore])()
        self._compare()

    @override
    def _operations(self) -> tuple[list[Step], list[Step], list[Step]]:
        alone, first, within = super()._operations()
        return alone, first, [*within, self._serve, self._execute_waiting]

    @override
    def check_history(self) -> None:
        """As before, and hudi-rs as of each write; at the end no file is left over."""
        self._execute_waiting()
        super().check_history()
        self._check_history_of_hudi()
        self.table.metastore.finish_rollbacks()
        allowed = ("not-a-data-file", "pending")
        orphans = [of for of in self.table.metastore.orphans().orphans if of.reason not in allowed]
        assert orphans == [], self.log

    def _check_history_of_hudi(self) -> None:
        """hudi-rs reads as of the requested time of each write what the table had when the write completed."""
        table = self.table.metastore
        if hudi_reader.is_beyond_hudi_rs(table) or table.publication().lag_versions:
            return
        written = [
            instant
            for instant in table.instants(state=InstantState.COMPLETED, action=_WRITTEN)
            if instant.operation not in _OF_SERVICES
        ]
        readable = {instant.requested_time for instant, _ in self._readable_history()}
        for instant in written:
            if instant.requested_time in readable and not any(_overlap(instant, other) for other in written):
                options = hudi.HudiReadOptions().with_as_of_timestamp(instant.requested_time)
                of_hudi = hudi_reader.rows_of_hudi(table, options).drop_columns([columns.FILE_NAME])
                own = hudi_reader.rows_of(table, instant.completion_time).drop_columns([columns.FILE_NAME])
                # The files differ if a service began before the write and completed after it.
                hudi_reader.assert_same_rows(of_hudi, own)

    def _serve(self) -> None:
        """Plan a service, and execute it at once."""
        self._plan()
        self._execute_waiting()

    def _plan(self) -> None:
        """Plan a service; the plan waits."""
        services_: list[TableService] = []
        if self._definition.type is TableType.MERGE_ON_READ:
            services_ += [TableService.COMPACTION, TableService.LOG_COMPACTION]
        if self._definition.index is not IndexType.BUCKET:
            services_.append(TableService.CLUSTERING)
        if not services_:
            return
        service = self._draws.choice(services_)
        details = self._details(service)
        self._note("plan", service, details)
        planned = self.table.metastore.services.plan(service, force=True, details=details)
        self._note("planned", [plan.requested_time for plan in planned.instants])
        self._publish()

    def _details(self, service: TableService) -> dict[str, str]:
        if service is TableService.LOG_COMPACTION:
            return {names.LOG_BLOCKS_THRESHOLD: "2"}
        if service is not TableService.CLUSTERING:
            return {}
        order = {
            names.CLUSTERING_SORT_COLUMNS: "amount,id",
            names.CLUSTERING_LAYOUT: self._draws.choice(names.LAYOUTS),
        }
        sizes = {names.CLUSTERING_TARGET_BYTES: self._draws.choice(["3000", "1000000"])}
        return {**sizes, **self._draws.choice([{}, order])}

    def _waiting(self) -> list[Instant]:
        return executing.waiting(self.table.metastore.reload(), list(jobs.SERVICES))

    def _execute_waiting(self) -> None:
        """Execute the plans that wait: the rows of each file group stay as they are."""
        for plan in self._waiting():
            before = self._digest(plan.action)
            self._execute(plan)
            assert self._digest(plan.action) == before, self.log

    def _execute(self, plan: Instant) -> None:
        engine = self._draws.choice([self._by_arrow, self._by_spark])
        self._note("execute", plan.action, plan.requested_time, engine.__name__)
        try:
            self._record(engine(plan))
        except executing.OF_OTHERS as lost:
            self._note("lost", type(lost).__name__)
        self._publish()

    def _by_arrow(self, plan: Instant) -> Instant:
        return services.execute(self.table.metastore, plan.requested_time)

    def _by_spark(self, plan: Instant) -> Instant:
        return service_jobs.execute(self._spark, self.table.metastore, plan.requested_time)

    def _write_while_executed(self) -> None:
        """A write between the files of a plan and its completion."""
        waiting = self._waiting()
        if not waiting:
            return
        with pytest.MonkeyPatch.context() as patches:
            complete = executing.complete

            def write_and_complete(*arguments: Any) -> None:
                patches.undo()
                self._note("within")
                self._run(self._draws.choice([self._upsert_only, self._delete_keys, self._overwrite]))
                complete(*arguments)

            patches.setattr(executing, "complete", write_and_complete)
            self._execute(self._draws.choice(waiting))

    def _give_up(self) -> None:
        """Roll back a plan that waits."""
        waiting = self._waiting()
        if waiting:
            plan = self._draws.choice(waiting)
            self._note("give up", plan.requested_time)
            self.table.metastore.rollback(plan.requested_time)
            self._publish()

    def _clean(self) -> None:
        """Delete files of the past, by the client or by Spark."""
        retained = self._draws.randint(1, 4)
        self._note("clean", retained)
        before = self._digest(Action.CLEAN)
        if self._draws.random() < 0.5:
            self.table.clean(retain_commits=retained)
        else:
            self.table.metastore.clean(retain_commits=retained)
        assert self._digest(Action.CLEAN) == before, self.log
        self._publish()

    def _pin(self) -> None:
        """Make a savepoint, or release it."""
        table = self.table.metastore
        if self._savepoint is not None:
            self._note("release")
            table.release_savepoint(self._savepoint[0])
            self._savepoint = None
        elif self.history:
            self._note("savepoint")
            self._savepoint = table.savepoint().requested_time, dict(self.oracle.state)
        self._publish()

    def _restore(self) -> None:
        """Go back to the savepoint, which stays."""
        if self._savepoint is None:
            return
        self._note("restore", self._savepoint[0])
        restore = self.table.metastore.restore(self._savepoint[0])
        self.oracle.state = dict(self._savepoint[1])
        self._record(restore)
        self._publish()

    @override
    def _compact(self) -> Instant | None:
        return None if self._waiting() else super()._compact()

    @override
    def _resize(self) -> Instant:
        # A plan that waits would refuse it.
        self._execute_waiting()
        return super()._resize()

    def _publish(self) -> None:
        with contextlib.suppress(NotPublished):
            hudi_reader.publish_and_compare(self.table.metastore)

    def _digest(self, action: Action) -> Digest:
        """The rows by file groups, or by partitions for a clustering, which moves records to other groups."""
        parts: dict[tuple[str, str], list[FileSlice]] = {}
        for part in self.table.metastore.snapshot().slices:
            group = "" if action is Action.CLUSTERING else part.file_id
            parts.setdefault((part.partition_path, group), []).append(part)
        digests = {name: self._rows_of(slices) for name, slices in parts.items()}
        return {name: rows for name, rows in digests.items() if rows}

    def _rows_of(self, slices: Sequence[FileSlice]) -> list[tuple[Any, ...]]:
        return sorted_rows(hudi_reader.rows_of_slices(self.table.metastore, slices))


def _overlap(instant: Instant, other: Instant) -> bool:
    """Whether one began before the other and completed after it: Hudi's as-of cannot tell them apart."""
    assert instant.completion_time is not None
    assert other.completion_time is not None
    begun_before = other.requested_time < instant.requested_time
    return begun_before != (other.completion_time < instant.completion_time)
