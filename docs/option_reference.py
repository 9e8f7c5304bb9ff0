"""The reference of the options of ``format("chronolake")``: names from the code, meanings from here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from chronolake_spark.common.format_options import NAMES, Use
from docs import markdown_text

_USES: Final = {
    Use.READ: "`read`",
    Use.READ_STREAM: "`readStream`",
    Use.WRITE: "`write`",
    Use.WRITE_STREAM: "`writeStream`",
}
_MEANINGS: Final[Mapping[str, str]] = {
    "table": "`namespace.table`; or the argument of `load` and `save`",
    "path": "The same as `table`; Spark gives it for the argument of `load` and `save`",
    "url": "The server; default `$CHRONOLAKE_URL`",
    "token_file": "A file with the [token](../security.md#clients), on driver and executors",
    "ca_file": "A file with the CAs that are trusted for https, on driver and executors",
    "oauth_client_id": "The client of [OAuth 2](../security.md#clients) that gets tokens",
    "oauth_client_secret_file": "A file with its secret, on driver and executors",
    "oauth_token_url": "Where it gets them",
    "oauth_scope": "The scope that it asks for",
    "oauth_audience": "The audience that it asks for",
    "storage_secrets": (
        'Storage options as JSON, `{"access_key": "…", "secret_key": "…"}`, where the environment '
        "does not have them"
    ),
    "as_of": (
        "The state as of a [completion time](../concepts/reading.md#words-for-times): 17 or 20 "
        "digits, a date or a time (`2026-01-31`, `2026-01-31 12:00`, `2026-01-31T12:00:00Z`), "
        "`earliest` or `latest`; or the JSON of a [cut](../concepts/reading.md#one-moment-for-many-tables)"
    ),
    "from": (
        "The begin of a range of [changes](../concepts/reading.md#changes), as `as_of`. Of a "
        "stream: where a new query begins, `earliest` by default, or the `endOffset` of another "
        "query's `lastProgress`"
    ),
    "to": "The end of the range",
    "filter": (
        "A [filter](../concepts/reading.md#filters-through-spark), `price >= 10 and country in "
        "('de', 'fr')`: the server leaves out files without such records. `where` on the frame is faster"
    ),
    "view": (
        "`snapshot`, `changes`, or `read_optimized`: base files without the log files of a "
        "merge-on-read table. Of a stream: `changes`, which must be given only without the jar"
    ),
    "meta_columns": "`true` adds Hudi's five columns",
    "after": (
        "In place of `from`: a [cursor of the log](../concepts/log.md#following-the-log). The "
        "query begins with what completed after it"
    ),
    "max_commits": "Commits in a batch, at most 10,000; default 1,000",
    "max_files": (
        "Files that the commits of a batch have written; default no limit. A larger commit has a "
        "batch of its own"
    ),
    "max_bytes": "Bytes of these files; default no limit",
    "lease_seconds": "How long a stopped query can wait; default 86,400, at most 604,800 (seven days)",
    "idle_ms": "The pause between two requests while nothing completes; default 500",
    "reader": "The name of the query in the list of readers; default user@host:pid",
    "operation": (
        "`upsert` (default), `insert`, `bulk_insert`, or `delete`, which takes the key, partition "
        "and ordering columns of the frame ([Operations](../spark.md#operations))"
    ),
    "duplicates": "Of an insert: `fail` (default) refuses keys that exist, `drop` leaves them out",
    "delete_when": "Of an upsert: the SQL condition of rows that delete",
    "row_order": (
        "Columns, separated by commas: of rows of one key, the last by these columns wins. Values "
        "ascend, null and NaN first; texts are compared by their bytes. Of a stream: within one "
        "batch"
    ),
    "markers": "`server` or `direct` ([Direct markers](../concepts/markers.md#direct-markers))",
    "services": (
        "Whether the write, once it is complete, runs the [table services](../concepts/table-services.md) that "
        "are due: `on` or `off`. Default: as the table's `hoodie.compact.inline` and `hoodie.clustering.inline`"
    ),
    "on_conflict": (
        "`fail` (default), or `retry`: a write that lost a conflict is done again, on what the "
        "winner wrote. Of a stream `retry` is the default, and `fail` ends the query"
    ),
    "merge_schema": (
        "`true` adds columns of the frame that the table lacks, also fields of structs at any "
        "depth, and widens columns. Frames of other jobs then lack the new columns and are "
        "refused. Nested fields are widened by [`change_schema`](../concepts/tables.md#schemas)"
    ),
    "partitions": (
        'With `mode("overwrite")`: `all` replaces the whole table, `dynamic` the partitions that '
        "the frame has rows of. Default: as `spark.sql.sources.partitionOverwriteMode`, whose "
        "default means `all`"
    ),
    "stream": "The name of the stream; default the id of the query",
    "pending_max": (
        "How many batches may [wait for their "
        "completion](../spark-streaming.md#batches-that-complete-later) while the next one is "
        "written; default 0"
    ),
    "replayed": (
        "`fail` (default), or `skip`: a batch whose id has completed is left out ([Exactly "
        "once](../spark-streaming.md#exactly-once))"
    ),
}


def lines() -> Iterator[str]:
    """The lines of the page."""
    yield from (
        '# Options of `format("chronolake")`',
        "",
        "[Spark](../spark.md#write-and-read-frames) and [Spark: streams](../spark-streaming.md) have examples. "
        "An unknown option is an error that names the nearest one.",
        "",
    )
    rows = (
        (f"`{name}`", ", ".join(text for use, text in _USES.items() if name in use.value), _MEANINGS[name])
        for name in NAMES
    )
    yield from markdown_text.table(("option", "for", "meaning"), rows)
