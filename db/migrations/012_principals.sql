-- SPDX-License-Identifier: Apache-2.0
-- Version 12: tokens, and the name space of what a sweep finds.

CREATE TABLE token (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,                 -- of the principal, which may have several
  role INTEGER NOT NULL CHECK (role BETWEEN 1 AND 3),
  hash TEXT NOT NULL UNIQUE,          -- SHA-256 of the secret, hex
  creator TEXT NOT NULL,
  created_unix_ms INTEGER NOT NULL,
  expires_unix_ms INTEGER NOT NULL,   -- 0: never
  last_used_unix_ms INTEGER NOT NULL, -- to the minute; 0: not yet
  revoked_unix_ms INTEGER NOT NULL    -- 0: it is not
) STRICT;

-- The submitter whose kernel it is; empty: the one that all share, of the catalogue and operators.
ALTER TABLE sweep ADD COLUMN name_space TEXT NOT NULL DEFAULT '';

DROP VIEW current_record;
CREATE VIEW current_record AS
SELECT max(record.id) AS id, record.trial_id, record.default_latency_ns, record.tie_count,
       record.published_unix_ms, record.artifact
FROM record
JOIN trial ON trial.id = record.trial_id
JOIN trial_key ON trial_key.id = trial.key_id
JOIN sweep ON sweep.id = trial.sweep_id
GROUP BY trial_key.kernel_hash, trial_key.dims, trial_key.dtype, trial_key.device_name,
         trial_key.target, trial_key.cache_mode, sweep.name_space;
