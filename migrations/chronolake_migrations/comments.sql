-- The comments on what an auditor reads. They are docs/reference/audit.md too (docs/generate.py). This file runs at each
-- migration, as grants.sql does. Columns that mean the same in all views have no comment: docs/audit.md explains them.

COMMENT ON VIEW chronolake.audit_history IS 'Every event of every table, and of the catalog (namespaces), which has no `table_name`.';
COMMENT ON COLUMN chronolake.audit_history.version IS 'The place of the event in the table''s log, dense from 1';
COMMENT ON COLUMN chronolake.audit_history.type IS 'The type of the event, such as `InstantCompleted`';
COMMENT ON COLUMN chronolake.audit_history.time IS 'Issued by the table''s clock; for `InstantCompleted` the completion time';
COMMENT ON COLUMN chronolake.audit_history.time_digits IS '`time` as digits';
COMMENT ON COLUMN chronolake.audit_history.writer IS 'The holder of the instant, by the name that it gave at begin';
COMMENT ON COLUMN chronolake.audit_history.payload IS 'All other data of the event';
COMMENT ON COLUMN chronolake.audit_history.transaction_id IS 'With `position`: the order across tables';
COMMENT ON COLUMN chronolake.audit_history.position IS 'With `transaction_id`: the order across tables';

COMMENT ON VIEW chronolake.audit_tables IS 'A row for each change of a table''s name or properties, from its creation until it was dropped. Here, in events and in `refusal`, `table_name` is the name of that time.';
COMMENT ON COLUMN chronolake.audit_tables.version IS 'The version of the event';
COMMENT ON COLUMN chronolake.audit_tables.type IS '`TableCreated`, `TableAltered` or `TableDropped`';
COMMENT ON COLUMN chronolake.audit_tables.renamed_from IS 'The name before; null if it was not renamed';
COMMENT ON COLUMN chronolake.audit_tables.properties_set IS 'The properties that were set, with their values; `{}` if none was; null for `TableDropped`';
COMMENT ON COLUMN chronolake.audit_tables.properties_unset IS 'The names of the properties that were removed; `[]` if none was; null for `TableCreated` and `TableDropped`';
COMMENT ON COLUMN chronolake.audit_tables.time IS 'When it was changed, by the table''s clock';
COMMENT ON COLUMN chronolake.audit_tables.time_digits IS '`time` as digits';
COMMENT ON COLUMN chronolake.audit_tables.changed_again_at IS 'When the next row of the table begins; null for the last one';

COMMENT ON VIEW chronolake.audit_tokens IS 'A row for each token that was created, rotated or revoked. No secrets.';
COMMENT ON COLUMN chronolake.audit_tokens.subject IS '`token:` and its id: the actor of what its holder does';
COMMENT ON COLUMN chronolake.audit_tokens.name IS 'Its name now; it is not in the log';
COMMENT ON COLUMN chronolake.audit_tokens.type IS '`TokenCreated`, `TokenRotated` or `TokenRevoked`';
COMMENT ON COLUMN chronolake.audit_tokens.time IS 'When it was changed, by the clock of the catalog';
COMMENT ON COLUMN chronolake.audit_tokens.expires_at IS 'Of a new token: when it ends; null if it does not';
COMMENT ON COLUMN chronolake.audit_tokens.acts_for_others IS 'Of a new token: whether the log may name another actor after the subject';
COMMENT ON COLUMN chronolake.audit_tokens.previous_until IS 'Of a rotation: until when the former secret is accepted';
COMMENT ON COLUMN chronolake.audit_tokens.version IS 'The version of the event in the log of the catalog';

COMMENT ON VIEW chronolake.audit_grants IS 'A row for each role that was granted, also if it has ended.';
COMMENT ON COLUMN chronolake.audit_grants.subject IS 'The subject that has the role';
COMMENT ON COLUMN chronolake.audit_grants.name IS 'The name of a token now; it is not in the log';
COMMENT ON COLUMN chronolake.audit_grants.role IS '`reader`, `writer`, `maintainer` or `admin`';
COMMENT ON COLUMN chronolake.audit_grants.pattern IS 'The names that the role is on; of one table its name then, and the table columns have it now';
COMMENT ON COLUMN chronolake.audit_grants.granted_at IS 'When it was granted, by the clock of the catalog; `actor` granted it';
COMMENT ON COLUMN chronolake.audit_grants.ended_at IS 'When it was revoked or replaced, or its table was dropped; null while the subject has it';
COMMENT ON COLUMN chronolake.audit_grants.ended_by IS 'Who did that';
COMMENT ON COLUMN chronolake.audit_grants.version IS 'The version of the event in the log of the catalog';

COMMENT ON VIEW chronolake.audit_denials IS 'The requests of known callers that were refused because a right is lacking, as far as they are recorded: a server records 100 of a subject in an hour.';
COMMENT ON COLUMN chronolake.audit_denials.refused_at IS 'The wall clock of the database';
COMMENT ON COLUMN chronolake.audit_denials.subject IS 'The caller, without the name for which it acts';
COMMENT ON COLUMN chronolake.audit_denials.command IS 'The command, such as `CompleteInstant`, or the name of the read';
COMMENT ON COLUMN chronolake.audit_denials.table_name IS 'The table that it named first; null for a namespace';
COMMENT ON COLUMN chronolake.audit_denials.table_id IS 'Its id; null if there was none, or if the caller may not know that there was';
COMMENT ON COLUMN chronolake.audit_denials.version IS 'The version of the table''s log at the decision';
COMMENT ON COLUMN chronolake.audit_denials.detail IS 'The right that was lacking, and on what';

COMMENT ON VIEW chronolake.audit_credentials IS 'The [keys of storage](../security.md#credentials-for-storage) that callers got, without the keys. Of those of a subject for the same access to a table a server records one in 15 minutes, and of all of a subject 1,000 in an hour.';
COMMENT ON COLUMN chronolake.audit_credentials.version IS 'The version of the event in the log of the table';
COMMENT ON COLUMN chronolake.audit_credentials.subject IS 'The caller, without the name for which it acts';
COMMENT ON COLUMN chronolake.audit_credentials.access IS '`read`, `write` or `maintain`';
COMMENT ON COLUMN chronolake.audit_credentials.vended_at IS 'When it was recorded, by the table''s clock';
COMMENT ON COLUMN chronolake.audit_credentials.expires_at IS 'The end of these keys; others of the same subject, table and access may be valid for 15 minutes more';

COMMENT ON FUNCTION chronolake.tables_as_of IS 'A row for each table that existed at the moment `at`, also if it was dropped later: its definition (`table_type`, `base_path`), when it was created and dropped (`created_at`, `dropped_at`), the last instant that completed at `at` or before (`requested_time`, `requested_digits`, `completion_time`, `completion_digits`; null if there was none, or if it has left PostgreSQL: the archive has it), the live files at `at`, as in a snapshot as of it (`files`, `size_bytes`), and the `records` of their base files; changes in log files are not counted, and all three are null where files that were cleaned may have left PostgreSQL. `table_name` is the present or last name, not the one at `at`.';

COMMENT ON FUNCTION chronolake.state_at IS 'A row for each table that existed at a `position` of the log, which is that of a cut or a cursor over all tables (null: the present end), also if it was dropped later (`dropped_at`): the `version` of its last event up to there, the time to read it `as_of` (`as_of_digits`), its `schema_version`, and the tick of its clock in microseconds (`tick_us`). It fails, and says why, for a position whose events have left PostgreSQL. `table_name` is the present or last name.';

COMMENT ON VIEW chronolake.audit_commands IS 'Every command that was decided, executed or refused. Reads are not recorded, nor requests without a decision: malformed (400), too large (413), not accepted (503).';
COMMENT ON COLUMN chronolake.audit_commands.recorded_at IS 'The wall clock of the database at the decision';
COMMENT ON COLUMN chronolake.audit_commands.command IS 'The command, such as `CompleteInstant`';
COMMENT ON COLUMN chronolake.audit_commands.version IS 'The version of the table''s log after the command';
COMMENT ON COLUMN chronolake.audit_commands.event_type IS 'The event that it appended; null if it changed nothing';
COMMENT ON COLUMN chronolake.audit_commands.code IS 'The code of a refusal; null for a success';

COMMENT ON VIEW chronolake.audit_pending IS 'The instants that are requested or inflight now, in tables that are not dropped.';
COMMENT ON COLUMN chronolake.audit_pending.state IS 'As in the timeline';
COMMENT ON COLUMN chronolake.audit_pending.action IS 'As in the timeline';
COMMENT ON COLUMN chronolake.audit_pending.operation IS 'As in the timeline';
COMMENT ON COLUMN chronolake.audit_pending.writer IS 'Its holder';
COMMENT ON COLUMN chronolake.audit_pending.last_actor IS 'The sender of its last command';
COMMENT ON COLUMN chronolake.audit_pending.last_heard_at IS 'The time of its last command, by the table''s clock';
COMMENT ON COLUMN chronolake.audit_pending.lease_seconds IS 'The length of its lease, or of its stream''s';
COMMENT ON COLUMN chronolake.audit_pending.lease_expires_at IS 'The end of its lease, or of its stream''s';
COMMENT ON COLUMN chronolake.audit_pending.lease_state IS '`live`; `expired`: any client may roll the instant back, unless it is of a stream; `none`: its plan waits for an executor';
COMMENT ON COLUMN chronolake.audit_pending.expired_for IS 'How long ago the lease ended; negative while it is live';
COMMENT ON COLUMN chronolake.audit_pending.running_for IS 'Time since it was begun';
COMMENT ON COLUMN chronolake.audit_pending.stream IS 'The stream that it is of; null for other instants';
COMMENT ON COLUMN chronolake.audit_pending.checkpoint IS 'The checkpoint of the stream whose files it has';
COMMENT ON COLUMN chronolake.audit_pending.is_reported IS 'Whether all tasks that reported files of the checkpoint have reported their last batch; null for other instants. Such an instant waits until the stream is opened';

COMMENT ON VIEW chronolake.audit_files IS 'For each completed instant the files that it added to the latest file slices, and those that it removed from them. A removed file is in storage until a clean deletes it. A restore has `removed` rows for the files of the instants that it rolled back, which keep their `added` rows. Instants that have left PostgreSQL have no `removed` rows.';
COMMENT ON COLUMN chronolake.audit_files.completion_time IS 'The completion time of the instant';
COMMENT ON COLUMN chronolake.audit_files.completion_digits IS '`completion_time` as digits';
COMMENT ON COLUMN chronolake.audit_files.change IS '`added` or `removed`';
COMMENT ON COLUMN chronolake.audit_files.partition_path IS 'The partition path of the file';
COMMENT ON COLUMN chronolake.audit_files.file_id IS 'The file id of the file';
COMMENT ON COLUMN chronolake.audit_files.file_name IS 'The name of the file';
COMMENT ON COLUMN chronolake.audit_files.kind IS '`base` or `log`';
COMMENT ON COLUMN chronolake.audit_files.size_bytes IS 'The size of the file, as its writer reported it';
COMMENT ON COLUMN chronolake.audit_files.records IS 'The number of records in the file, as its writer reported it';

COMMENT ON VIEW chronolake.audit_rollbacks IS 'Each instant that was rolled back, by itself or by a restore, and each savepoint that was released.';
COMMENT ON COLUMN chronolake.audit_rollbacks.requested_time IS 'The undone instant';
COMMENT ON COLUMN chronolake.audit_rollbacks.action IS 'The action of the undone instant';
COMMENT ON COLUMN chronolake.audit_rollbacks.operation IS 'The operation of the undone instant';
COMMENT ON COLUMN chronolake.audit_rollbacks.writer IS 'The writer of the undone instant';
COMMENT ON COLUMN chronolake.audit_rollbacks.rolled_back_at IS 'When it was undone';
COMMENT ON COLUMN chronolake.audit_rollbacks.rolled_back_by IS 'The writer that undid it';
COMMENT ON COLUMN chronolake.audit_rollbacks.rolled_back_by_actor IS 'The actor of that request';
COMMENT ON COLUMN chronolake.audit_rollbacks.reason IS 'The reason that the writer gave';
COMMENT ON COLUMN chronolake.audit_rollbacks.cause IS 'Why the server did it by itself: conflict, a write completed in a file group of the plan; expired, nobody took it';
COMMENT ON COLUMN chronolake.audit_rollbacks.undone_by_action IS 'The action that undid it, rollback or restore; null for a savepoint';
COMMENT ON COLUMN chronolake.audit_rollbacks.undone_by_requested_time IS 'The requested time of the rollback or restore';
COMMENT ON COLUMN chronolake.audit_rollbacks.undone_by_digits IS 'The same as digits';
COMMENT ON COLUMN chronolake.audit_rollbacks.undone_by_state IS 'The state of the rollback or restore';
COMMENT ON COLUMN chronolake.audit_rollbacks.files_to_delete IS 'The files that the rollback has to delete, as its plan names them';

COMMENT ON VIEW chronolake.audit_markers IS 'The data files that instants have announced. Markers are not part of the log, and are deleted when their instant has ended and their files are published or deleted.';
COMMENT ON COLUMN chronolake.audit_markers.state IS 'The state of the instant';
COMMENT ON COLUMN chronolake.audit_markers.writer IS 'The writer of the instant';
COMMENT ON COLUMN chronolake.audit_markers.partition_path IS 'The partition path of the data file';
COMMENT ON COLUMN chronolake.audit_markers.file_name IS 'The name of the data file';
COMMENT ON COLUMN chronolake.audit_markers.kind IS '`CREATE`, `MERGE` or `APPEND`';
COMMENT ON COLUMN chronolake.audit_markers.created_at IS 'The wall clock of the database';

COMMENT ON VIEW chronolake.audit_deletions IS 'Each data file that was reported deleted, by a write that had marked it and completed without it, by the rollback of the instant that had marked it, or by a clean whose plan named it. A file that was deleted again later has another row.';
COMMENT ON COLUMN chronolake.audit_deletions.requested_time IS 'The instant that had marked the file, or the clean';
COMMENT ON COLUMN chronolake.audit_deletions.requested_digits IS '`requested_time` as digits';
COMMENT ON COLUMN chronolake.audit_deletions.rollback_requested_time IS 'The rollback that deleted it; null if the write itself or a clean deleted it';
COMMENT ON COLUMN chronolake.audit_deletions.rollback_digits IS '`rollback_requested_time` as digits';
COMMENT ON COLUMN chronolake.audit_deletions.partition_path IS 'The partition path of the data file';
COMMENT ON COLUMN chronolake.audit_deletions.file_name IS 'The name of the data file';
COMMENT ON COLUMN chronolake.audit_deletions.reported_at IS 'When it was reported, by the table''s clock';
COMMENT ON COLUMN chronolake.audit_deletions.version IS 'The version of the table''s log that records it';

COMMENT ON VIEW chronolake.audit_conflicts IS 'Every complete that was refused because another instant had published the same file groups first.';
COMMENT ON COLUMN chronolake.audit_conflicts.refused_at IS 'The wall clock of the database';
COMMENT ON COLUMN chronolake.audit_conflicts.loser_requested_time IS 'The refused instant';
COMMENT ON COLUMN chronolake.audit_conflicts.loser_digits IS 'The same as digits';
COMMENT ON COLUMN chronolake.audit_conflicts.loser_writer IS 'The writer of the refused instant';
COMMENT ON COLUMN chronolake.audit_conflicts.loser_actor IS 'The actor of the refused request';
COMMENT ON COLUMN chronolake.audit_conflicts.loser_address IS 'The address of the refused request';
COMMENT ON COLUMN chronolake.audit_conflicts.winner_requested_time IS 'The instant that won; of several, the last to complete';
COMMENT ON COLUMN chronolake.audit_conflicts.winner_digits IS 'The same as digits';
COMMENT ON COLUMN chronolake.audit_conflicts.winner_writer IS 'The writer of that instant';
COMMENT ON COLUMN chronolake.audit_conflicts.winner_completion_time IS 'The time to rebase on';
COMMENT ON COLUMN chronolake.audit_conflicts.winner_completion_digits IS 'The same as digits';
COMMENT ON COLUMN chronolake.audit_conflicts.file_groups_in_common IS 'The number of file groups that both wrote';
COMMENT ON COLUMN chronolake.audit_conflicts.file_groups IS 'At most ten of these file groups';

COMMENT ON VIEW chronolake.audit_schemas IS 'Every schema version of each table, also the first.';
COMMENT ON COLUMN chronolake.audit_schemas.schema_version IS 'The number of the schema, dense from 1';
COMMENT ON COLUMN chronolake.audit_schemas.created_at IS 'When it was made, by the table''s clock';
COMMENT ON COLUMN chronolake.audit_schemas.created_digits IS '`created_at` as digits';
COMMENT ON COLUMN chronolake.audit_schemas.changes IS 'The requested changes, in order; null for the first version';
COMMENT ON COLUMN chronolake.audit_schemas.fields IS 'All columns of this version: `field_id`, `name`, `type`, `nullable`, `nested`';
COMMENT ON COLUMN chronolake.audit_schemas.version IS 'The version of the table''s log that records it';

COMMENT ON VIEW chronolake.audit_services IS 'Every compaction, log compaction and clustering, also those that a restore undid, and every clean that the server planned.';
COMMENT ON COLUMN chronolake.audit_services.requested_time IS 'When it was planned';
COMMENT ON COLUMN chronolake.audit_services.requested_digits IS '`requested_time` as digits';
COMMENT ON COLUMN chronolake.audit_services.service IS '`compaction`, `log-compaction`, `clustering` or `clean`';
COMMENT ON COLUMN chronolake.audit_services.state IS 'As in the timeline';
COMMENT ON COLUMN chronolake.audit_services.writer IS 'Its executor; of a requested one its planner';
COMMENT ON COLUMN chronolake.audit_services.file_groups IS 'The number of file groups of its plan';
COMMENT ON COLUMN chronolake.audit_services.details IS 'The details of its plan for executors, such as the order of a clustering';
COMMENT ON COLUMN chronolake.audit_services.completion_time IS 'When it completed';
COMMENT ON COLUMN chronolake.audit_services.completion_digits IS '`completion_time` as digits';
COMMENT ON COLUMN chronolake.audit_services.files IS 'The number of files that it wrote';
COMMENT ON COLUMN chronolake.audit_services.size_bytes IS 'The bytes of these files';
COMMENT ON COLUMN chronolake.audit_services.files_to_delete IS 'The number of files that the plan of a clean deletes';
COMMENT ON COLUMN chronolake.audit_services.waiting_for IS 'The age of a requested one, which no executor has';
COMMENT ON COLUMN chronolake.audit_services.executions IS 'How often it was taken; null if never, or if it began inflight';
COMMENT ON COLUMN chronolake.audit_services.last_executor IS 'The executor of the last execution that ended without success';
COMMENT ON COLUMN chronolake.audit_services.last_failed_at IS 'When that execution ended';
COMMENT ON COLUMN chronolake.audit_services.last_failure IS 'The reason that was given for its end';
COMMENT ON COLUMN chronolake.audit_services.cancelled_because IS 'The reason of its rollback, such as a write to its file groups';

COMMENT ON VIEW chronolake.audit_streams IS 'The streams of tables that are not dropped, and their buffers.';
COMMENT ON COLUMN chronolake.audit_streams.stream IS 'The name of the stream';
COMMENT ON COLUMN chronolake.audit_streams.epoch IS 'The present epoch';
COMMENT ON COLUMN chronolake.audit_streams.writer IS 'The writer that opened it';
COMMENT ON COLUMN chronolake.audit_streams.opened_at IS 'When it was opened';
COMMENT ON COLUMN chronolake.audit_streams.is_open IS 'False if the stream was closed';
COMMENT ON COLUMN chronolake.audit_streams.lease_expires_at IS 'The end of its lease';
COMMENT ON COLUMN chronolake.audit_streams.is_expired IS 'Whether its lease is over';
COMMENT ON COLUMN chronolake.audit_streams.acknowledged_checkpoint IS 'The last checkpoint that is known to be complete';
COMMENT ON COLUMN chronolake.audit_streams.pending_instants IS 'The number of instants in the buffer';
COMMENT ON COLUMN chronolake.audit_streams.oldest_checkpoint IS 'The first checkpoint in the buffer';
COMMENT ON COLUMN chronolake.audit_streams.oldest_instant IS 'The earliest requested time of a pending instant';
COMMENT ON COLUMN chronolake.audit_streams.buffered_files IS 'The number of reported files that are not visible yet';
COMMENT ON COLUMN chronolake.audit_streams.buffered_bytes IS 'The bytes of these files';
COMMENT ON COLUMN chronolake.audit_streams.is_reported IS 'Whether all tasks that have reported anything have reported their last batch; null without a report';

COMMENT ON TABLE chronolake.refusal IS 'Every command that was refused, except those of the reaper. Refusals are no events. `outcome.result` has all of it.';
COMMENT ON COLUMN chronolake.refusal.request_id IS 'The idempotency key of the command';
COMMENT ON COLUMN chronolake.refusal.refused_at IS 'The wall clock of the database';
COMMENT ON COLUMN chronolake.refusal.command IS 'The command, such as `CompleteInstant`';
COMMENT ON COLUMN chronolake.refusal.table_name IS 'The table that the command named';
COMMENT ON COLUMN chronolake.refusal.table_id IS 'Its id, if the table existed; all zeros for a namespace';
COMMENT ON COLUMN chronolake.refusal.version IS 'The version of the table''s log at the decision';
COMMENT ON COLUMN chronolake.refusal.instant IS 'The requested time of the command''s instant';
COMMENT ON COLUMN chronolake.refusal.code IS 'The reason, from the closed list of problem codes';
COMMENT ON COLUMN chronolake.refusal.detail IS 'The reason in words, cut if it is long';
COMMENT ON COLUMN chronolake.refusal.context IS 'Data for programs, such as the winner; long texts and lists are cut';
COMMENT ON COLUMN chronolake.refusal.transaction_id IS 'With `position`: the order across tables, as in `event`';
COMMENT ON COLUMN chronolake.refusal.position IS 'With `transaction_id`: the order across tables, as in `event`';

COMMENT ON TABLE chronolake.metastore IS 'A row for each identity of the metastore; the last is the present one.';
COMMENT ON COLUMN chronolake.metastore.position IS 'The order of the identities';
COMMENT ON COLUMN chronolake.metastore.metastore_id IS 'The identity, which claims in storage name';
COMMENT ON COLUMN chronolake.metastore.database IS 'The PostgreSQL that the identity belongs to; in another one a server only reads, unless it followed a failover';
COMMENT ON COLUMN chronolake.metastore.claimed_at IS 'Its beginning, by the wall clock of the database';

COMMENT ON TABLE chronolake.base_path IS 'The folder of each table, also of dropped ones.';
COMMENT ON COLUMN chronolake.base_path.key IS 'The base path in the form in which base paths are compared, with links resolved; null if it cannot be compared';
COMMENT ON COLUMN chronolake.base_path.is_checked IS 'Whether overlapping base paths were refused when the table was created';
COMMENT ON COLUMN chronolake.base_path.taken_by IS 'The table that took the folder over from this dropped table';

COMMENT ON TABLE chronolake.steady_clock IS 'The clock by which leases end: the wall clock without its jumps. One row.';
COMMENT ON COLUMN chronolake.steady_clock.only_row IS 'Always true';
COMMENT ON COLUMN chronolake.steady_clock.last_time IS 'The time of the steady clock that a server recorded last';
COMMENT ON COLUMN chronolake.steady_clock.wall_offset_us IS 'How far the wall clock is ahead of it, in microseconds';

COMMENT ON TABLE chronolake.era IS 'The eras of the log: parts that are stored apart, one after the other. The last one is the present era.';
COMMENT ON COLUMN chronolake.era.era IS 'Its number, from 1';
COMMENT ON COLUMN chronolake.era.began_in IS 'The transaction that began it: rows of earlier eras are of earlier transactions, its own of later ones';
COMMENT ON COLUMN chronolake.era.began_at IS 'From this time on rows were appended to it';
COMMENT ON COLUMN chronolake.era.answers_dropped_at IS 'When its outcomes and refusals left PostgreSQL; null while they are here';
COMMENT ON COLUMN chronolake.era.events_left_at IS 'Since when its events are read from the archive; PostgreSQL keeps those that the state needs. Null while all are here';
COMMENT ON TABLE chronolake.archived_era IS 'The eras that an archive of the log has, proved before their answers left PostgreSQL.';
COMMENT ON COLUMN chronolake.archived_era.era IS 'The era';
COMMENT ON COLUMN chronolake.archived_era.version IS 'The event of the catalog that says so';
COMMENT ON COLUMN chronolake.archived_era.archived_before IS 'All rows of the era are of transactions before this one';
COMMENT ON COLUMN chronolake.archived_era.location IS 'The location of the archive';
COMMENT ON COLUMN chronolake.archived_era.runs IS 'The digests of the descriptions of the runs that the archive had then; all were proved by their rows';
COMMENT ON TABLE chronolake.location IS 'The locations in which tables of a namespace may have their base paths, as `chronolake-metastore locations` has set them, also for namespaces that do not exist. The events `LocationAllowed` and `LocationRevoked` in `audit_history` say who allowed and revoked them.';
COMMENT ON COLUMN chronolake.location.namespace IS 'The namespace';
COMMENT ON COLUMN chronolake.location.location IS 'The location in its normal form, which ends with a slash';
COMMENT ON COLUMN chronolake.location.is_allowed IS 'False if it was revoked. A namespace whose locations were all revoked may have no tables anywhere';
COMMENT ON COLUMN chronolake.location.version IS 'The event of the catalog that says so';
COMMENT ON COLUMN chronolake.refusal.era IS 'The era in which the row is stored';

COMMENT ON TABLE chronolake.clock_jump IS 'A row for each jump of the wall clock that a server has seen.';
COMMENT ON COLUMN chronolake.clock_jump.jump_id IS 'The order of the jumps';
COMMENT ON COLUMN chronolake.clock_jump.steady_time IS 'When a server saw the jump, by the steady clock';
COMMENT ON COLUMN chronolake.clock_jump.jump_us IS 'Its length in microseconds; negative if the clock was set back';
