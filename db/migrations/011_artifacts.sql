-- SPDX-License-Identifier: Apache-2.0
-- Version 11: a record names the artifact that was measured, by the digest of its file.
ALTER TABLE record ADD COLUMN artifact TEXT NOT NULL DEFAULT '';  -- empty: none is kept

DROP VIEW current_record;
CREATE VIEW current_record AS
SELECT max(record.id) AS id, record.trial_id, record.default_latency_ns, record.tie_count,
       record.published_unix_ms, record.artifact
FROM record
JOIN trial ON trial.id = record.trial_id
JOIN trial_key ON trial_key.id = trial.key_id
GROUP BY trial_key.kernel_hash, trial_key.dims, trial_key.dtype, trial_key.device_name,
         trial_key.target, trial_key.cache_mode;
