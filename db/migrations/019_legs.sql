-- SPDX-License-Identifier: Apache-2.0
-- Version 19: the legs of gates and comparisons are one table.

-- A program measured once in one process of a session. In the order in which they ran.
CREATE TABLE leg (
  id INTEGER PRIMARY KEY,
  job_id INTEGER NOT NULL REFERENCES job (id),
  gate_kernel_id INTEGER REFERENCES gate_kernel (id),
  compared_id INTEGER REFERENCES compared (id),
  purpose INTEGER NOT NULL CHECK (purpose BETWEEN 1 AND 4),
  round INTEGER NOT NULL,
  revision INTEGER NOT NULL CHECK (revision BETWEEN 0 AND 2),
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
  samples_ns BLOB NOT NULL CHECK (length(samples_ns) % 8 = 0),
  CHECK ((gate_kernel_id IS NULL) = (purpose = 4) AND (compared_id IS NULL) = (purpose <> 4))
) STRICT;

INSERT INTO leg
SELECT gate_leg.id, job_id, gate_kernel_id, NULL, stage, round, revision, outcome, message,
       median_ns, clock, sm_clock_mhz, memory_clock_mhz, power_mw, temperature_c, throttle_reasons,
       compute_processes, samples_ns
FROM gate_leg JOIN gate_kernel ON gate_kernel.id = gate_kernel_id
JOIN gate_run ON gate_run.id = run_id ORDER BY gate_leg.id;
INSERT INTO leg
SELECT NULL, job_id, NULL, compared_id, 4, round, 0, comparison_leg.outcome, comparison_leg.message,
       median_ns, clock, sm_clock_mhz, memory_clock_mhz, power_mw, temperature_c, throttle_reasons,
       compute_processes, samples_ns
FROM comparison_leg JOIN compared ON compared.id = compared_id
JOIN comparison ON comparison.id = comparison_id ORDER BY comparison_leg.id;
DROP TABLE gate_leg;
DROP TABLE comparison_leg;

CREATE INDEX leg_of_job ON leg (job_id);
CREATE INDEX leg_of_gate_kernel ON leg (gate_kernel_id) WHERE gate_kernel_id IS NOT NULL;
CREATE INDEX leg_of_compared ON leg (compared_id) WHERE compared_id IS NOT NULL;

CREATE TRIGGER leg_no_update BEFORE UPDATE ON leg
BEGIN SELECT RAISE(ABORT, 'legs are append-only'); END;
CREATE TRIGGER leg_no_delete BEFORE DELETE ON leg
WHEN OLD.job_id NOT IN (SELECT job_id FROM pruned_job)
BEGIN SELECT RAISE(ABORT, 'legs are append-only'); END;
CREATE TRIGGER leg_no_replace BEFORE INSERT ON leg
WHEN EXISTS (SELECT 1 FROM leg WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'legs are append-only'); END;

CREATE TRIGGER leg_is_stored AFTER INSERT ON leg BEGIN
  UPDATE stored SET result_bytes =
    result_bytes + 200 + length(NEW.samples_ns) + length(CAST(NEW.message AS BLOB))
  WHERE owner = (SELECT owner FROM job WHERE id = NEW.job_id);
END;
CREATE TRIGGER leg_is_removed AFTER DELETE ON leg BEGIN
  UPDATE stored SET result_bytes =
    result_bytes - 200 - length(OLD.samples_ns) - length(CAST(OLD.message AS BLOB))
  WHERE owner = (SELECT owner FROM job WHERE id = OLD.job_id);
END;
