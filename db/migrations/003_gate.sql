-- SPDX-License-Identifier: Apache-2.0
-- Version 3: gate runs with everything their verdicts are made of, and baselines.

-- A comparison of two revisions on one device, or one timed for the history (kind 2), or rounds taken for
-- study (kind 3). Only state, message, flagged count and end change.
CREATE TABLE gate_run (
  id INTEGER PRIMARY KEY,
  kind INTEGER NOT NULL CHECK (kind BETWEEN 1 AND 3),
  state INTEGER NOT NULL CHECK (state BETWEEN 1 AND 4),
  message TEXT NOT NULL,
  device_id TEXT NOT NULL,
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
  started_unix_ms INTEGER NOT NULL,
  finished_unix_ms INTEGER NOT NULL
) STRICT;

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
  config_source TEXT NOT NULL,    -- "record 12 of the base", "default"
  recovery_config TEXT NOT NULL,  -- the head's own best, if it has another; "{}" if not
  tolerance REAL,                 -- its own delta0; NULL: the run's
  base_code TEXT NOT NULL,        -- SHA-256 of the machine code
  head_code TEXT NOT NULL,
  identical INTEGER NOT NULL CHECK (identical IN (0, 1)),
  fault TEXT NOT NULL             -- why it could not be measured at all
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
  throttle_reasons INTEGER NOT NULL,   -- NVML's bits
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

CREATE TRIGGER gate_kernel_no_update BEFORE UPDATE ON gate_kernel
BEGIN SELECT RAISE(ABORT, 'gate evidence is append-only'); END;
CREATE TRIGGER gate_kernel_no_delete BEFORE DELETE ON gate_kernel
BEGIN SELECT RAISE(ABORT, 'gate evidence is append-only'); END;
CREATE TRIGGER gate_kernel_no_replace BEFORE INSERT ON gate_kernel
WHEN EXISTS (SELECT 1 FROM gate_kernel WHERE id = NEW.id)
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
CREATE TRIGGER gate_run_no_delete BEFORE DELETE ON gate_run
BEGIN SELECT RAISE(ABORT, 'gate evidence is append-only'); END;
