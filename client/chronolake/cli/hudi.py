"""``chronolake hudi`` and ``chronolake archive``."""

from __future__ import annotations

from collections.abc import Iterator

import typer
from rich.console import Console

from chronolake.cli import adoption, context, options, output
from chronolake_model.publication import ActiveTimeline, Publication


def app() -> typer.Typer:
    """The commands of ``chronolake hudi``."""
    return options.group(
        "hudi",
        "Publish tables for Hudi's readers, adopt tables of Hudi, and release tables to Hudi.",
        ("status", show_status),
        ("publish", publish),
        ("adopt", adoption.adopt),
        ("release", adoption.release),
    )


def archive_app() -> typer.Typer:
    """The commands of ``chronolake archive``."""
    return options.group(
        "archive",
        "See what keeps a table's instants on the active timeline that Hudi's readers list. "
        "The archive of the log is the operator's: chronolake-metastore archive.",
        ("status", archive_status),
    )


def archive_status(table: options.TableArgument) -> None:
    """Show where the published active timeline begins, what holds it, for how long, and what ends that."""
    with context.client() as client:
        active = client.table(table).publication().active_timeline
    rows: list[tuple[str, object]] = [("table", table), *_rows_of(active)]
    if active is None or active.held_by is None:
        rows.append(("active timeline held by", "nothing"))
    output.show(active, lambda console: console.print(output.pairs_of(rows)))


def _rows_of(active: ActiveTimeline | None) -> Iterator[tuple[str, object]]:
    if active is not None and active.before is not None:
        files = output.count(active.history_files, "history file")
        yield "active timeline from (UTC)", f"{output.utc(active.before)}; older instants are in {files}"
    if active is None or active.held_by is None:
        return
    since = "" if active.held_since is None else f", {output.utc(active.held_since)}"
    yield "active timeline held by", f"{active.held_by}{since}"
    if active.held_seconds is not None:
        yield "its age", f"{active.held_seconds:,.0f} s"
    yield "what to do", active.advice


def show_status(table: options.TableArgument) -> None:
    """Show up to where a table is published for Hudi's readers, and why not further."""
    with context.client() as client:
        publication = client.table(table).publication()
    output.show(publication, lambda console: _print(console, publication))


def publish(table: options.TableArgument, storage: options.StorageOption = None) -> None:
    """Publish a table for Hudi's readers up to the end of its log, from this machine."""
    with context.client(storage_options=options.storage(storage)) as client:
        try:
            publication = client.table(table).publish()
        except (ValueError, ImportError) as exc:
            context.fail(str(exc))
    output.show(publication, lambda console: _print(console, publication))


def _print(console: Console, publication: Publication) -> None:
    rows: list[tuple[str, object]] = [
        ("table", publication.table),
        ("state", publication.state),
        ("published by", f"{publication.publishes}s"),
        ("published (UTC)", output.utc(publication.published_completion)),
        ("version", f"{publication.published_version} of {publication.version}"),
        ("seen by Hudi's readers", "yes" if publication.is_visible else "no"),
    ]
    if publication.lag_versions:
        rows.append(
            ("lag", f"{publication.lag_seconds:.1f} s, {output.count(publication.lag_versions, 'version')}")
        )
    rows += _rows_of(publication.active_timeline)
    rows += [
        (name, text)
        for name, text in (
            ("reason", publication.reason),
            ("failure", publication.failure),
            ("publisher", publication.publisher),
            ("foreign files", ", ".join(publication.foreign_files)),
        )
        if text
    ]
    console.print(output.pairs_of(rows))
