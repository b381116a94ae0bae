-- SPDX-License-Identifier: Apache-2.0
-- Version 18: profiles count in what their owner has stored, and are removed with their job.

ALTER TABLE profile ADD COLUMN job_id INTEGER NOT NULL DEFAULT 0;  -- 0: older than version 18
CREATE INDEX profile_of_job ON profile (job_id);

-- The owner of the job that counted; of an older profile, the owner of the sweep of its trial.
CREATE VIEW profile_owner AS
SELECT profile.id AS profile_id, job.owner,
  600 + length(CAST(profile.config AS BLOB)) + length(CAST(profile.message AS BLOB)) +
    length(CAST(profile.quantities AS BLOB)) + length(CAST(profile.counters AS BLOB)) +
    length(CAST(profile.notes AS BLOB)) AS bytes
FROM profile LEFT JOIN trial ON trial.id = profile.trial_id
LEFT JOIN sweep ON sweep.id = trial.sweep_id
JOIN job ON job.id = iif(profile.job_id = 0, sweep.job_id, profile.job_id);

INSERT INTO stored (owner, result_bytes)
SELECT owner, sum(bytes) FROM profile_owner WHERE true GROUP BY owner
ON CONFLICT (owner) DO UPDATE SET result_bytes = result_bytes + excluded.result_bytes;

CREATE TRIGGER profile_is_stored AFTER INSERT ON profile BEGIN
  UPDATE stored SET result_bytes =
    result_bytes + (SELECT bytes FROM profile_owner WHERE profile_id = NEW.id)
  WHERE owner = (SELECT owner FROM profile_owner WHERE profile_id = NEW.id);
END;
DROP TRIGGER profile_no_delete;
CREATE TRIGGER profile_no_delete BEFORE DELETE ON profile
WHEN OLD.job_id NOT IN (SELECT job_id FROM pruned_job) AND NOT EXISTS (
  SELECT 1 FROM trial JOIN sweep ON sweep.id = trial.sweep_id
  JOIN pruned_job ON pruned_job.job_id = sweep.job_id WHERE trial.id = OLD.trial_id)
BEGIN SELECT RAISE(ABORT, 'profiles are append-only'); END;
CREATE TRIGGER profile_is_removed BEFORE DELETE ON profile BEGIN
  UPDATE stored SET result_bytes =
    result_bytes - (SELECT bytes FROM profile_owner WHERE profile_id = OLD.id)
  WHERE owner = (SELECT owner FROM profile_owner WHERE profile_id = OLD.id);
END;
