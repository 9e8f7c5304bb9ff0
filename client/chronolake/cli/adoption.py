"""``chronolake hudi adopt`` and ``chronolake hudi release``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from chronolake.cli import context, options, output

if TYPE_CHECKING:
    from chronolake.hudi.adopting import Adopted
    from chronolake.hudi.releasing import Released


def adopt(
    path: Annotated[
        str, typer.Argument(metavar="URI", help="The folder of the Hudi table.", show_default=False)
    ],
    table: Annotated[
        str,
        typer.Option(
            "--table",
            metavar="NAMESPACE.TABLE",
            help="The name that the table gets.",
            callback=options.table_name,
            show_default=False,
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check whether the table can be adopted; change nothing.")
    ] = False,
    roll_back_pending: Annotated[
        bool,
        typer.Option(
            "--roll-back-pending",
            help="Roll back instants that Hudi has not completed. Their files are deleted.",
        ),
    ] = False,
    skip_damaged_history: Annotated[
        bool,
        typer.Option(
            "--skip-damaged-history",
            help="Go on if files of Hudi's archived timeline cannot be read, without the instants in them.",
        ),
    ] = False,
    property_: options.PropertyOption = None,
    reuse_base_path: options.ReuseBasePathOption = False,
    storage: options.StorageOption = None,
) -> None:
    """Adopt a table that Hudi has written, where it is: its definition, its history and its files.

    Stop Hudi's writers before. From then on the table is written through Chronolake.
    """
    try:
        from chronolake.hudi import adopting, definitions  # noqa: PLC0415  # an extra
    except ImportError as exc:
        context.fail_without("hudi,arrow", exc)
    storage_options = options.storage(storage)
    wanted = definitions.Options(
        name=table,
        base_path=path,
        roll_back_pending=roll_back_pending,
        reuse_base_path=reuse_base_path,
        skip_damaged_history=skip_damaged_history,
        properties=options.properties(property_ or []),
    )
    with context.client(retry_seconds=60, storage_options=storage_options) as client:
        try:
            adopted = adopting.adopt(
                client, wanted, dry_run=dry_run, storage_options=storage_options, progress=context.progress
            )
        except definitions.CannotAdopt as exc:
            context.fail("\n".join([f"{path} cannot be adopted:", *(f"- {reason}" for reason in exc.reasons)]))
        except (ValueError, ImportError) as exc:
            context.fail(str(exc))
    output.show(adopted, lambda console: _print(console, adopted))


def release(
    table: options.TableArgument, storage: options.StorageOption = None, yes: options.YesOption = False
) -> None:
    """Give a published table back to Hudi: it is dropped here, and its files stay.

    The guard against Hudi's writers goes. The answer says with which settings Hudi should write.
    """
    try:
        from chronolake.hudi import releasing  # noqa: PLC0415  # an extra
    except ImportError as exc:
        context.fail_without("hudi,arrow", exc)
    storage_options = options.storage(storage)
    with context.client(storage_options=storage_options) as client:
        try:
            releasing.find(client, table)  # an unknown table is an error before the question
        except releasing.CannotRelease as exc:
            context.fail(str(exc), exit_code=output.NOT_FOUND)
        try:
            options.confirm(f"Release table {table} to Hudi, and drop it here?", yes)
            released = releasing.release(
                client, table, storage_options=storage_options, progress=context.progress
            )
        except (releasing.CannotRelease, ValueError, ImportError) as exc:
            context.fail(str(exc))
    output.show(released, lambda console: _print_released(console, released))


def _print_released(console: Console, released: Released) -> None:
    pairs = (
        ("released", released.table),
        ("base path", released.base_path),
        ("Hudi's table version", released.table_version),
        ("key generator", released.key_generator),
    )
    output.print_table(console, output.pairs_of(pairs))
    for line in released.advice:
        console.print(f"- {line}")


def _print(console: Console, adopted: Adopted) -> None:
    pairs = (
        ("table", adopted.table),
        ("id", adopted.table_id or "- (dry run: nothing was changed)"),
        ("base path", adopted.base_path),
        ("Hudi's table version", adopted.table_version),
        ("instants", adopted.instants),
        ("files", adopted.files),
        ("served as of (UTC)", output.utc(adopted.cleaned_before)),
        ("rolled back", adopted.rolled_back),
    )
    output.print_table(console, output.pairs_of(pairs))
    for note in adopted.notes:
        console.print(f"- {note}")
