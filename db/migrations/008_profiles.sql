-- SPDX-License-Identifier: Apache-2.0
-- Version 8: a profile keeps all of its measurement and resources; summaries name enumerations.
ALTER TABLE profile ADD COLUMN latency_ns_min REAL DEFAULT 0;
ALTER TABLE profile ADD COLUMN latency_ns_mean REAL DEFAULT 0;
ALTER TABLE profile ADD COLUMN bytes_per_second REAL DEFAULT 0;
ALTER TABLE profile ADD COLUMN flops_per_second REAL DEFAULT 0;
ALTER TABLE profile ADD COLUMN peak_fraction REAL DEFAULT 0;
ALTER TABLE profile ADD COLUMN stopped_early INTEGER NOT NULL DEFAULT 0 CHECK (stopped_early IN (0, 1));
ALTER TABLE profile ADD COLUMN stack_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE profile ADD COLUMN binary_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE profile ADD COLUMN binary_sha256 TEXT NOT NULL DEFAULT '';

UPDATE sweep SET summary = replace(replace(replace(replace(summary,
  '"bound":"memory"', '"bound":"BOUND_MEMORY"'),
  '"bound":"compute"', '"bound":"BOUND_COMPUTE"'),
  '"ceilingSource":"measured"', '"ceilingSource":"CEILING_SOURCE_MEASURED"'),
  '"ceilingSource":"nominal"', '"ceilingSource":"CEILING_SOURCE_NOMINAL"');
