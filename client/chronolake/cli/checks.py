"""``chronolake check``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import typer
from rich.console import Console

from chronolake.cli import context, options, output
from chronolake_model.checks import AWAITS_ROLLBACK, CheckResult, Finding, FindingKind

SHOWN_MAX: Final = 10
"""The findings of one kind that are printed; --json has more."""
_PROGRESS_SECONDS: Final = 5.0
_REWRITE: Final = (
    "Correct the writer (docs/writing.md); then delete these records and write them again, or restore the "
    "table to a savepoint before them."
)
_LOST: Final = "Restore the file from a backup, or restore the table to a savepoint before it was damaged."
_ADVICE: Final = {
    FindingKind.MISSING_FILE: _LOST,
    FindingKind.WRONG_SIZE: _LOST,
    FindingKind.UNREADABLE_FILE: _LOST,
    FindingKind.WRONG_NAME: "Run chronolake-metastore verify: the server never publishes such a name.",
    FindingKind.WRONG_RECORD_COUNT: "Correct the writer's write stats: pruning and totals use them.",
    FindingKind.MISSING_COLUMN: _REWRITE,
    FindingKind.WRONG_TYPE: _REWRITE,
    FindingKind.INVALID_TEXT: "hudi-rs and lookups fail at these files. Write the records again with other "
    "strings, by Spark, which reads them: "
    "table.overwrite(table.read().withColumn('c', make_valid_utf8('c')), 'all'). Log files in Avro with such "
    "strings cannot be read: restore the table to a savepoint before them.",
    FindingKind.WRONG_FIELD_ID: _REWRITE,
    FindingKind.NO_RECORD_KEY: _REWRITE,
    FindingKind.WRONG_RECORD_KEY: _REWRITE,
    FindingKind.WRONG_BUCKET: _REWRITE,
    FindingKind.DUPLICATE_KEY: "Decide which record is right. " + _REWRITE,
    FindingKind.WRONG_PARTITION: _REWRITE,
    FindingKind.WRONG_COMMIT_TIME: "Incremental reads miss these records, or return them wrongly. " + _REWRITE,
    FindingKind.WRONG_COMMIT_SEQNO: "This affects only readers that use the column. " + _REWRITE,
    FindingKind.WRONG_PARTITION_PATH: "This affects only readers that use the column. " + _REWRITE,
    FindingKind.WRONG_FILE_NAME: "This affects only readers that use the column. " + _REWRITE,
    FindingKind.FOREIGN_FILE: "`chronolake orphans` shows details, and deletes files that are never published.",
    FindingKind.FOREIGN_HUDI_FILE: "A writer of Hudi wrote into the table: Hudi's readers may show wrong rows. "
    "Stop it, take its permission to write away, and remove these files.",
    FindingKind.FOREIGN_CLAIM: "Another metastore has the folder: a copy of the database that was claimed, or "
    "another database. This one neither writes nor publishes there; what is in .hoodie was not compared.",
    FindingKind.WRONG_HUDI_FILE: "Run `chronolake hudi publish`: each run compares a part of the files, and "
    "puts them right. Find out who changed them.",
}
_FINISH: Final = "Run `chronolake finish-rollbacks`: it deletes the files of pending rollbacks."


def check(  # one parameter for each option
    table: options.TableArgument,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="TIME",
            callback=options.read_time,
            help="The snapshot of this completion time (instant digits, or ISO 8601 in UTC; earliest, latest).",
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            min=1,
            metavar="N",
            help="Read N base files, spread over the table. The existence, size and name of every file are "
            "checked in any case.",
            show_default=False,
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Read every base file, as without --sample.")] = False,
    storage: options.StorageOption = None,
) -> None:
    """Read a table's files and report errors in them.

    It finds missing, truncated and foreign files, records in wrong buckets or partitions, duplicate keys, and
    columns and values that contradict the schema, the key or Hudi's five columns. It changes nothing. The exit
    code is 0 without a finding, and 1 otherwise.
    """
    if full and sample is not None:
        raise typer.BadParameter("it contradicts --full", param_hint="--sample")
    with context.client(storage_options=options.storage(storage)) as client:
        try:
            report = client.table(table).check(as_of, sample=sample, on_progress=_Progress())
        except ModuleNotFoundError as exc:
            context.fail_without("arrow", exc)
        except (ValueError, ImportError) as exc:
            context.fail(str(exc))
    output.show(report, lambda console: _print(console, report, as_of))
    if report.totals:
        raise typer.Exit(output.FAILED)


class _Progress:
    """Prints the progress of a long check to stderr."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, done: int, files: int, records: int) -> None:
        if time.monotonic() - self._last >= _PROGRESS_SECONDS:
            self._last = time.monotonic()
            print(f"{done:,} of {files:,} files read, {records:,} records", file=sys.stderr, flush=True)


def _print(console: Console, report: CheckResult, asked: str | None) -> None:
    for total in report.totals:
        findings = [finding for finding in report.findings if finding.kind is total.kind]
        rows = [
            (finding.path, finding.records or None, "; ".join(finding.examples) or None) for finding in findings
        ]
        heading = f"{total.kind}: {output.count(total.findings, 'file')}"
        heading += f", {output.count(total.records, 'record')}" if total.records else ""
        console.print(heading, style="bold", soft_wrap=True, markup=False)
        output.print_table(console, output.table_of(("file~", "records#", "examples~"), rows[:SHOWN_MAX]))
        if total.findings > SHOWN_MAX:
            console.print(f"and {total.findings - SHOWN_MAX:,} more; --json has up to 1,000")
        console.print(f"{' '.join(_advice(total.kind, findings))}\n", soft_wrap=True, markup=False)
    for text in report.not_covered:
        console.print(f"Not covered: {text}.", soft_wrap=True, markup=False)
    as_of = output.nothing_completed(asked) if report.as_of is None else f"as of {report.as_of}"
    findings_count = sum(total.findings for total in report.totals)
    verdict = output.count(findings_count, "finding") if findings_count else "no finding"
    files, records = output.count(report.files, "file"), output.count(report.records, "record")
    read = f"{files}, {report.files_read:,} read with {records}"
    console.print(
        f"{report.table} {as_of}: {read}: {verdict}",
        soft_wrap=True,
        markup=False,
    )


def _advice(kind: FindingKind, findings: Sequence[Finding]) -> Iterator[str]:
    """The advice for the findings of a kind."""
    waiting = sum(finding.examples == [AWAITS_ROLLBACK] for finding in findings)
    if waiting:
        yield _FINISH
    if waiting < len(findings):
        yield _ADVICE[kind]
