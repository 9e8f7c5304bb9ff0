"""The steps of ``AsyncTable.check``, which checks the files of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from chronolake._check_run import Run
from chronolake._concurrency import awaiting as concurrency
from chronolake._file_checks import BaseFile
from chronolake_model.checks import CheckResult
from chronolake_model.cuts import AsOf

if TYPE_CHECKING:
    from chronolake._async.table import AsyncTable

Progress: TypeAlias = Callable[[int, int, int], None]
"""Called after each file with the files read, the files to read, and the records read."""


async def check(
    table: AsyncTable, as_of: AsOf | None, sample: int | None, on_progress: Progress | None
) -> CheckResult:
    """Check the files of a snapshot. A reader's lease keeps cleans from deleting them meanwhile."""
    async with await table.reading(as_of) as reading:
        slices = (await table.snapshot(reading.as_of)).slices if reading.as_of is not None else []
        schemas = [schema async for schema in table.schemas()]
        # Fetched after the slices, so it knows each number of buckets that they may have.
        definition = (await table.reload()).definition
        run = await concurrency.run_blocking(Run, definition, table.storage_options, schemas, reading.as_of)
        base_files = await concurrency.run_blocking(run.check_names_and_sizes, slices)
        sampled = run.sample_of(base_files, sample)
        for number, base_file in enumerate(sampled, 1):
            await _check_file(run, table, base_file)
            if on_progress is not None:
                on_progress(number, len(sampled), run.records)
        await concurrency.run_blocking(run.find_duplicates, base_files)
        if sample is None:
            await concurrency.run_blocking(run.check_texts_of_logs)
    # Last, because listing a large store takes long.
    for orphan in (await table.orphans()).orphans:
        run.add_orphan(orphan)
    is_own = await concurrency.run_blocking(run.check_claim)
    inspection = await table.inspect_publication(reads_contents=sample is None) if is_own else None
    if inspection is not None:
        run.add_publication(inspection)
    return run.report()


async def _check_file(run: Run, table: AsyncTable, base_file: BaseFile) -> None:
    commit_times = await concurrency.run_blocking(run.read, base_file)
    if unknown := run.unknown_commit_times(commit_times):
        run.learn_completion_times(unknown, await table.completion_times(unknown))
    run.check_commit_times(base_file, commit_times)
