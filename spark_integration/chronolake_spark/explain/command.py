"""``chronolake explain``: which file groups and files a read touches, and why it leaves out the others."""

from __future__ import annotations

import enum
from typing import Annotated

import typer

from chronolake.cli import context, filters, options, output


class ReadView(enum.StrEnum):
    """The view of a table that a read shows."""

    SNAPSHOT = "snapshot"
    READ_OPTIMIZED = "read_optimized"


def explain(
    table: options.TableArgument,
    filter: Annotated[
        str | None,
        typer.Option(
            "--filter",
            "--where",
            metavar="FILTER",
            help="The filter of the read: \"amount >= 10 and region in ('eu', 'us')\", or a filter of the REST "
            "API in JSON.",
        ),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            metavar="TIME",
            callback=options.read_time,
            help="The state as of this time (instant digits, or ISO 8601 in UTC; earliest, latest).",
        ),
    ] = None,
    view: Annotated[
        ReadView,
        typer.Option("--view", help="read_optimized reads base files without their log files."),
    ] = ReadView.SNAPSHOT,
) -> None:
    """Show which partitions, file groups and files a read through Spark touches, and what it leaves out.

    Nothing is read, and Spark is not started.
    """
    from chronolake_spark.common.format_options import QueryView  # noqa: PLC0415
    from chronolake_spark.explain import of_reads  # noqa: PLC0415  # PyArrow

    with context.client() as client:
        lake_table = client.table(table)
        wanted = None if filter is None else filters.parsed(filter, lake_table, "--filter / --where")
        explanation = of_reads.explain(lake_table, as_of, wanted, QueryView(view), None)
    output.show(explanation, lambda console: console.print(str(explanation), soft_wrap=True, markup=False))
