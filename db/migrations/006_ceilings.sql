-- SPDX-License-Identifier: Apache-2.0
-- Version 6: a ceiling belongs to one device, not to all of a name, and counts the computing
-- processes.
ALTER TABLE ceiling_measurement
  ADD COLUMN compute_processes INTEGER NOT NULL DEFAULT 0;  -- ours among them; 0: unknown

DROP INDEX ceiling_measurement_of_device;
CREATE INDEX ceiling_measurement_of_device
  ON ceiling_measurement (device_name, driver, uuid, name);

DROP VIEW current_ceiling;
CREATE VIEW current_ceiling AS
SELECT * FROM ceiling_measurement
WHERE id IN (SELECT max(id) FROM ceiling_measurement GROUP BY device_name, driver, uuid, name);
