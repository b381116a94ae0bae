-- SPDX-License-Identifier: Apache-2.0
-- Version 13: profiles know their kernel by its name in its name space, as records do.

-- Empty: of a version before; then it is that of the kernel alone.
ALTER TABLE profile ADD COLUMN kernel_name TEXT NOT NULL DEFAULT '';
