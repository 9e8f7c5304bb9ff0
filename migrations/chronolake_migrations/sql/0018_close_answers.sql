ALTER TABLE chronolake.outcome
    ALTER COLUMN chain_id SET NOT NULL,
    ALTER COLUMN number SET NOT NULL,
    ALTER COLUMN hash SET NOT NULL,
    ADD CONSTRAINT outcome_number_positive CHECK (number >= 1),
    ADD CONSTRAINT outcome_chain_unique UNIQUE (chain_id, number);

INSERT INTO chronolake.answer_chain (chain_id, number, hash)
SELECT DISTINCT ON (chain_id) chain_id, number, hash
FROM chronolake.outcome
ORDER BY chain_id, number DESC;
