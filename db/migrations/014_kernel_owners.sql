-- SPDX-License-Identifier: Apache-2.0
-- Version 14: whose sources are kept, by sweeps, gates, profiles and comparisons alike.

CREATE TABLE kernel_owner (
  owner TEXT NOT NULL,  -- a submitter; operators' are not noted
  kernel_hash TEXT NOT NULL REFERENCES kernel (hash),
  PRIMARY KEY (owner, kernel_hash)
) STRICT, WITHOUT ROWID;

INSERT INTO kernel_owner (owner, kernel_hash)
SELECT DISTINCT job.owner, sweep.kernel_hash FROM sweep JOIN job ON job.id = sweep.job_id
WHERE job.owner != '' AND sweep.kernel_hash IN (SELECT hash FROM kernel);
