"""Advice for clients about each problem, for the reference of the REST API."""

from __future__ import annotations

from typing import Final

from chronolake_model.problems import ProblemCode

ADVICE: Final[dict[ProblemCode, str]] = {
    ProblemCode.INVALID_REQUEST: "Correct the body; `detail` names the field.",
    ProblemCode.INVALID_PARAMETER: "Correct the parameter; `detail` names it.",
    ProblemCode.INVALID_CURSOR: "Start the list again without a cursor.",
    ProblemCode.ROUTE_NOT_FOUND: "Check the path; `/openapi.json` lists all of them.",
    ProblemCode.METHOD_NOT_ALLOWED: "Use a method that the path takes; `/openapi.json` lists them.",
    ProblemCode.INSTANT_NOT_FOUND: "Check the requested time and the table.",
    ProblemCode.READER_NOT_FOUND: "Take another lease; the lease has ended, or never existed.",
    ProblemCode.BODY_TOO_SLOW: "Send the request again, faster or in smaller parts. It was not executed.",
    ProblemCode.NAMESPACE_EXISTS: "Use the namespace, or choose another name.",
    ProblemCode.TABLE_EXISTS: "Use the table, or choose another name.",
    ProblemCode.UNRECONCILED_MARKERS: (
        "Delete the files, report that (`POST …/deletions`); complete, new key. At a checkpoint of a stream "
        "first make sure that all tasks have passed its barrier: a slow task may still write such a file."
    ),
    ProblemCode.UNDELETED_FILES: "As `unreconciled-markers`.",
    ProblemCode.SAVEPOINTED: "Release the savepoint first.",
    ProblemCode.INVALID_MARKER: "Correct the marker; `detail` says which and why.",
    ProblemCode.INVALID_DELETION: "Report only files that this instant may delete; `detail` names the file.",
    ProblemCode.INVALID_PLAN: "Correct the plan; `detail` says what does not fit.",
    ProblemCode.ACTION_NOT_SUPPORTED: "Use an action of the table's type; `detail` says why.",
    ProblemCode.TOO_MANY_STREAMS: "Close a stream, or wait; `Retry-After` is the number of seconds.",
    ProblemCode.NAMESPACE_NOT_FOUND: "Create the namespace first.",
    ProblemCode.TABLE_NOT_FOUND: "Create the table first, or check its name.",
    ProblemCode.SCHEMA_NOT_FOUND: "List the versions of the table's schema.",
    ProblemCode.INCOMPATIBLE_SCHEMA: "Request another change; `detail` says why, and what is allowed.",
    ProblemCode.SCHEMA_CHANGED: "Read schema version `context.schema_version`, and repeat the change.",
    ProblemCode.NOT_PUBLISHED: "Wait; `detail` says why nothing is to be published.",
    ProblemCode.NOT_PUBLISHED_YET: "Request the compaction first; take it inflight a little later.",
    ProblemCode.STREAM_NOT_FOUND: "Open the stream first, or check its name.",
    ProblemCode.STREAM_FENCED: "Stop: another job, or another attempt of the task, has taken over.",
    ProblemCode.CHECKPOINT_PASSED: "Ask with the id of the last barrier that the task has passed.",
    ProblemCode.CHECKPOINT_INCOMPLETE: (
        "Report the last batches of the tasks in `context`, and acknowledge again. If the tasks are gone, "
        "restore the job: open the stream with `restored_checkpoint`."
    ),
    ProblemCode.UNKNOWN_CHECKPOINT: "Acknowledge with the id that the engine gave to the checkpoint.",
    ProblemCode.INSTANT_NOT_YET: "Buffer, and send the same request again when a checkpoint is complete.",
    ProblemCode.MAY_CONFLICT: "Write log files or another file group, or ask for instants with `blocking`.",
    ProblemCode.PUBLICATION_FENCED: "Stop, or take the lease again.",
    ProblemCode.OUTCOME_NOT_FOUND: "It may still be under way. Send it again under its key: it runs once.",
    ProblemCode.NAMESPACE_NOT_EMPTY: "Drop the namespace's tables first.",
    ProblemCode.ILLEGAL_TRANSITION: "Check the present state, `context.state`.",
    ProblemCode.LEASE_LIVE: "Ask the writer or publisher, or wait for `context.lease_seconds_left` seconds.",
    ProblemCode.WRITE_CONFLICT: "Roll back, read as of `context.rebase_on` or later, write again. "
    "`context.winner` is the instant that won, `context.file_groups` the file groups in common.",
    ProblemCode.INSTANT_ROLLED_BACK: "Stop writing; begin another instant.",
    ProblemCode.HISTORY_CLEANED: (
        "Use `first_servable_time` of the `context`, which is also the meaning of `earliest`, or a later time. "
        "A reader of changes begins anew: the snapshot as of `earliest`, then the changes from it."
    ),
    ProblemCode.BODY_TOO_LARGE: "Send less, or raise the server's `--max-body-bytes`.",
    ProblemCode.UNSUPPORTED_MEDIA_TYPE: "Send JSON in UTF-8, with `Content-Type: application/json`.",
    ProblemCode.IDEMPOTENCY_KEY_REUSED: "Use a new key for a new request.",
    ProblemCode.INVALID_TABLE: "`detail` says what is wrong, and what to do.",
    ProblemCode.INVALID_WRITE_STAT: "Correct the write stat; `detail` says which and why.",
    ProblemCode.INVALID_FILTER: "Correct the filter at `context.place`; `detail` says what is expected there.",
    ProblemCode.BASE_PATH_TAKEN: "Choose another base path. If `context.dropped`, `reuse_base_path` takes it "
    "over from the dropped table.",
    ProblemCode.BASE_PATH_SHARED: "See `detail` for the other table; drop one of them, or load it elsewhere.",
    ProblemCode.METASTORE_MOVED: (
        "Send the request to a server of the database that has the claims. If it is to be this one, run "
        "`chronolake-metastore claim`."
    ),
    ProblemCode.INTERNAL_ERROR: "See the server's log. Send it again under the same key: it runs at most once.",
    ProblemCode.OVERLOADED: "Send the request again later, under the same key.",
    ProblemCode.DATABASE_UNAVAILABLE: "Send the request again later, under the same key.",
}
