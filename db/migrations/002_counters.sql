-- SPDX-License-Identifier: Apache-2.0
-- Version 2: counters of hardware, what they are multiplied by, and ceilings with their evidence.

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
  counters TEXT NOT NULL,    -- {"dram__bytes_read.sum":[median,low,high]}
  notes TEXT NOT NULL        -- ["..."]
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
  measured_unix_ms INTEGER NOT NULL
) STRICT;

CREATE INDEX ceiling_measurement_of_device ON ceiling_measurement (device_name, driver, name);

INSERT INTO ceiling_measurement (device_name, driver, uuid, name, value, measured, kind, policy,
  process_count, process_values, probe, sm_clock_mhz, memory_clock_mhz, power_mw, temperature_c,
  throttle_reasons, note, measured_unix_ms)
SELECT device_name, driver, '', name, value, measured,
       CASE WHEN name GLOB 'dram_*' THEN 1 WHEN name GLOB 'tensor_*' THEN 7 ELSE 6 END, 1,
       1, x'', '', 0, 0, 0, 0, 0, '', measured_unix_ms
FROM ceiling;
DROP TABLE ceiling;

CREATE VIEW current_ceiling AS
SELECT * FROM ceiling_measurement
WHERE id IN (SELECT max(id) FROM ceiling_measurement GROUP BY device_name, driver, name);

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
