-- SPDX-License-Identifier: Apache-2.0
-- Version 17: what a job was asked to do, and what it found if its kind has no tables of its own.

-- The request as the job's kind parses it. A daemon that starts again queues the job by it; once
-- the job has ended it is dropped.
CREATE TABLE job_request (
  job_id INTEGER PRIMARY KEY REFERENCES job (id),
  request BLOB NOT NULL
) STRICT;
CREATE TRIGGER job_request_is_over AFTER UPDATE OF state ON job WHEN NEW.state IN (3, 4, 5) BEGIN
  DELETE FROM job_request WHERE job_id = NEW.id;
END;

-- The last event of the job, as a tune.v1.JobEvent without its job.
CREATE TABLE job_end (
  job_id INTEGER PRIMARY KEY REFERENCES job (id),
  event BLOB NOT NULL
) STRICT;
CREATE TRIGGER job_end_is_stored AFTER INSERT ON job_end BEGIN
  UPDATE stored SET result_bytes = result_bytes + length(NEW.event)
  WHERE owner = (SELECT owner FROM job WHERE id = NEW.job_id);
END;
CREATE TRIGGER job_end_is_removed AFTER DELETE ON job_end BEGIN
  UPDATE stored SET result_bytes = result_bytes - length(OLD.event)
  WHERE owner = (SELECT owner FROM job WHERE id = OLD.job_id);
END;
