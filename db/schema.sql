-- SPDX-License-Identifier: Apache-2.0
-- Version 1 of the schema. Later versions are steps in migrations/; released steps never change.
-- Tables, units and queries to try are explained in docs/schema.md.

-- A kernel as submitted. Immutable: the hash covers everything else in the row and its files.
CREATE TABLE kernel (
  hash TEXT PRIMARY KEY CHECK (hash <> ''),
  name TEXT NOT NULL,
  spec_name TEXT NOT NULL,
  spec_text TEXT NOT NULL
) STRICT;

CREATE TABLE kernel_file (
  kernel_hash TEXT NOT NULL REFERENCES kernel (hash),
  name TEXT NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (kernel_hash, name)
) STRICT;

CREATE TABLE sweep (
  id INTEGER PRIMARY KEY,
  kernel_hash TEXT NOT NULL REFERENCES kernel (hash),
  dims TEXT NOT NULL,  -- {"rows":8192,"cols":4096}
  dtype TEXT NOT NULL,
  device_id TEXT NOT NULL,
  device_name TEXT NOT NULL,
  target TEXT NOT NULL,
  strategy TEXT NOT NULL,
  budget_trials INTEGER NOT NULL,
  budget_seconds REAL NOT NULL,
  seed INTEGER NOT NULL,  -- unsigned, stored as its two's complement
  cache_mode INTEGER NOT NULL CHECK (cache_mode BETWEEN 1 AND 2),
  fresh INTEGER NOT NULL CHECK (fresh IN (0, 1)),
  idempotency_key TEXT UNIQUE,
  state INTEGER NOT NULL CHECK (state BETWEEN 1 AND 5),
  message TEXT NOT NULL,
  created_unix_ms INTEGER NOT NULL,
  finished_unix_ms INTEGER NOT NULL,
  best_trial_id INTEGER REFERENCES trial (id),
  default_trial_id INTEGER REFERENCES trial (id),
  tie_trial_ids TEXT NOT NULL,  -- [12,40]
  summary TEXT NOT NULL  -- final counts and the roof, JSON of tune.v1.Sweep; the daemon's to read
) STRICT;

CREATE INDEX sweep_unfinished ON sweep (id) WHERE state IN (1, 2);

-- The origin of a trial's numbers: what was tuned, on what, built with what.
CREATE TABLE trial_key (
  id INTEGER PRIMARY KEY,
  kernel_hash TEXT NOT NULL REFERENCES kernel (hash),
  dims TEXT NOT NULL,
  dtype TEXT NOT NULL,
  device_name TEXT NOT NULL,
  target TEXT NOT NULL,
  cache_mode INTEGER NOT NULL CHECK (cache_mode BETWEEN 1 AND 2),
  driver TEXT NOT NULL,
  compiler TEXT NOT NULL,
  UNIQUE (kernel_hash, dims, dtype, device_name, target, cache_mode, driver, compiler)
) STRICT;

-- Columns of type REAL hold NULL for "not a number".
CREATE TABLE trial (
  id INTEGER PRIMARY KEY,
  sweep_id INTEGER NOT NULL REFERENCES sweep (id),
  key_id INTEGER NOT NULL REFERENCES trial_key (id),
  purpose INTEGER NOT NULL CHECK (purpose BETWEEN 1 AND 2),
  config TEXT NOT NULL,  -- {"BLOCK":64,"UNROLL":true}, in spec order
  outcome INTEGER NOT NULL CHECK (outcome BETWEEN 1 AND 9),
  message TEXT NOT NULL,
  finished_unix_ms INTEGER NOT NULL,
  latency_ns_median REAL,
  latency_ns_low REAL,
  latency_ns_high REAL,
  latency_ns_min REAL,
  latency_ns_mean REAL,
  clock INTEGER NOT NULL CHECK (clock BETWEEN 0 AND 3),
  bytes_per_second REAL,
  flops_per_second REAL,
  peak_fraction REAL,
  stopped_early INTEGER NOT NULL CHECK (stopped_early IN (0, 1)),
  registers INTEGER NOT NULL,
  spill_bytes INTEGER NOT NULL,
  stack_bytes INTEGER NOT NULL,
  static_shared_bytes INTEGER NOT NULL,
  dynamic_shared_bytes INTEGER NOT NULL,
  binary_bytes INTEGER NOT NULL,
  binary_sha256 TEXT NOT NULL,
  sm_clock_mhz INTEGER NOT NULL,
  memory_clock_mhz INTEGER NOT NULL,
  power_mw INTEGER NOT NULL,
  temperature_c INTEGER NOT NULL,
  throttle_reasons INTEGER NOT NULL,  -- NVML's bits
  error_max_abs REAL,
  error_max_rel REAL,
  error_relative_l2 REAL,
  error_bad_elements INTEGER NOT NULL,
  error_worst TEXT NOT NULL,
  compile_seconds REAL,
  compile_cached INTEGER NOT NULL CHECK (compile_cached IN (0, 1)),
  evaluate_seconds REAL,
  samples_ns BLOB NOT NULL CHECK (length(samples_ns) % 8 = 0)  -- little-endian doubles
) STRICT;

CREATE INDEX trial_of_sweep ON trial (sweep_id);
CREATE INDEX trial_of_key ON trial (key_id, purpose, config);

-- Every record ever published; current_record has the newest of each key. Derived from finished
-- sweeps and their trials.
CREATE TABLE record (
  id INTEGER PRIMARY KEY,
  trial_id INTEGER NOT NULL REFERENCES trial (id),
  default_latency_ns REAL,
  tie_count INTEGER NOT NULL,
  published_unix_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX record_of_trial ON record (trial_id);

CREATE TABLE ceiling (
  device_name TEXT NOT NULL,
  driver TEXT NOT NULL,
  name TEXT NOT NULL,
  value REAL NOT NULL,
  measured INTEGER NOT NULL CHECK (measured IN (0, 1)),
  measured_unix_ms INTEGER NOT NULL,
  PRIMARY KEY (device_name, driver, name)
) STRICT;

-- Evidence is appended and never edited, whichever program opens the file. The insert triggers stop
-- INSERT OR REPLACE, which deletes without asking the delete triggers.
CREATE TRIGGER trial_no_update BEFORE UPDATE ON trial
BEGIN SELECT RAISE(ABORT, 'trials are append-only'); END;
CREATE TRIGGER trial_no_delete BEFORE DELETE ON trial
BEGIN SELECT RAISE(ABORT, 'trials are append-only'); END;
CREATE TRIGGER trial_no_replace BEFORE INSERT ON trial
WHEN EXISTS (SELECT 1 FROM trial WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'trials are append-only'); END;

CREATE TRIGGER trial_key_no_update BEFORE UPDATE ON trial_key
BEGIN SELECT RAISE(ABORT, 'trial keys are append-only'); END;
CREATE TRIGGER trial_key_no_delete BEFORE DELETE ON trial_key
BEGIN SELECT RAISE(ABORT, 'trial keys are append-only'); END;

CREATE TRIGGER kernel_no_update BEFORE UPDATE ON kernel
BEGIN SELECT RAISE(ABORT, 'kernels are immutable'); END;
CREATE TRIGGER kernel_no_delete BEFORE DELETE ON kernel
BEGIN SELECT RAISE(ABORT, 'kernels are immutable'); END;
CREATE TRIGGER kernel_file_no_update BEFORE UPDATE ON kernel_file
BEGIN SELECT RAISE(ABORT, 'kernels are immutable'); END;
CREATE TRIGGER kernel_file_no_delete BEFORE DELETE ON kernel_file
BEGIN SELECT RAISE(ABORT, 'kernels are immutable'); END;

CREATE VIEW current_record AS
SELECT max(record.id) AS id, record.trial_id, record.default_latency_ns, record.tie_count,
       record.published_unix_ms
FROM record
JOIN trial ON trial.id = record.trial_id
JOIN trial_key ON trial_key.id = trial.key_id
GROUP BY trial_key.kernel_hash, trial_key.dims, trial_key.dtype, trial_key.device_name,
         trial_key.target, trial_key.cache_mode;

-- Trials for people: numbers with their names, the key spelled out, samples counted.
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
