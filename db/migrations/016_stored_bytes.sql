-- SPDX-License-Identifier: Apache-2.0
-- Version 16: how much each principal has stored, and a way to remove it.

-- Kept up to date by the triggers below, so that a quota need not read what it is about. Bytes are
-- those of texts and samples, and a rough size of the rest of a row.
CREATE TABLE stored (
  owner TEXT PRIMARY KEY,
  kernel_bytes INTEGER NOT NULL DEFAULT 0,  -- specs and sources, as kernel_owner has them
  result_bytes INTEGER NOT NULL DEFAULT 0,  -- jobs, trials, turns of gates and comparisons
  artifact_bytes INTEGER NOT NULL DEFAULT 0  -- files of records' artifacts, as the daemon says
) STRICT, WITHOUT ROWID;

-- The bytes of a kernel's spec and sources.
ALTER TABLE kernel_owner ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE kernel_owner SET bytes =
  (SELECT length(CAST(spec_text AS BLOB)) FROM kernel WHERE hash = kernel_hash) +
  (SELECT coalesce(sum(length(CAST(text AS BLOB))), 0) FROM kernel_file
   WHERE kernel_file.kernel_hash = kernel_owner.kernel_hash);

-- The jobs that are being removed, within the transaction that removes them: what belongs to them
-- may be deleted.
CREATE TABLE pruned_job (job_id INTEGER PRIMARY KEY) STRICT;

CREATE INDEX job_of_owner ON job (owner, id);
CREATE INDEX record_of_artifact ON record (artifact) WHERE artifact != '';
CREATE INDEX job_finished ON job (finished_unix_ms) WHERE finished_unix_ms > 0;

INSERT INTO stored (owner, result_bytes)
SELECT owner, sum(bytes) FROM (
  SELECT owner, 300 + length(CAST(subject AS BLOB)) + length(CAST(message AS BLOB)) AS bytes FROM job
  UNION ALL
  SELECT job.owner, length(CAST(sweep.summary AS BLOB)) + length(CAST(sweep.tie_trial_ids AS BLOB))
  FROM sweep JOIN job ON job.id = sweep.job_id
  UNION ALL
  SELECT job.owner, 400 + length(samples_ns) + length(CAST(trial.message AS BLOB)) +
         length(CAST(trial.config AS BLOB)) + length(CAST(trial.error_worst AS BLOB))
  FROM trial JOIN sweep ON sweep.id = trial.sweep_id JOIN job ON job.id = sweep.job_id
  UNION ALL
  SELECT job.owner, 200 + length(samples_ns) + length(CAST(gate_leg.message AS BLOB))
  FROM gate_leg JOIN gate_kernel ON gate_kernel.id = gate_kernel_id
  JOIN gate_run ON gate_run.id = run_id JOIN job ON job.id = gate_run.job_id
  UNION ALL
  SELECT job.owner, 200 + length(samples_ns) + length(CAST(comparison_leg.message AS BLOB))
  FROM comparison_leg JOIN compared ON compared.id = compared_id
  JOIN comparison ON comparison.id = comparison_id JOIN job ON job.id = comparison.job_id)
GROUP BY owner;
INSERT INTO stored (owner, kernel_bytes)
SELECT owner, sum(bytes) FROM kernel_owner WHERE true GROUP BY owner
ON CONFLICT (owner) DO UPDATE SET kernel_bytes = excluded.kernel_bytes;

CREATE TRIGGER job_is_stored AFTER INSERT ON job BEGIN
  INSERT INTO stored (owner, result_bytes)
  VALUES (NEW.owner, 300 + length(CAST(NEW.subject AS BLOB)) + length(CAST(NEW.message AS BLOB)))
  ON CONFLICT (owner) DO UPDATE SET result_bytes = result_bytes + excluded.result_bytes;
END;
CREATE TRIGGER job_message_is_stored AFTER UPDATE OF message ON job BEGIN
  UPDATE stored SET result_bytes = result_bytes + length(CAST(NEW.message AS BLOB)) -
                                   length(CAST(OLD.message AS BLOB))
  WHERE owner = NEW.owner;
END;
CREATE TRIGGER sweep_is_stored AFTER UPDATE OF summary, tie_trial_ids ON sweep BEGIN
  UPDATE stored SET result_bytes = result_bytes +
    length(CAST(NEW.summary AS BLOB)) + length(CAST(NEW.tie_trial_ids AS BLOB)) -
    length(CAST(OLD.summary AS BLOB)) - length(CAST(OLD.tie_trial_ids AS BLOB))
  WHERE owner = (SELECT owner FROM job WHERE id = NEW.job_id);
END;
CREATE TRIGGER sweep_is_new AFTER INSERT ON sweep BEGIN
  UPDATE stored SET result_bytes = result_bytes +
    length(CAST(NEW.summary AS BLOB)) + length(CAST(NEW.tie_trial_ids AS BLOB))
  WHERE owner = (SELECT owner FROM job WHERE id = NEW.job_id);
END;
CREATE TRIGGER sweep_is_removed AFTER DELETE ON sweep BEGIN
  UPDATE stored SET result_bytes = result_bytes -
    length(CAST(OLD.summary AS BLOB)) - length(CAST(OLD.tie_trial_ids AS BLOB))
  WHERE owner = (SELECT owner FROM job WHERE id = OLD.job_id);
END;
CREATE TRIGGER trial_is_stored AFTER INSERT ON trial BEGIN
  UPDATE stored SET result_bytes = result_bytes + 400 + length(NEW.samples_ns) +
    length(CAST(NEW.message AS BLOB)) + length(CAST(NEW.config AS BLOB)) +
    length(CAST(NEW.error_worst AS BLOB))
  WHERE owner = (SELECT job.owner FROM sweep JOIN job ON job.id = sweep.job_id
                 WHERE sweep.id = NEW.sweep_id);
END;
CREATE TRIGGER trial_is_removed AFTER DELETE ON trial BEGIN
  UPDATE stored SET result_bytes = result_bytes - 400 - length(OLD.samples_ns) -
    length(CAST(OLD.message AS BLOB)) - length(CAST(OLD.config AS BLOB)) -
    length(CAST(OLD.error_worst AS BLOB))
  WHERE owner = (SELECT job.owner FROM sweep JOIN job ON job.id = sweep.job_id
                 WHERE sweep.id = OLD.sweep_id);
END;
CREATE TRIGGER gate_leg_is_stored AFTER INSERT ON gate_leg BEGIN
  UPDATE stored SET result_bytes =
    result_bytes + 200 + length(NEW.samples_ns) + length(CAST(NEW.message AS BLOB))
  WHERE owner = (SELECT job.owner FROM gate_kernel JOIN gate_run ON gate_run.id = run_id
                 JOIN job ON job.id = gate_run.job_id WHERE gate_kernel.id = NEW.gate_kernel_id);
END;
CREATE TRIGGER gate_leg_is_removed AFTER DELETE ON gate_leg BEGIN
  UPDATE stored SET result_bytes =
    result_bytes - 200 - length(OLD.samples_ns) - length(CAST(OLD.message AS BLOB))
  WHERE owner = (SELECT job.owner FROM gate_kernel JOIN gate_run ON gate_run.id = run_id
                 JOIN job ON job.id = gate_run.job_id WHERE gate_kernel.id = OLD.gate_kernel_id);
END;
CREATE TRIGGER comparison_leg_is_stored AFTER INSERT ON comparison_leg BEGIN
  UPDATE stored SET result_bytes =
    result_bytes + 200 + length(NEW.samples_ns) + length(CAST(NEW.message AS BLOB))
  WHERE owner = (SELECT job.owner FROM compared JOIN comparison ON comparison.id = comparison_id
                 JOIN job ON job.id = comparison.job_id WHERE compared.id = NEW.compared_id);
END;
CREATE TRIGGER comparison_leg_is_removed AFTER DELETE ON comparison_leg BEGIN
  UPDATE stored SET result_bytes =
    result_bytes - 200 - length(OLD.samples_ns) - length(CAST(OLD.message AS BLOB))
  WHERE owner = (SELECT job.owner FROM compared JOIN comparison ON comparison.id = comparison_id
                 JOIN job ON job.id = comparison.job_id WHERE compared.id = OLD.compared_id);
END;
CREATE TRIGGER kernel_is_kept AFTER INSERT ON kernel_owner BEGIN
  INSERT INTO stored (owner, kernel_bytes) VALUES (NEW.owner, NEW.bytes)
  ON CONFLICT (owner) DO UPDATE SET kernel_bytes = kernel_bytes + excluded.kernel_bytes;
END;
CREATE TRIGGER kernel_is_given_back AFTER DELETE ON kernel_owner BEGIN
  UPDATE stored SET kernel_bytes = kernel_bytes - OLD.bytes WHERE owner = OLD.owner;
END;

-- Evidence is still appended and never edited. It is deleted with its job alone, and never what a
-- record stands on.
DROP TRIGGER trial_no_delete;
CREATE TRIGGER trial_no_delete BEFORE DELETE ON trial
WHEN EXISTS (SELECT 1 FROM record WHERE trial_id = OLD.id) OR NOT EXISTS (
  SELECT 1 FROM sweep JOIN pruned_job ON pruned_job.job_id = sweep.job_id
  WHERE sweep.id = OLD.sweep_id)
BEGIN SELECT RAISE(ABORT, 'trials are append-only'); END;

DROP TRIGGER profile_no_delete;
CREATE TRIGGER profile_no_delete BEFORE DELETE ON profile
WHEN NOT EXISTS (
  SELECT 1 FROM trial JOIN sweep ON sweep.id = trial.sweep_id
  JOIN pruned_job ON pruned_job.job_id = sweep.job_id WHERE trial.id = OLD.trial_id)
BEGIN SELECT RAISE(ABORT, 'profiles are append-only'); END;

DROP TRIGGER gate_leg_no_delete;
CREATE TRIGGER gate_leg_no_delete BEFORE DELETE ON gate_leg
WHEN NOT EXISTS (
  SELECT 1 FROM gate_kernel JOIN gate_run ON gate_run.id = run_id
  JOIN pruned_job ON pruned_job.job_id = gate_run.job_id WHERE gate_kernel.id = OLD.gate_kernel_id)
BEGIN SELECT RAISE(ABORT, 'gate evidence is append-only'); END;

DROP TRIGGER comparison_leg_no_delete;
CREATE TRIGGER comparison_leg_no_delete BEFORE DELETE ON comparison_leg
WHEN NOT EXISTS (
  SELECT 1 FROM compared JOIN comparison ON comparison.id = comparison_id
  JOIN pruned_job ON pruned_job.job_id = comparison.job_id WHERE compared.id = OLD.compared_id)
BEGIN SELECT RAISE(ABORT, 'comparisons are append-only'); END;

-- A trial key may be deleted once its trials are gone.
DROP TRIGGER trial_key_no_delete;
CREATE TRIGGER trial_key_no_delete BEFORE DELETE ON trial_key
WHEN NOT EXISTS (SELECT 1 FROM pruned_job) OR EXISTS (SELECT 1 FROM trial WHERE key_id = OLD.id)
  OR EXISTS (SELECT 1 FROM profile WHERE key_id = OLD.id)
BEGIN SELECT RAISE(ABORT, 'trial keys are append-only'); END;

DROP TRIGGER kernel_no_delete;
CREATE TRIGGER kernel_no_delete BEFORE DELETE ON kernel WHEN NOT EXISTS (SELECT 1 FROM pruned_job)
BEGIN SELECT RAISE(ABORT, 'kernels are immutable'); END;
DROP TRIGGER kernel_file_no_delete;
CREATE TRIGGER kernel_file_no_delete BEFORE DELETE ON kernel_file
WHEN NOT EXISTS (SELECT 1 FROM pruned_job)
BEGIN SELECT RAISE(ABORT, 'kernels are immutable'); END;

-- How many trials were removed, so that their number is known without counting those that are left.
CREATE TABLE removed (trials INTEGER NOT NULL) STRICT;
INSERT INTO removed VALUES (0);
CREATE TRIGGER trial_was_removed AFTER DELETE ON trial BEGIN
  UPDATE removed SET trials = trials + 1;
END;
