"""Metrics of a running server, for Prometheus (GET /metrics)."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

_GROUP_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_BATCH_SIZES = (1, 4, 16, 64, 256, 1_024, 4_096, 16_384)
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """The figures of one server process; each process has its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        # Memory, processor time and open files, where the operating system tells them.
        ProcessCollector(registry=self.registry)
        self.commands = Counter(
            "chronolake_commands",
            "Commands that were answered, by kind and result: ok, or the code of a problem.",
            ["command", "result"],
            registry=self.registry,
        )
        self.unauthenticated = Counter(
            "chronolake_unauthenticated",
            "Requests that were answered 401, by the reason, which the answer does not say.",
            ["reason"],
            registry=self.registry,
        )
        self.rate_limited = Counter(
            "chronolake_rate_limited",
            "Requests that were answered 429 before their body was read: of a subject beyond its rate, or of "
            "an address with many unknown tokens.",
            ["of"],
            registry=self.registry,
        )
        self.denied = Counter(
            "chronolake_denied",
            "Requests of known callers that lacked a right, and whether the log has them: recorded, bounded "
            "(too many of one subject), or lost.",
            ["right", "record"],
            registry=self.registry,
        )
        self.vended = Counter(
            "chronolake_vended",
            "Credentials for a table's storage that callers got, and whether the log has them: recorded, "
            "bounded (the subject has such ones, or too many), or lost.",
            ["access", "record"],
            registry=self.registry,
        )
        self.group_size = Histogram(
            "chronolake_group_size",
            "Commands in one transaction of the sequencer.",
            buckets=_GROUP_SIZES,
            registry=self.registry,
        )
        self.group_seconds = Histogram(
            "chronolake_group_seconds",
            "Time from the beginning of a group's transaction until it is durable.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.markers = Counter(
            "chronolake_markers",
            "Requested markers, by result: created, existed, or the code of a problem.",
            ["result"],
            registry=self.registry,
        )
        self.marker_batch_requests = Histogram(
            "chronolake_marker_batch_requests",
            "Requests whose markers were created in one batch.",
            buckets=_GROUP_SIZES,
            registry=self.registry,
        )
        self.marker_batch_size = Histogram(
            "chronolake_marker_batch_size",
            "Markers of one batch.",
            buckets=_BATCH_SIZES,
            registry=self.registry,
        )
        self.marker_batch_seconds = Histogram(
            "chronolake_marker_batch_seconds",
            "Time until a batch of markers is durable.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.database_retries = Counter(
            "chronolake_database_retries",
            "Groups and batches that were run again because the database was unavailable.",
            registry=self.registry,
        )
        self.clock_drift = Gauge(
            "chronolake_clock_drift_seconds",
            "How far a table's clock is ahead of the wall clock: the furthest of the last group.",
            registry=self.registry,
        )
        self.commit_wait = Counter(
            "chronolake_commit_wait_seconds",
            "Seconds that answers were held back until the wall clock had caught up with a table's clock.",
            registry=self.registry,
        )
        self.leases_expired = Counter(
            "chronolake_leases_expired",
            "Instants that this server rolled back because their lease had ended.",
            registry=self.registry,
        )
        self.stream_instants = Gauge(
            "chronolake_stream_instants",
            "Instants of streams that wait for an acknowledgement; 0 where another server reaps.",
            registry=self.registry,
        )
        self.stream_bytes = Gauge(
            "chronolake_stream_bytes",
            "Bytes of the files that tasks of streams have reported, and that are not visible yet.",
            registry=self.registry,
        )
        self.stream_oldest_seconds = Gauge(
            "chronolake_stream_oldest_seconds",
            "The age of the oldest instant of a stream that waits for an acknowledgement.",
            registry=self.registry,
        )
        self.files_deleted = Counter(
            "chronolake_files_deleted",
            "Files of rollbacks and cleans that this server deleted from storage, or found deleted.",
            registry=self.registry,
        )
        self.deletions_failed = Counter(
            "chronolake_deletions_failed",
            "Files that this server could not delete from storage; each try counts.",
            registry=self.registry,
        )
        self.worker_failures = Counter(
            "chronolake_worker_failures",
            "Runs of a background worker that failed. An outage of the database does not count.",
            ["worker"],
            registry=self.registry,
        )
        self.acts = Gauge(
            "chronolake_acts",
            "1 if this server acts for its metastore; 0 if its database is a copy, or a copy continues it.",
            registry=self.registry,
        )
        self.archive_end = Gauge(
            "chronolake_archive_end_transaction",
            "The transaction before which the archive of the log has everything; 0 where no archive is known.",
            registry=self.registry,
        )
        self.archive_lag = Gauge(
            "chronolake_archive_lag_seconds",
            "The age of the oldest event that the archive of the log lacks, and at least the time for which "
            "this server could not read it; 0 if it has all.",
            registry=self.registry,
        )
        self.archive_lag_transactions = Gauge(
            "chronolake_archive_lag_transactions",
            "Transactions between the end of the archive and the oldest open one, to which it can reach.",
            registry=self.registry,
        )
        self.archive_failures = Counter(
            "chronolake_archive_failures",
            "Tries of this server to read where the archive of the log ends that failed.",
            registry=self.registry,
        )
        self.oldest_ended_era = Gauge(
            "chronolake_oldest_ended_era_seconds",
            "The time since the end of the oldest era whose answers PostgreSQL has; 0 if none has ended.",
            registry=self.registry,
        )
        self._add_publication()
        self.service_plans = Gauge(
            "chronolake_service_plans",
            "Pending plans of table services, of all tables.",
            ["service"],
            registry=self.registry,
        )
        self.service_waiting = Gauge(
            "chronolake_service_oldest_waiting_seconds",
            "The age of the oldest plan of a table service that no executor has; 0 if none waits.",
            registry=self.registry,
        )
        self.service_executions = Gauge(
            "chronolake_service_executions_max",
            "How often a pending plan of a table service was taken at most: more than once if executors fail.",
            registry=self.registry,
        )
        self.clusterings_cancelled = Gauge(
            "chronolake_clusterings_cancelled",
            "Clusterings that writes have cancelled since the last one of their table completed.",
            registry=self.registry,
        )
        self.xmin_age = Gauge(
            "chronolake_xmin_age_transactions",
            "Transactions since the oldest open one, which delays all followers of the log.",
            registry=self.registry,
        )
        self.followers = Gauge(
            "chronolake_followers", "Streams of events that are open.", registry=self.registry
        )
        self.followers_cut_off = Counter(
            "chronolake_followers_cut_off",
            "Streams that this server ended: their clients did not read (stalled), or too slowly (behind).",
            ["reason"],
            registry=self.registry,
        )
        self.ring_bytes = Gauge(
            "chronolake_ring_bytes", "The newest events, in memory for all followers.", registry=self.registry
        )

    def _add_publication(self) -> None:
        self.publication_steps = Counter(
            "chronolake_publication_steps",
            "Steps that this server published for Hudi's readers.",
            registry=self.registry,
        )
        self.publication_failures = Counter(
            "chronolake_publication_failures",
            "Tries of this server to publish a table that failed.",
            registry=self.registry,
        )
        self.publication_foreign_files = Counter(
            "chronolake_publication_foreign_files",
            "Files that this server found in .hoodie of published tables and that no publisher wrote.",
            registry=self.registry,
        )
        self.publication_lag = Gauge(
            "chronolake_publication_lag_seconds",
            "The age of the oldest event that is not published, of tables that have been written.",
            registry=self.registry,
        )
        self.publication_paused = Gauge(
            "chronolake_publication_paused",
            "Tables whose publication is paused, because Hudi's readers cannot read them as they are.",
            registry=self.registry,
        )
        self.active_timeline_held = Gauge(
            "chronolake_active_timeline_held_seconds",
            "The age of the oldest instant that holds the active timeline of a published table, by the cause.",
            ["held_by"],
            registry=self.registry,
        )
        self.tables_unpublished = Gauge(
            "chronolake_table_unpublished",
            "1 for each table that is not published as it is (paused, failing); the first hundred.",
            ["table", "why"],
            registry=self.registry,
        )
