-- SPDX-License-Identifier: Apache-2.0
-- Version 5: how often the daemon died while a sweep ran, so that one that kills it is not tried for ever.
ALTER TABLE sweep ADD COLUMN deaths INTEGER NOT NULL DEFAULT 0;
