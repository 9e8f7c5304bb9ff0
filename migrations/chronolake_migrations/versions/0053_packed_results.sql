-- From this revision on results of successes are stored packed (store/packed_results.py), and those before stay as they are.
-- Servers of the revision before cannot read them, so they must not write any more.
COMMENT ON COLUMN chronolake.outcome.result IS
    'A refusal as JSON, or the result of a success: JSON too, packed where it is short. It has its kind and revision in "type". The events say what a success changed.';
COMMENT ON COLUMN chronolake.outcome.answer_digest IS 'The first 16 bytes of SHA-256 of the bytes of the first answer; of earlier rows all 32.';
