CREATE VIEW chronolake.audit_conflicts AS
SELECT
    r.refused_at,
    r.table_name,
    r.table_id,
    r.instant AS loser_requested_time,
    chronolake.instant_time(r.instant, c.tick_us) AS loser_digits,
    loser.writer AS loser_writer,
    r.actor AS loser_actor,
    r.address AS loser_address,
    winner.requested_time AS winner_requested_time,
    r.context ->> 'winner' AS winner_digits,
    winner.writer AS winner_writer,
    winner.completion_time AS winner_completion_time,
    r.context ->> 'rebase_on' AS winner_completion_digits,
    (r.context ->> 'file_groups_in_common')::bigint AS file_groups_in_common,
    r.context -> 'file_groups' AS file_groups,
    r.request_id
FROM chronolake.refusal r
JOIN chronolake.clock c ON c.table_id = r.table_id
LEFT JOIN chronolake.instant loser ON loser.table_id = r.table_id AND loser.requested_time = r.instant
LEFT JOIN chronolake.instant winner
    ON winner.table_id = r.table_id AND winner.requested_time = chronolake.moment_of(r.context ->> 'winner')
WHERE r.code = 'write-conflict';

COMMENT ON VIEW chronolake.audit_conflicts IS
    'Every completion that was refused because of a conflict, and the instant that won the conflict.';
