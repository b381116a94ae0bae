-- SPDX-License-Identifier: Apache-2.0
-- Version 20: gates and comparisons count in what their owner has stored, and go with their job.

-- The rows of gates and comparisons: whose they are, and the bytes that they count.
CREATE VIEW counted_row AS
SELECT 'gate_run' AS of_table, gate_run.id, owner,
  400 + length(CAST(base_label AS BLOB)) + length(CAST(head_label AS BLOB)) AS bytes
FROM gate_run JOIN job ON job.id = gate_run.job_id
UNION ALL
SELECT 'gate_kernel', gate_kernel.id, owner,
  500 + length(CAST(gate_kernel.name AS BLOB)) + length(CAST(dims AS BLOB)) +
    length(CAST(base_config AS BLOB)) + length(CAST(head_config AS BLOB)) +
    length(CAST(recovery_config AS BLOB)) + length(CAST(fault AS BLOB))
FROM gate_kernel JOIN gate_run ON gate_run.id = run_id JOIN job ON job.id = gate_run.job_id
UNION ALL
SELECT 'gate_verdict', gate_kernel_id, owner, 200 + length(CAST(reason AS BLOB))
FROM gate_verdict JOIN gate_kernel ON gate_kernel.id = gate_kernel_id
JOIN gate_run ON gate_run.id = run_id JOIN job ON job.id = gate_run.job_id
UNION ALL
SELECT 'comparison', comparison.id, owner, 300 + length(CAST(sweep_dim AS BLOB))
FROM comparison JOIN job ON job.id = comparison.job_id
UNION ALL
SELECT 'compared', compared.id, owner,
  600 + length(CAST(label AS BLOB)) + length(CAST(kernel_name AS BLOB)) +
    length(CAST(dims AS BLOB)) + length(CAST(config AS BLOB)) +
    length(CAST(config_source AS BLOB)) + length(CAST(compiler AS BLOB)) +
    length(CAST(work_peak AS BLOB)) + length(CAST(compared.message AS BLOB)) +
    length(CAST(agreement_message AS BLOB)) + length(CAST(error_worst AS BLOB)) +
    length(CAST(notes AS BLOB))
FROM compared JOIN comparison ON comparison.id = comparison_id
JOIN job ON job.id = comparison.job_id;

-- A sweep counted its result alone.
CREATE VIEW counted_sweep AS
SELECT sweep.id, owner,
  500 + length(CAST(dims AS BLOB)) + length(CAST(device_ids AS BLOB)) +
    length(CAST(coalesce(idempotency_key, '') AS BLOB)) + length(CAST(name_space AS BLOB)) AS bytes
FROM sweep JOIN job ON job.id = sweep.job_id;

INSERT INTO stored (owner, result_bytes)
SELECT owner, sum(bytes) FROM
  (SELECT owner, bytes FROM counted_row UNION ALL SELECT owner, bytes FROM counted_sweep)
WHERE true GROUP BY owner
ON CONFLICT (owner) DO UPDATE SET result_bytes = result_bytes + excluded.result_bytes;

CREATE TRIGGER sweep_itself_is_stored AFTER INSERT ON sweep BEGIN
  UPDATE stored SET result_bytes = result_bytes + counted.bytes
  FROM (SELECT * FROM counted_sweep WHERE id = NEW.id) AS counted
  WHERE stored.owner = counted.owner;
END;
CREATE TRIGGER sweep_itself_is_removed BEFORE DELETE ON sweep BEGIN
  UPDATE stored SET result_bytes = result_bytes - counted.bytes
  FROM (SELECT * FROM counted_sweep WHERE id = OLD.id) AS counted
  WHERE stored.owner = counted.owner;
END;

CREATE TRIGGER gate_run_is_stored AFTER INSERT ON gate_run BEGIN
  UPDATE stored SET result_bytes = result_bytes + counted.bytes
  FROM (SELECT * FROM counted_row WHERE of_table = 'gate_run' AND id = NEW.id) AS counted
  WHERE stored.owner = counted.owner;
END;
CREATE TRIGGER gate_run_is_removed BEFORE DELETE ON gate_run BEGIN
  UPDATE stored SET result_bytes = result_bytes - counted.bytes
  FROM (SELECT * FROM counted_row WHERE of_table = 'gate_run' AND id = OLD.id) AS counted
  WHERE stored.owner = counted.owner;
END;
DROP TRIGGER gate_run_no_delete;
CREATE TRIGGER gate_run_no_delete BEFORE DELETE ON gate_run
WHEN OLD.job_id NOT IN (SELECT job_id FROM pruned_job)
BEGIN SELECT RAISE(ABORT, 'gate evidence is append-only'); END;

CREATE TRIGGER gate_kernel_is_stored AFTER INSERT ON gate_kernel BEGIN
  UPDATE stored SET result_bytes = result_bytes + counted.bytes
  FROM (SELECT * FROM counted_row WHERE of_table = 'gate_kernel' AND id = NEW.id) AS counted
  WHERE stored.owner = counted.owner;
END;
CREATE TRIGGER gate_kernel_is_removed BEFORE DELETE ON gate_kernel BEGIN
  UPDATE stored SET result_bytes = result_bytes - counted.bytes
  FROM (SELECT * FROM counted_row WHERE of_table = 'gate_kernel' AND id = OLD.id) AS counted
  WHERE stored.owner = counted.owner;
END;
DROP TRIGGER gate_kernel_no_delete;
CREATE TRIGGER gate_kernel_no_delete BEFORE DELETE ON gate_kernel
WHEN OLD.run_id NOT IN (
  SELECT id FROM gate_run WHERE job_id IN (SELECT job_id FROM pruned_job))
BEGIN SELECT RAISE(ABORT, 'gate evidence is append-only'); END;

CREATE TRIGGER gate_verdict_is_stored AFTER INSERT ON gate_verdict BEGIN
  UPDATE stored SET result_bytes = result_bytes + counted.bytes
  FROM (SELECT * FROM counted_row WHERE of_table = 'gate_verdict' AND id = NEW.gate_kernel_id) AS counted
  WHERE stored.owner = counted.owner;
END;
CREATE TRIGGER gate_verdict_is_removed BEFORE DELETE ON gate_verdict BEGIN
  UPDATE stored SET result_bytes = result_bytes - counted.bytes
  FROM (SELECT * FROM counted_row WHERE of_table = 'gate_verdict' AND id = OLD.gate_kernel_id) AS counted
  WHERE stored.owner = counted.owner;
END;
DROP TRIGGER gate_verdict_no_delete;
CREATE TRIGGER gate_verdict_no_delete BEFORE DELETE ON gate_verdict
WHEN OLD.gate_kernel_id NOT IN (
  SELECT gate_kernel.id FROM gate_kernel JOIN gate_run ON gate_run.id = run_id
  WHERE job_id IN (SELECT job_id FROM pruned_job))
BEGIN SELECT RAISE(ABORT, 'gate evidence is append-only'); END;

CREATE TRIGGER comparison_is_stored AFTER INSERT ON comparison BEGIN
  UPDATE stored SET result_bytes = result_bytes + counted.bytes
  FROM (SELECT * FROM counted_row WHERE of_table = 'comparison' AND id = NEW.id) AS counted
  WHERE stored.owner = counted.owner;
END;
CREATE TRIGGER comparison_is_removed BEFORE DELETE ON comparison BEGIN
  UPDATE stored SET result_bytes = result_bytes - counted.bytes
  FROM (SELECT * FROM counted_row WHERE of_table = 'comparison' AND id = OLD.id) AS counted
  WHERE stored.owner = counted.owner;
END;
DROP TRIGGER comparison_no_delete;
CREATE TRIGGER comparison_no_delete BEFORE DELETE ON comparison
WHEN OLD.job_id NOT IN (SELECT job_id FROM pruned_job)
BEGIN SELECT RAISE(ABORT, 'comparisons are append-only'); END;

CREATE TRIGGER compared_is_stored AFTER INSERT ON compared BEGIN
  UPDATE stored SET result_bytes = result_bytes + counted.bytes
  FROM (SELECT * FROM counted_row WHERE of_table = 'compared' AND id = NEW.id) AS counted
  WHERE stored.owner = counted.owner;
END;
CREATE TRIGGER compared_is_removed BEFORE DELETE ON compared BEGIN
  UPDATE stored SET result_bytes = result_bytes - counted.bytes
  FROM (SELECT * FROM counted_row WHERE of_table = 'compared' AND id = OLD.id) AS counted
  WHERE stored.owner = counted.owner;
END;
DROP TRIGGER compared_no_delete;
CREATE TRIGGER compared_no_delete BEFORE DELETE ON compared
WHEN OLD.comparison_id NOT IN (
  SELECT id FROM comparison WHERE job_id IN (SELECT job_id FROM pruned_job))
BEGIN SELECT RAISE(ABORT, 'comparisons are append-only'); END;

-- Sources that no row refers to are removed once their submission is over.
ALTER TABLE kernel_owner ADD COLUMN kept_unix_ms INTEGER NOT NULL DEFAULT 0;  -- the last time
CREATE INDEX kernel_owner_of_kernel ON kernel_owner (kernel_hash);
