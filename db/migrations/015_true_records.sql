-- SPDX-License-Identifier: Apache-2.0
-- Version 15: records are of confirmed trials alone, and of the headers that their code included.

-- The key of a trial has the headers of the kernel's include roots, too.
-- This needs foreign keys to be off, since other tables refer to the one that is replaced.
DROP VIEW current_record;
DROP VIEW trial_view;
CREATE TABLE new_trial_key (
  id INTEGER PRIMARY KEY,
  kernel_hash TEXT NOT NULL REFERENCES kernel (hash),
  dims TEXT NOT NULL,
  dtype TEXT NOT NULL,
  device_name TEXT NOT NULL,
  target TEXT NOT NULL,
  cache_mode INTEGER NOT NULL CHECK (cache_mode BETWEEN 1 AND 2),
  driver TEXT NOT NULL,
  compiler TEXT NOT NULL,
  include_digest TEXT NOT NULL,  -- of the kernel's include roots; empty: it has none, or not known
  UNIQUE (kernel_hash, dims, dtype, device_name, target, cache_mode, driver, compiler,
          include_digest)
) STRICT;
INSERT INTO new_trial_key
SELECT id, kernel_hash, dims, dtype, device_name, target, cache_mode, driver, compiler, ''
FROM trial_key;
DROP TABLE trial_key;
ALTER TABLE new_trial_key RENAME TO trial_key;
CREATE TRIGGER trial_key_no_update BEFORE UPDATE ON trial_key
BEGIN SELECT RAISE(ABORT, 'trial keys are append-only'); END;
CREATE TRIGGER trial_key_no_delete BEFORE DELETE ON trial_key
BEGIN SELECT RAISE(ABORT, 'trial keys are append-only'); END;

-- A failure that says nothing of the config: the compiler was ended, or a limit of the daemon's.
ALTER TABLE trial ADD COLUMN may_pass INTEGER NOT NULL DEFAULT 0 CHECK (may_pass IN (0, 1));
DROP TRIGGER trial_no_update;
UPDATE trial SET may_pass = 1
WHERE outcome = 3 AND (message LIKE 'the compiler was ended: %'
                       OR message LIKE 'the compile worker failed twice on this variant: %'
                       OR message LIKE 'the compiled binary has % bytes, more than the %');
CREATE TRIGGER trial_no_update BEFORE UPDATE ON trial
BEGIN SELECT RAISE(ABORT, 'trials are append-only'); END;

-- At their start, daemons published the winners of finished sweeps again, among them results of a
-- search that were never measured again. Those records are set aside. Ids are never used twice,
-- even if the newest record goes.
CREATE TABLE new_record (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  trial_id INTEGER NOT NULL REFERENCES trial (id),
  default_latency_ns REAL,
  tie_count INTEGER NOT NULL,
  published_unix_ms INTEGER NOT NULL,
  artifact TEXT NOT NULL DEFAULT ''  -- empty: none is kept
) STRICT;
INSERT INTO new_record
SELECT id, trial_id, default_latency_ns, tie_count, published_unix_ms, artifact FROM record;
DROP TABLE record;
ALTER TABLE new_record RENAME TO record;
CREATE INDEX record_of_trial ON record (trial_id);

CREATE TABLE withdrawn_record (
  id INTEGER PRIMARY KEY,  -- the one that it had as a record
  trial_id INTEGER NOT NULL REFERENCES trial (id),
  published_unix_ms INTEGER NOT NULL
) STRICT;
INSERT INTO withdrawn_record
SELECT record.id, trial_id, published_unix_ms
FROM record JOIN trial ON trial.id = record.trial_id WHERE trial.purpose <> 2;
DELETE FROM record WHERE id IN (SELECT id FROM withdrawn_record);

ALTER TABLE sweep ADD COLUMN device_ids TEXT NOT NULL DEFAULT '[]';  -- that it may run on
ALTER TABLE sweep ADD COLUMN spent_seconds REAL NOT NULL DEFAULT 0;  -- of its budget

CREATE VIEW current_record AS
SELECT max(record.id) AS id, record.trial_id, record.default_latency_ns, record.tie_count,
       record.published_unix_ms, record.artifact
FROM record
JOIN trial ON trial.id = record.trial_id
JOIN trial_key ON trial_key.id = trial.key_id
JOIN sweep ON sweep.id = trial.sweep_id
GROUP BY trial_key.kernel_hash, trial_key.dims, trial_key.dtype, trial_key.device_name,
         trial_key.target, trial_key.cache_mode, trial_key.include_digest, sweep.name_space;

CREATE VIEW trial_view AS
SELECT trial.id, trial.sweep_id, kernel.name AS kernel, trial_key.dims, trial_key.dtype,
       trial_key.device_name, trial.config,
       CASE trial.purpose WHEN 1 THEN 'search' WHEN 2 THEN 'confirm' END AS purpose,
       CASE trial.outcome
         WHEN 1 THEN 'ok' WHEN 2 THEN 'invalid_config' WHEN 3 THEN 'compile_failed'
         WHEN 4 THEN 'compile_timeout' WHEN 5 THEN 'launch_failed' WHEN 6 THEN 'wrong_result'
         WHEN 7 THEN 'faulted' WHEN 8 THEN 'timed_out' WHEN 9 THEN 'above_roof' END AS outcome,
       trial.latency_ns_median, trial.latency_ns_low, trial.latency_ns_high,
       length(trial.samples_ns) / 8 AS sample_count,
       CASE trial.clock WHEN 0 THEN 'unknown' WHEN 1 THEN 'cupti' WHEN 2 THEN 'events'
                        WHEN 3 THEN 'host' END AS clock,
       CASE trial_key.cache_mode WHEN 1 THEN 'cold' WHEN 2 THEN 'warm' END AS cache_mode,
       trial.bytes_per_second, trial.flops_per_second, trial.peak_fraction,
       trial.registers, trial.spill_bytes, trial.dynamic_shared_bytes,
       trial.sm_clock_mhz, trial.power_mw, trial.throttle_reasons,
       trial_key.target, trial_key.driver, trial_key.compiler, trial_key.kernel_hash,
       datetime(trial.finished_unix_ms / 1000, 'unixepoch') AS finished, trial.message
FROM trial
JOIN trial_key ON trial_key.id = trial.key_id
JOIN kernel ON kernel.hash = trial_key.kernel_hash;
