"""The schema, one object per file, where there is none.

The revisions before were those of development versions; their databases are refused.
"""

from __future__ import annotations

from chronolake_migrations.scripts import execute

revision = "0065"
down_revision = None
branch_labels = None
depends_on = None

# Each object after those that it needs.
OBJECTS = (
    "types/folder_range",
    "functions/folder",
    "functions/now_us",
    "functions/moment",
    "functions/micros",
    "functions/instant_time",
    "functions/moment_of",
    "functions/stats_by_column",
    "functions/this_database",
    "functions/refuse_change",
    "functions/refuse_late_marker",
    "functions/refuse_unless_owner",
    "functions/refuse_unknown_schema",
    # Time.
    "tables/wall_clock",
    "tables/clock",
    "tables/steady_clock",
    "tables/clock_jump",
    "functions/steady_us",
    "functions/wall_time",
    # The log.
    "tables/event",
    "tables/event_entry",
    "tables/write_stat",
    "tables/deleted_file",
    "tables/outcome",
    "tables/refusal",
    "tables/era",
    "tables/first_event",
    "functions/add_keys",
    "functions/finish_partition",
    "functions/begin_era",
    "tables/metastore",
    "tables/promotion",
    # The projections.
    "tables/answer_chain",
    "tables/archived_era",
    "functions/drop_answers",
    "functions/thin_eras",
    "tables/namespace",
    "tables/location",
    "tables/role_grant",
    "tables/lake_table",
    "tables/base_path",
    "tables/schema_version",
    "tables/instant",
    "tables/file",
    "tables/planned_group",
    "tables/replaced_group",
    "tables/stream",
    "tables/stream_checkpoint",
    "tables/buffered_file",
    "tables/token",
    # Neither.
    "tables/token_name",
    "tables/namespace_auditor",
    "tables/marker",
    "tables/reader",
    "tables/publication",
    "functions/readable_plans",
    "tables/clustering_look",
    # What auditors read.
    "views/audit_commands",
    "views/audit_conflicts",
    "views/audit_deletions",
    "views/audit_denials",
    "views/audit_files",
    "views/audit_grants",
    "views/audit_history",
    "views/audit_credentials",
    "views/audit_markers",
    "views/audit_pending",
    "views/audit_rollbacks",
    "views/audit_schemas",
    "views/audit_services",
    "views/audit_streams",
    "views/audit_tables",
    "views/audit_tokens",
    "views/audited_namespace",
    "views/audited_table",
    "functions/tables_as_of",
    "functions/version_at",
    "functions/table_state",
    "functions/state_at",
)


def upgrade() -> None:
    """Make all objects."""
    execute(*(f"baseline/{name}.sql" for name in OBJECTS))
