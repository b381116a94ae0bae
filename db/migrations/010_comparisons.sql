-- SPDX-License-Identifier: Apache-2.0
-- Version 10: comparisons of kernels, with every turn.

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
  outcome INTEGER NOT NULL CHECK (outcome BETWEEN 1 AND 9),    -- of planning and compiling
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
  throttle_reasons INTEGER NOT NULL,   -- NVML's bits
  compute_processes INTEGER NOT NULL,  -- on the device, ours among them; 0 unknown
  samples_ns BLOB NOT NULL CHECK (length(samples_ns) % 8 = 0)
) STRICT;

CREATE INDEX comparison_leg_of_compared ON comparison_leg (compared_id);

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
