-- SPDX-License-Identifier: Apache-2.0
-- Version 7: one table of jobs, to which the life cycle of sweeps and gate runs moves.

-- Work for a device: kind 1 sweep, 2 gate, 3 profile, 4 bench, 5 comparison, 6 ceilings,
-- 7 calibration. State 1 queued, 2 running, 3 done, 4 cancelled, 5 failed.
CREATE TABLE job (
  id INTEGER PRIMARY KEY,
  kind INTEGER NOT NULL CHECK (kind BETWEEN 1 AND 7),
  state INTEGER NOT NULL CHECK (state BETWEEN 1 AND 5),
  priority INTEGER NOT NULL CHECK (priority BETWEEN 1 AND 2),  -- 1 interactive, 2 background
  owner TEXT NOT NULL,      -- who asked; empty for jobs older than this table
  subject TEXT NOT NULL,    -- for people
  device_id TEXT NOT NULL,
  message TEXT NOT NULL,
  created_unix_ms INTEGER NOT NULL,
  started_unix_ms INTEGER NOT NULL,   -- 0: it has not, or is older than this table
  finished_unix_ms INTEGER NOT NULL,  -- 0: it is not
  deaths INTEGER NOT NULL             -- ends of the daemon while it ran
) STRICT;

ALTER TABLE sweep ADD COLUMN job_id INTEGER NOT NULL DEFAULT 0;
ALTER TABLE gate_run ADD COLUMN job_id INTEGER NOT NULL DEFAULT 0;

-- Sweeps and gate runs get job ids in the order in which they were asked for.
CREATE TEMP TABLE past_job (
  job_id INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  id INTEGER NOT NULL,
  PRIMARY KEY (kind, id)
) WITHOUT ROWID;
INSERT INTO past_job
SELECT row_number() OVER (ORDER BY unix_ms, kind, id) AS job_id, kind, id
FROM (SELECT created_unix_ms AS unix_ms, 1 AS kind, id FROM sweep
      UNION ALL SELECT started_unix_ms, 2, id FROM gate_run);

UPDATE sweep SET job_id = (SELECT job_id FROM past_job WHERE kind = 1 AND id = sweep.id);
UPDATE gate_run SET job_id = (SELECT job_id FROM past_job WHERE kind = 2 AND id = gate_run.id);
DROP TABLE past_job;

INSERT INTO job
SELECT sweep.job_id, 1, sweep.state, 1, '', kernel.name, sweep.device_id, sweep.message,
       sweep.created_unix_ms, 0, sweep.finished_unix_ms, sweep.deaths
FROM sweep JOIN kernel ON kernel.hash = sweep.kernel_hash;

-- A gate run had 1 running, 2 done, 3 failed, 4 cancelled.
INSERT INTO job
SELECT job_id, 2, CASE state WHEN 1 THEN 2 WHEN 2 THEN 3 WHEN 3 THEN 5 ELSE 4 END, 1, '',
       trim(base_label || ' ' || head_label), device_id, message, started_unix_ms, started_unix_ms,
       finished_unix_ms, 0
FROM gate_run;

DROP INDEX sweep_unfinished;
ALTER TABLE sweep DROP COLUMN state;
ALTER TABLE sweep DROP COLUMN message;
ALTER TABLE sweep DROP COLUMN created_unix_ms;
ALTER TABLE sweep DROP COLUMN finished_unix_ms;
ALTER TABLE sweep DROP COLUMN deaths;
ALTER TABLE sweep DROP COLUMN device_id;
ALTER TABLE gate_run DROP COLUMN state;
ALTER TABLE gate_run DROP COLUMN message;
ALTER TABLE gate_run DROP COLUMN device_id;
ALTER TABLE gate_run DROP COLUMN started_unix_ms;
ALTER TABLE gate_run DROP COLUMN finished_unix_ms;

CREATE UNIQUE INDEX sweep_of_job ON sweep (job_id);
CREATE UNIQUE INDEX gate_run_of_job ON gate_run (job_id);
CREATE INDEX job_unfinished ON job (id) WHERE state IN (1, 2);
CREATE TRIGGER job_no_delete BEFORE DELETE ON job
BEGIN SELECT RAISE(ABORT, 'jobs are kept'); END;
