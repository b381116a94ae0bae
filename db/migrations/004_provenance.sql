-- SPDX-License-Identifier: Apache-2.0
-- Version 4: the processes that computed on the device while a trial was timed.
ALTER TABLE trial ADD COLUMN compute_processes INTEGER NOT NULL DEFAULT 0;  -- ours among them; 0: unknown
