-- SPDX-License-Identifier: Apache-2.0
-- The schema at version 14, the oldest that this program opens. Later versions are steps in
-- migrations/; steps never change. docs/schema.md explains tables and units, and has queries.

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
  device_name TEXT NOT NULL,
  target TEXT NOT NULL,
  strategy TEXT NOT NULL,
  budget_trials INTEGER NOT NULL,
  budget_seconds REAL NOT NULL,
  seed INTEGER NOT NULL,  -- unsigned, stored as its two's complement
  cache_mode INTEGER NOT NULL CHECK (cache_mode BETWEEN 1 AND 2),
  fresh INTEGER NOT NULL CHECK (fresh IN (0, 1)),
  idempotency_key TEXT UNIQUE,
  best_trial_id INTEGER REFERENCES trial (id),
  default_trial_id INTEGER REFERENCES trial (id),
  tie_trial_ids TEXT NOT NULL,  -- [12,40]
  summary TEXT NOT NULL,  -- final counts and the roof, JSON of tune.v1.Sweep; the daemon's to read
  job_id INTEGER NOT NULL DEFAULT 0,
  name_space TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE UNIQUE INDEX sweep_of_job ON sweep (job_id);

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
  samples_ns BLOB NOT NULL CHECK (length(samples_ns) % 8 = 0),  -- little-endian doubles
  compute_processes INTEGER NOT NULL DEFAULT 0
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
  published_unix_ms INTEGER NOT NULL,
  artifact TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE INDEX record_of_trial ON record (trial_id);

-- The counters of one config. A later profile of the same config is another row.
CREATE TABLE profile (
  id INTEGER PRIMARY KEY,
  trial_id INTEGER REFERENCES trial (id),  -- whose time it is; NULL: timed for this profile
  key_id INTEGER NOT NULL REFERENCES trial_key (id),
  config TEXT NOT NULL,
  metric_set INTEGER NOT NULL CHECK (metric_set BETWEEN 1 AND 4),
  outcome INTEGER NOT NULL CHECK (outcome BETWEEN 1 AND 9),
  message TEXT NOT NULL,  -- why there are no counters, or fewer
  counted INTEGER NOT NULL CHECK (counted IN (0, 1)),
  chip TEXT NOT NULL,
  pass_count INTEGER NOT NULL,
  reading_count INTEGER NOT NULL,
  profiled_unix_ms INTEGER NOT NULL,
  latency_ns_median REAL,
  latency_ns_low REAL,
  latency_ns_high REAL,
  sample_count INTEGER NOT NULL,
  clock INTEGER NOT NULL CHECK (clock BETWEEN 0 AND 3),
  work_flops REAL,
  work_bytes REAL,
  work_peak TEXT NOT NULL,
  write_back_debt_bytes REAL,
  registers INTEGER NOT NULL,
  spill_bytes INTEGER NOT NULL,
  static_shared_bytes INTEGER NOT NULL,
  dynamic_shared_bytes INTEGER NOT NULL,
  quantities TEXT NOT NULL,  -- {"dram_read":1.07e9,"f32":2.6e8}, multipliers applied
  counters TEXT NOT NULL,  -- {"dram__bytes_read.sum":[median,low,high]}
  notes TEXT NOT NULL,  -- ["..."]
  latency_ns_min REAL DEFAULT 0,
  latency_ns_mean REAL DEFAULT 0,
  bytes_per_second REAL DEFAULT 0,
  flops_per_second REAL DEFAULT 0,
  peak_fraction REAL DEFAULT 0,
  stopped_early INTEGER NOT NULL DEFAULT 0 CHECK (stopped_early IN (0, 1)),
  stack_bytes INTEGER NOT NULL DEFAULT 0,
  binary_bytes INTEGER NOT NULL DEFAULT 0,
  binary_sha256 TEXT NOT NULL DEFAULT '',
  kernel_name TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE INDEX profile_of_trial ON profile (trial_id);
CREATE INDEX profile_of_key ON profile (key_id, config);

CREATE TABLE calibration (
  id INTEGER PRIMARY KEY,
  device_name TEXT NOT NULL,
  chip TEXT NOT NULL,
  driver TEXT NOT NULL,
  uuid TEXT NOT NULL,
  measured_unix_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE calibration_entry (
  calibration_id INTEGER NOT NULL REFERENCES calibration (id),
  name TEXT NOT NULL,
  quantity TEXT NOT NULL,
  counter TEXT NOT NULL,
  expected REAL,
  counted REAL,
  multiplier REAL,
  tolerance REAL,  -- 0: exact
  passed INTEGER NOT NULL CHECK (passed IN (0, 1)),
  message TEXT NOT NULL,
  PRIMARY KEY (calibration_id, name)
) STRICT;

-- Every measurement of a ceiling; current_ceiling has the newest of each.
CREATE TABLE ceiling_measurement (
  id INTEGER PRIMARY KEY,
  device_name TEXT NOT NULL,
  driver TEXT NOT NULL,
  uuid TEXT NOT NULL,
  name TEXT NOT NULL,
  value REAL NOT NULL,
  low REAL,
  high REAL,
  measured INTEGER NOT NULL CHECK (measured IN (0, 1)),
  kind INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 9),
  policy INTEGER NOT NULL CHECK (policy BETWEEN 1 AND 2),
  process_count INTEGER NOT NULL,
  process_values BLOB NOT NULL CHECK (length(process_values) % 8 = 0),  -- little-endian doubles
  probe TEXT NOT NULL,
  theoretical REAL,
  sm_clock_mhz INTEGER NOT NULL,
  memory_clock_mhz INTEGER NOT NULL,
  power_mw INTEGER NOT NULL,
  temperature_c INTEGER NOT NULL,
  throttle_reasons INTEGER NOT NULL,
  note TEXT NOT NULL,
  measured_unix_ms INTEGER NOT NULL,
  compute_processes INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX ceiling_measurement_of_device ON ceiling_measurement (device_name, driver, uuid, name);

-- A comparison of two revisions on one device (kind 1), one revision timed for the history (kind 2),
-- or rounds taken for study (kind 3).
CREATE TABLE gate_run (
  id INTEGER PRIMARY KEY,
  kind INTEGER NOT NULL CHECK (kind BETWEEN 1 AND 3),
  device_name TEXT NOT NULL,
  device_uuid TEXT NOT NULL,
  target TEXT NOT NULL,
  driver TEXT NOT NULL,
  compiler TEXT NOT NULL,
  cache_mode INTEGER NOT NULL CHECK (cache_mode BETWEEN 1 AND 2),
  base_label TEXT NOT NULL,  -- a commit, or whatever the client called it
  head_label TEXT NOT NULL,
  delta0 REAL NOT NULL,
  delta_max REAL NOT NULL,
  alpha REAL NOT NULL,
  screen_rounds INTEGER NOT NULL,
  guarded_deviation_max REAL NOT NULL,
  clock_difference_max REAL NOT NULL,
  seed INTEGER NOT NULL,
  job_id INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE UNIQUE INDEX gate_run_of_job ON gate_run (job_id);

CREATE TABLE gate_kernel (
  id INTEGER PRIMARY KEY,
  run_id INTEGER NOT NULL REFERENCES gate_run (id),
  name TEXT NOT NULL,
  base_kernel_hash TEXT REFERENCES kernel (hash),  -- NULL for the history
  head_kernel_hash TEXT NOT NULL REFERENCES kernel (hash),
  dims TEXT NOT NULL,
  dtype TEXT NOT NULL,
  base_config TEXT NOT NULL,
  head_config TEXT NOT NULL,
  recovery_config TEXT NOT NULL,  -- the head's own best, if it has another; "{}" if not
  tolerance REAL,  -- its own delta0; NULL: the run's
  base_code TEXT NOT NULL,  -- SHA-256 of the machine code
  head_code TEXT NOT NULL,
  identical INTEGER NOT NULL CHECK (identical IN (0, 1)),
  fault TEXT NOT NULL,  -- why it could not be measured at all
  config_source INTEGER NOT NULL DEFAULT 0 CHECK (config_source BETWEEN 0 AND 3),
  config_record_id INTEGER NOT NULL DEFAULT 0,
  head_default INTEGER NOT NULL DEFAULT 0 CHECK (head_default IN (0, 1))
) STRICT;

CREATE INDEX gate_kernel_of_run ON gate_kernel (run_id);
CREATE INDEX gate_kernel_of_name ON gate_kernel (name);

-- A kernel timed once in one of a round's two processes. In the order in which they ran.
CREATE TABLE gate_leg (
  id INTEGER PRIMARY KEY,
  gate_kernel_id INTEGER NOT NULL REFERENCES gate_kernel (id),
  stage INTEGER NOT NULL CHECK (stage BETWEEN 1 AND 3),
  round INTEGER NOT NULL,
  revision INTEGER NOT NULL CHECK (revision BETWEEN 1 AND 2),
  outcome INTEGER NOT NULL CHECK (outcome BETWEEN 1 AND 9),
  message TEXT NOT NULL,
  median_ns REAL,
  clock INTEGER NOT NULL CHECK (clock BETWEEN 0 AND 3),
  sm_clock_mhz INTEGER NOT NULL,
  memory_clock_mhz INTEGER NOT NULL,
  power_mw INTEGER NOT NULL,
  temperature_c INTEGER NOT NULL,
  throttle_reasons INTEGER NOT NULL,  -- NVML's bits
  compute_processes INTEGER NOT NULL,  -- on the device, ours among them; 0 unknown
  samples_ns BLOB NOT NULL CHECK (length(samples_ns) % 8 = 0)
) STRICT;

CREATE INDEX gate_leg_of_kernel ON gate_leg (gate_kernel_id);

-- Derived from the legs and the run's rules by `tunectl gate recompute`, which compares.
CREATE TABLE gate_verdict (
  gate_kernel_id INTEGER PRIMARY KEY REFERENCES gate_kernel (id),
  verdict INTEGER NOT NULL CHECK (verdict BETWEEN 1 AND 6),
  reason TEXT NOT NULL,
  ratio REAL,
  ratio_low REAL,
  ratio_high REAL,
  deviation REAL,
  least_caught REAL,
  rounds INTEGER NOT NULL,
  invalid_rounds INTEGER NOT NULL,
  flagged INTEGER NOT NULL CHECK (flagged IN (0, 1)),
  improved INTEGER NOT NULL CHECK (improved IN (0, 1)),
  p REAL,
  p_needed REAL,
  clock_log_ratio REAL,
  autocorrelation REAL,
  bimodal INTEGER NOT NULL CHECK (bimodal IN (0, 1))
) STRICT;

-- Sources kept under a name, to be gated against. Setting a kernel again replaces its row.
CREATE TABLE baseline (
  name TEXT NOT NULL CHECK (name <> ''),
  kernel_name TEXT NOT NULL,
  kernel_hash TEXT NOT NULL REFERENCES kernel (hash),
  label TEXT NOT NULL,
  set_unix_ms INTEGER NOT NULL,
  PRIMARY KEY (name, kernel_name)
) STRICT;

-- Work for a device: kind 1 sweep, 2 gate, 3 profile, 4 bench, 5 comparison, 6 ceilings,
-- 7 calibration. State 1 queued, 2 running, 3 done, 4 cancelled, 5 failed.
CREATE TABLE job (
  id INTEGER PRIMARY KEY,
  kind INTEGER NOT NULL CHECK (kind BETWEEN 1 AND 7),
  state INTEGER NOT NULL CHECK (state BETWEEN 1 AND 5),
  priority INTEGER NOT NULL CHECK (priority BETWEEN 1 AND 2),  -- 1 interactive, 2 background
  owner TEXT NOT NULL,  -- who asked; empty for jobs older than this table
  subject TEXT NOT NULL,  -- for people
  device_id TEXT NOT NULL,
  message TEXT NOT NULL,
  created_unix_ms INTEGER NOT NULL,
  started_unix_ms INTEGER NOT NULL,  -- 0: it has not, or is older than this table
  finished_unix_ms INTEGER NOT NULL,  -- 0: it is not
  deaths INTEGER NOT NULL  -- ends of the daemon while it ran
) STRICT;

CREATE INDEX job_unfinished ON job (id) WHERE state IN (1, 2);

CREATE TABLE comparison (
  id INTEGER PRIMARY KEY,
  job_id INTEGER NOT NULL UNIQUE REFERENCES job (id),
  device_name TEXT NOT NULL,
  device_uuid TEXT NOT NULL,
  target TEXT NOT NULL,
  driver TEXT NOT NULL,
  cache_mode INTEGER NOT NULL CHECK (cache_mode BETWEEN 1 AND 2),
  seed INTEGER NOT NULL,
  rounds INTEGER NOT NULL,
  sweep_dim TEXT NOT NULL  -- the dim that the problems differ in; empty: there is one problem
) STRICT;

-- A kernel on a problem. Work and roof are the same for all kernels of a problem: the first one's.
CREATE TABLE compared (
  id INTEGER PRIMARY KEY,
  comparison_id INTEGER NOT NULL REFERENCES comparison (id),
  place INTEGER NOT NULL,  -- of the problem, from 0
  label TEXT NOT NULL,
  kernel_hash TEXT REFERENCES kernel (hash),  -- NULL: no kernel of a spec
  kernel_name TEXT NOT NULL,
  language TEXT NOT NULL,
  dims TEXT NOT NULL,
  dtype TEXT NOT NULL,
  config TEXT NOT NULL,
  config_source TEXT NOT NULL,
  compiler TEXT NOT NULL,
  work_flops REAL,
  work_bytes REAL,
  work_peak TEXT NOT NULL,
  roof_floor_ns REAL,
  roof_believable_ns REAL,
  roof_bound INTEGER NOT NULL CHECK (roof_bound BETWEEN 0 AND 2),
  roof_ceiling REAL,
  roof_source INTEGER NOT NULL CHECK (roof_source BETWEEN 0 AND 2),
  outcome INTEGER NOT NULL CHECK (outcome BETWEEN 1 AND 9),  -- of planning and compiling
  message TEXT NOT NULL,
  agreement INTEGER NOT NULL CHECK (agreement BETWEEN 1 AND 9),  -- with the first's reference
  agreement_message TEXT NOT NULL,
  error_max_abs REAL,
  error_max_rel REAL,
  error_relative_l2 REAL,
  error_bad_elements INTEGER NOT NULL,
  error_worst TEXT NOT NULL,
  notes TEXT NOT NULL  -- ["..."]
) STRICT;

CREATE INDEX compared_of_comparison ON compared (comparison_id);

-- A kernel timed once, in a process of its own. In the order in which they ran.
CREATE TABLE comparison_leg (
  id INTEGER PRIMARY KEY,
  compared_id INTEGER NOT NULL REFERENCES compared (id),
  round INTEGER NOT NULL,
  outcome INTEGER NOT NULL CHECK (outcome BETWEEN 1 AND 9),
  message TEXT NOT NULL,
  median_ns REAL,
  clock INTEGER NOT NULL CHECK (clock BETWEEN 0 AND 3),
  sm_clock_mhz INTEGER NOT NULL,
  memory_clock_mhz INTEGER NOT NULL,
  power_mw INTEGER NOT NULL,
  temperature_c INTEGER NOT NULL,
  throttle_reasons INTEGER NOT NULL,  -- NVML's bits
  compute_processes INTEGER NOT NULL,  -- on the device, ours among them; 0 unknown
  samples_ns BLOB NOT NULL CHECK (length(samples_ns) % 8 = 0)
) STRICT;

CREATE INDEX comparison_leg_of_compared ON comparison_leg (compared_id);

CREATE TABLE token (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,  -- of the principal, which may have several
  role INTEGER NOT NULL CHECK (role BETWEEN 1 AND 3),
  hash TEXT NOT NULL UNIQUE,  -- SHA-256 of the secret, hex
  creator TEXT NOT NULL,
  created_unix_ms INTEGER NOT NULL,
  expires_unix_ms INTEGER NOT NULL,  -- 0: never
  last_used_unix_ms INTEGER NOT NULL,  -- to the minute; 0: not yet
  revoked_unix_ms INTEGER NOT NULL  -- 0: it is not
) STRICT;

CREATE TABLE kernel_owner (
  owner TEXT NOT NULL,  -- a submitter; operators' are not noted
  kernel_hash TEXT NOT NULL REFERENCES kernel (hash),
  PRIMARY KEY (owner, kernel_hash)
) STRICT, WITHOUT ROWID;

-- Evidence is appended and never edited, whichever program opens the file. The insert triggers stop
-- INSERT OR REPLACE, which deletes without asking the delete triggers.
CREATE TRIGGER kernel_no_update BEFORE UPDATE ON kernel
BEGIN SELECT RAISE(ABORT, 'kernels are immutable'); END;
CREATE TRIGGER kernel_no_delete BEFORE DELETE ON kernel
BEGIN SELECT RAISE(ABORT, 'kernels are immutable'); END;

CREATE TRIGGER kernel_file_no_update BEFORE UPDATE ON kernel_file
BEGIN SELECT RAISE(ABORT, 'kernels are immutable'); END;
CREATE TRIGGER kernel_file_no_delete BEFORE DELETE ON kernel_file
BEGIN SELECT RAISE(ABORT, 'kernels are immutable'); END;

CREATE TRIGGER trial_key_no_update BEFORE UPDATE ON trial_key
BEGIN SELECT RAISE(ABORT, 'trial keys are append-only'); END;
CREATE TRIGGER trial_key_no_delete BEFORE DELETE ON trial_key
BEGIN SELECT RAISE(ABORT, 'trial keys are append-only'); END;

CREATE TRIGGER trial_no_update BEFORE UPDATE ON trial
BEGIN SELECT RAISE(ABORT, 'trials are append-only'); END;
CREATE TRIGGER trial_no_delete BEFORE DELETE ON trial
BEGIN SELECT RAISE(ABORT, 'trials are append-only'); END;
CREATE TRIGGER trial_no_replace BEFORE INSERT ON trial
WHEN EXISTS (SELECT 1 FROM trial WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'trials are append-only'); END;

CREATE TRIGGER profile_no_update BEFORE UPDATE ON profile
BEGIN SELECT RAISE(ABORT, 'profiles are append-only'); END;
CREATE TRIGGER profile_no_delete BEFORE DELETE ON profile
BEGIN SELECT RAISE(ABORT, 'profiles are append-only'); END;
CREATE TRIGGER profile_no_replace BEFORE INSERT ON profile
WHEN EXISTS (SELECT 1 FROM profile WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'profiles are append-only'); END;

CREATE TRIGGER calibration_no_update BEFORE UPDATE ON calibration
BEGIN SELECT RAISE(ABORT, 'calibrations are append-only'); END;
CREATE TRIGGER calibration_no_delete BEFORE DELETE ON calibration
BEGIN SELECT RAISE(ABORT, 'calibrations are append-only'); END;

CREATE TRIGGER calibration_entry_no_update BEFORE UPDATE ON calibration_entry
BEGIN SELECT RAISE(ABORT, 'calibrations are append-only'); END;
CREATE TRIGGER calibration_entry_no_delete BEFORE DELETE ON calibration_entry
BEGIN SELECT RAISE(ABORT, 'calibrations are append-only'); END;

CREATE TRIGGER ceiling_measurement_no_update BEFORE UPDATE ON ceiling_measurement
BEGIN SELECT RAISE(ABORT, 'ceilings are append-only'); END;
CREATE TRIGGER ceiling_measurement_no_delete BEFORE DELETE ON ceiling_measurement
BEGIN SELECT RAISE(ABORT, 'ceilings are append-only'); END;
CREATE TRIGGER ceiling_measurement_no_replace BEFORE INSERT ON ceiling_measurement
WHEN EXISTS (SELECT 1 FROM ceiling_measurement WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'ceilings are append-only'); END;

CREATE TRIGGER gate_run_no_delete BEFORE DELETE ON gate_run
BEGIN SELECT RAISE(ABORT, 'gate evidence is append-only'); END;

CREATE TRIGGER gate_kernel_no_delete BEFORE DELETE ON gate_kernel
BEGIN SELECT RAISE(ABORT, 'gate evidence is append-only'); END;
CREATE TRIGGER gate_kernel_no_replace BEFORE INSERT ON gate_kernel
WHEN EXISTS (SELECT 1 FROM gate_kernel WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'gate evidence is append-only'); END;
CREATE TRIGGER gate_kernel_no_update BEFORE UPDATE ON gate_kernel
BEGIN SELECT RAISE(ABORT, 'gate evidence is append-only'); END;

CREATE TRIGGER gate_leg_no_update BEFORE UPDATE ON gate_leg
BEGIN SELECT RAISE(ABORT, 'gate evidence is append-only'); END;
CREATE TRIGGER gate_leg_no_delete BEFORE DELETE ON gate_leg
BEGIN SELECT RAISE(ABORT, 'gate evidence is append-only'); END;
CREATE TRIGGER gate_leg_no_replace BEFORE INSERT ON gate_leg
WHEN EXISTS (SELECT 1 FROM gate_leg WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'gate evidence is append-only'); END;

CREATE TRIGGER gate_verdict_no_update BEFORE UPDATE ON gate_verdict
BEGIN SELECT RAISE(ABORT, 'gate evidence is append-only'); END;
CREATE TRIGGER gate_verdict_no_delete BEFORE DELETE ON gate_verdict
BEGIN SELECT RAISE(ABORT, 'gate evidence is append-only'); END;
CREATE TRIGGER gate_verdict_no_replace BEFORE INSERT ON gate_verdict
WHEN EXISTS (SELECT 1 FROM gate_verdict WHERE gate_kernel_id = NEW.gate_kernel_id)
BEGIN SELECT RAISE(ABORT, 'gate evidence is append-only'); END;

CREATE TRIGGER job_no_delete BEFORE DELETE ON job
BEGIN SELECT RAISE(ABORT, 'jobs are kept'); END;

CREATE TRIGGER comparison_no_delete BEFORE DELETE ON comparison
BEGIN SELECT RAISE(ABORT, 'comparisons are append-only'); END;

CREATE TRIGGER compared_no_update BEFORE UPDATE ON compared
BEGIN SELECT RAISE(ABORT, 'comparisons are append-only'); END;
CREATE TRIGGER compared_no_delete BEFORE DELETE ON compared
BEGIN SELECT RAISE(ABORT, 'comparisons are append-only'); END;
CREATE TRIGGER compared_no_replace BEFORE INSERT ON compared
WHEN EXISTS (SELECT 1 FROM compared WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'comparisons are append-only'); END;

CREATE TRIGGER comparison_leg_no_update BEFORE UPDATE ON comparison_leg
BEGIN SELECT RAISE(ABORT, 'comparisons are append-only'); END;
CREATE TRIGGER comparison_leg_no_delete BEFORE DELETE ON comparison_leg
BEGIN SELECT RAISE(ABORT, 'comparisons are append-only'); END;
CREATE TRIGGER comparison_leg_no_replace BEFORE INSERT ON comparison_leg
WHEN EXISTS (SELECT 1 FROM comparison_leg WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'comparisons are append-only'); END;

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

CREATE VIEW current_ceiling AS
SELECT * FROM ceiling_measurement
WHERE id IN (SELECT max(id) FROM ceiling_measurement GROUP BY device_name, driver, uuid, name);

CREATE VIEW current_record AS
SELECT max(record.id) AS id, record.trial_id, record.default_latency_ns, record.tie_count,
       record.published_unix_ms, record.artifact
FROM record
JOIN trial ON trial.id = record.trial_id
JOIN trial_key ON trial_key.id = trial.key_id
JOIN sweep ON sweep.id = trial.sweep_id
GROUP BY trial_key.kernel_hash, trial_key.dims, trial_key.dtype, trial_key.device_name,
         trial_key.target, trial_key.cache_mode, sweep.name_space;
