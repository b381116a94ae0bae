// SPDX-License-Identifier: Apache-2.0
// The daemon's durable state, in one SQLite file, or in a PostgreSQL database that hosts share:
// kernels, jobs, sweeps, trials, records, profiles, gate runs, comparisons, tokens.
//
// A Store is opened once by the daemon, which then is the only process that writes the file.
// Evidence is append-only: a trial, leg or profile never changes once it is stored. A record only
// points to its trial, and rows that read back wrong are listed by UnreadableRows instead of
// failing a whole list. Each noun has an interface and a header of its own, for code that needs
// no other; retention.h counts and removes what principals have stored. docs/schema.md describes
// the tables.
//
//   ASSIGN_OR_RETURN(auto store, Store::Open("tune.db"));
//   RETURN_IF_ERROR(store->PutKernel(kernel));
//   ASSIGN_OR_RETURN(SweepRow sweep, store->AddSweep(new_sweep));  // with its job
//   ASSIGN_OR_RETURN(trial.id, store->AppendTrial(trial, key));    // durable on return
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/cancelled.h"
#include "db/comparison_store.h"
#include "db/device_store.h"
#include "db/fleet_store.h"
#include "db/gate_store.h"
#include "db/job_store.h"
#include "db/kernel_store.h"
#include "db/profile_store.h"
#include "db/record_store.h"
#include "db/retention.h"
#include "db/sweep_store.h"
#include "db/token_store.h"
#include "db/trial_store.h"

namespace tune::db {

struct StoreStatistics {
  uint64_t trial_count = 0;
  uint64_t record_count = 0;
  // Records that an older daemon had published without a confirmation. They no longer count.
  uint64_t withdrawn_record_count = 0;
  uint32_t schema_version = 0;
  std::string engine;  // "SQLite 3.40.1"
};

// A row that a list leaves out because its content does not parse.
struct UnreadableRow {
  std::string table;
  int64_t id = 0;
  std::string why;
};

struct StoreOptions {
  // The longest time that a call waits for its turn and the disk.
  absl::Duration patience = absl::Seconds(30);
  // Discards the part of a damaged write-ahead log that cannot be read; a copy of the log is kept.
  bool drop_damaged_log = false;
  // With a store in a database, the file <lock>.lock is locked, as that of a store in a file is:
  // the daemon's other files are its own alone, too.
  std::string lock;
  // Called after each write with the time that it took until it was durable, and for each trial of
  // a sweep that was stored. Either may be empty.
  std::function<void(absl::Duration)> wrote;
  std::function<void(const Trial&)> stored_trial;
};

// Thread-safe. One writer thread owns the only read-write connection and every checkpoint; writes
// are durable (WAL, synchronous=FULL) when the call returns. Writes that arrive together share a
// commit. Reads use their own read-only connection.
//
// Errors: FAILED_PRECONDITION (another process has the file; schema too new; a network file
// system), RESOURCE_EXHAUSTED (disk full; reads go on), DATA_LOSS (the file is corrupt),
// UNAVAILABLE (busy, or an I/O error: nothing was written), DEADLINE_EXCEEDED (the disk hangs: it
// may have been written), PERMISSION_DENIED (read-only), NOT_FOUND.
class Store : public KernelStore,
              public JobStore,
              public SweepStore,
              public TrialStore,
              public RecordStore,
              public DeviceStore,
              public ProfileStore,
              public GateStore,
              public ComparisonStore,
              public TokenStore,
              public Retention {
 public:
  // Opens or creates the file `path`, migrates its schema (with a backup first) and checks it; or
  // the database at a URL "postgresql://...".
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& path,
                                                     const StoreOptions& options = {});
  // Can a store be opened at this address, as far as can be told without a connection?
  // INVALID_ARGUMENT: it is no "postgresql://..."; FAILED_PRECONDITION: this host has no libpq.
  static absl::Status CheckUrl(const std::string& url);
  // Opens a store that another process may be writing to, and takes no lock. Calls that would
  // change it return FAILED_PRECONDITION. So does opening a file of an older schema; NOT_FOUND if
  // there is no file. Open handles both.
  static absl::StatusOr<std::unique_ptr<Store>> OpenToRead(const std::string& path);
  // The process that has the store open to write, as "tunectl (process 17)"; empty if none has.
  static std::string WriterOf(const std::string& path);
  // Puts a backup in the place of `path`, which must not be open, and keeps the store that was
  // there. Returns its new name; empty: there was none. FAILED_PRECONDITION: a process has it open;
  // INVALID_ARGUMENT: no backup, or a newer program's; DATA_LOSS: the backup is damaged.
  static absl::StatusOr<std::string> Restore(const std::string& backup, const std::string& path);
  virtual bool writable() const = 0;
  // The hosts that share the store; null: it is of one host.
  virtual FleetStore* fleet() { return nullptr; }
  virtual absl::StatusOr<StoreStatistics> Statistics() = 0;
  // Rows that lists have left out since the store was opened, a thousand at most.
  virtual std::vector<UnreadableRow> UnreadableRows() const = 0;
  // Adds a row whose content the caller cannot parse.
  virtual void NoteUnreadable(const UnreadableRow& row) = 0;
  // Checks the whole file, which Open leaves out for a file where it would take long.
  // DATA_LOSS; CANCELLED.
  virtual absl::Status CheckFile(const Cancelled& cancelled) = 0;
  // Checks the whole file, of any size, and what rows refer to. Errors as of CheckFile.
  virtual absl::Status CheckAll(const Cancelled& cancelled) = 0;
  // Copies the store as it is at one moment to a new file, while others write.
  virtual absl::Status BackUp(const std::string& path) = 0;
};

}  // namespace tune::db
