"""The commands of hudi-cli beside those of Chronolake, which the tests of the pages look up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from docs import markdown_text

_ROWS: Final = (
    ("`connect --path`", "`--url`, or `CHRONOLAKE_URL`; tables have names"),
    ("`create`, `desc`", "`chronolake tables create`, `chronolake tables show`"),
    ("`fetch table schema`", "`chronolake schema show`"),
    ("`table update-configs`, `delete-configs`", "`chronolake tables set`"),
    (
        "`commits show`, `commits showarchived`, `timeline show active`, `metadata timeline show`",
        "`chronolake timeline`: active and archived instants in one list",
    ),
    ("`timeline show incomplete`, `compactions show all` for pending ones", "`chronolake timeline --pending`"),
    (
        "`commit showpartitions`, `showfiles`, `show_write_stats`",
        "`chronolake instant`, and `chronolake changes` for its file groups",
    ),
    ("`commits compare`, `commits sync`, `sync validate`", "not needed: one log has the commits of a table"),
    ("`commit rollback`", "`chronolake rollback` if it is pending; `chronolake restore` if it is completed"),
    ("`show fsview all`", "`chronolake files --view latest`, and `chronolake file-group` for former slices"),
    ("`show fsview latest`", "`chronolake snapshot`, `chronolake files`, `chronolake partitions`"),
    (
        "`show logfile metadata`, `show logfile records`",
        "`chronolake check` reads log files; `chronolake head` shows their records merged",
    ),
    ("`cleans show`, `clean showpartitions`", "`chronolake timeline --action clean`, `chronolake instant`"),
    ("`cleans run`", "`chronolake clean`; `--dry-run` shows the files first"),
    (
        "`compactions show`, `compaction show`, `compaction validate`",
        "`chronolake services status`, `chronolake instant` for a plan",
    ),
    (
        "`compaction schedule`, `run`, `scheduleAndExecute`; `clustering …`",
        "`chronolake services run` plans and executes; `chronolake services preview` shows the next plans",
    ),
    ("`compaction unschedule`, `unscheduleFileId`, `repair`", "`chronolake rollback` of the plan"),
    ("`savepoints show`, `savepoint create`, `delete`", "`chronolake savepoint list`, `create`, `release`"),
    ("`savepoint rollback`", "`chronolake restore`"),
    (
        "`show rollbacks`, `show rollback`, `show restores`",
        "`chronolake timeline --rollbacks`, `chronolake timeline --action restore`",
    ),
    ("`show archived commits`, `show archived commit stats`", "`chronolake timeline`"),
    ("`trigger archival`", "servers do it; `chronolake archive status` says what holds it"),
    ("`stats wa`, `stats filesizes`", "`chronolake stats`"),
    (
        "`diff file`, TimelineInspector's `--find-file-id`, `--lifecycle`",
        "`chronolake file-group` with a file id, or the name of a file",
    ),
    ("`diff partition`", "`chronolake partitions --as-of` at both times; `chronolake diff` for records"),
    ("`--parse-filename`", "`chronolake file-name`"),
    (
        "`--phase-timings`",
        "the duration in `chronolake timeline`; `chronolake events` has the time of each transition",
    ),
    (
        "`export instants`",
        "`chronolake timeline --limit 1000000 --json`; `chronolake events --json` for all of the log",
    ),
    ("`marker delete`", "`chronolake rollback`; `chronolake markers` lists them"),
    (
        "`repair …`",
        "`chronolake check`, `chronolake orphans`, `chronolake sweep`; partition metadata is published",
    ),
    ("`metadata …`", "no metadata table: the server knows the files"),
    (
        "`bootstrap run`, `upgrade table`, `downgrade table`",
        "`chronolake hudi adopt`, `chronolake hudi release`",
    ),
    (
        "`locks audit …`, `lock …`",
        "no locks: `chronolake instant` shows the lease, `chronolake conflicts` a conflict",
    ),
    ("`checkpoint …`", "`chronolake streams`"),
    ("`temp_query`", "`chronolake query`"),
)


def lines() -> Iterator[str]:
    """The lines of the page."""
    yield from (
        "# Coming from hudi-cli",
        "",
        "No command needs a JVM; `chronolake services run` needs the extra `spark`. "
        "`--json` gives the same as one document. "
        "[The command line](cli.md) has all options.",
        "",
    )
    yield from markdown_text.table(("hudi-cli", "Chronolake"), _ROWS)
