-- SPDX-License-Identifier: Apache-2.0
-- Version 9: a gated config says where it comes from by a number; a sweep's summary names why the
-- sweep ended by an enumeration, and that it was interrupted beside its state.

-- 0 none, 1 default, 2 record of the base (for the history, of the head), 3 record of another
-- source of the kernel.
ALTER TABLE gate_kernel ADD COLUMN config_from INTEGER NOT NULL DEFAULT 0
  CHECK (config_from BETWEEN 0 AND 3);
ALTER TABLE gate_kernel ADD COLUMN config_record_id INTEGER NOT NULL DEFAULT 0;  -- 0: of none
-- The head cannot run that config: its own default stands in.
ALTER TABLE gate_kernel ADD COLUMN head_default INTEGER NOT NULL DEFAULT 0
  CHECK (head_default IN (0, 1));
DROP TRIGGER gate_kernel_no_update;
UPDATE gate_kernel SET
  config_from = CASE WHEN config_source LIKE 'default%' THEN 1
                     WHEN config_source LIKE 'record % of another source%' THEN 3
                     WHEN config_source LIKE 'record %' THEN 2
                     ELSE 0 END,
  config_record_id = CASE WHEN config_source LIKE 'record %'
                          THEN CAST(substr(config_source, 8) AS INTEGER) ELSE 0 END,
  head_default = config_source LIKE '%; the head cannot run it%';
ALTER TABLE gate_kernel DROP COLUMN config_source;
ALTER TABLE gate_kernel RENAME COLUMN config_from TO config_source;
CREATE TRIGGER gate_kernel_no_update BEFORE UPDATE ON gate_kernel
BEGIN SELECT RAISE(ABORT, 'gate evidence is append-only'); END;

-- A damaged row stays as it is: reading it reports the damage.
UPDATE sweep SET summary = json_set(summary,
  '$.endMessage', summary ->> '$.end',
  '$.end', CASE
    WHEN summary ->> '$.end' LIKE 'the strategy had%' THEN 'SWEEP_END_STRATEGY_DONE'
    WHEN summary ->> '$.end' LIKE 'the budget of trials%' THEN 'SWEEP_END_TRIALS'
    WHEN summary ->> '$.end' LIKE 'the budget of time%' THEN 'SWEEP_END_TIME'
    WHEN summary ->> '$.end' LIKE 'too many trials%' THEN 'SWEEP_END_NO_IMPROVEMENT'
    WHEN summary ->> '$.end' LIKE 'an improvement%' THEN 'SWEEP_END_IMPROVEMENT_UNLIKELY'
    WHEN summary ->> '$.end' LIKE 'it was cancelled%' THEN 'SWEEP_END_CANCELLED'
    ELSE 'SWEEP_END_UNSPECIFIED' END)
WHERE CASE WHEN json_valid(summary) THEN summary ->> '$.end' END IS NOT NULL;

UPDATE sweep SET summary = json_set(json_remove(summary, '$.state'), '$.interrupted', json('true'))
WHERE CASE WHEN json_valid(summary) THEN summary ->> '$.state' END = 'SWEEP_STATE_INTERRUPTED';
