// SPDX-License-Identifier: Apache-2.0
// The records in memory, and the look-ups that they answer.
//
// A RecordBook keeps an immutable Knowledge: the index of the records, their kernels, and the grids
// of their sweeps. A publish stores the record, makes a new Knowledge, and swaps it in. Look-ups
// read the one that is current when they begin, on any thread, without the store. If no record
// fits, they search for a safe config, once for each problem. A command that asks one question
// reads records that ship, and makes grids, only when it needs them (GridsTime). From 20,000
// records on, a thread of low priority keeps the index in a file, which the next book opens at
// once.
//
//   ASSIGN_OR_RETURN(auto book, RecordBook::Open(store, catalogue, devices, solver));
//   ASSIGN_OR_RETURN(RecordAnswer answer, book->Lookup({.kernel_name = "softmax", .dims = dims}));
//   RETURN_IF_ERROR(book->Publish(record));  // the next Lookup may return it
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "db/store.h"
#include "lookup/index.h"
#include "lookup/record.h"
#include "server/devices/devices.h"
#include "server/kernels/catalogue.h"
#include "server/kernels/space_solver.h"
#include "server/records/kept_index.h"
#include "server/records/safe_configs.h"
#include "server/records/shape_grids.h"
#include "server/records/shipped_records.h"
#include "server/records/shipped_sweeps.h"
#include "server/rpc/executor.h"
#include "tuner/device/include_roots.h"
#include "tuner/kernel/kernel.h"

namespace tune::server {

struct RecordQuery {
  std::string kernel_name;  // with its name space: "attention", "alice/attention"
  std::map<std::string, int64_t> dims;
  std::string dtype;
  std::string device;       // name or id; empty: the host's own
  std::string kernel_hash;  // empty: the catalogue's
};

// Identifies the headers that a kernel may include today; empty: as IncludeRoots::DigestOf.
std::string IncludeDigestOf(const Kernel& kernel, const IncludeRoots& include_roots);

// How a look-up matches the dims and headers of the kernel of that name.
lookup::KernelPolicy PolicyOf(const std::string& name, const Kernel& kernel,
                              const std::string& include_digest);

// A query for this very source, in whichever name space it has records.
RecordQuery QueryFor(const Kernel& kernel, const Problem& problem, const std::string& device);

struct RecordAnswer {
  Config config;
  lookup::Match match = lookup::Match::kNone;  // kNone: the spec's default config
  std::string reason;
  std::shared_ptr<const lookup::Record> record;  // null for kNone
  // `record` as a v1::Record on the wire, which lives as long as the snapshot; empty: not at hand.
  absl::string_view record_on_wire;
  lookup::Expectation expectation;
  std::shared_ptr<const lookup::Index> snapshot;
  // The question, with the defaults filled in.
  std::string kernel_name;
  std::shared_ptr<const Kernel> kernel;
  Problem problem;
  std::string device_name;
  TargetTraits traits;
  std::string driver;          // of the device; empty: it is not of this host
  std::string include_digest;  // as KernelPolicy has it
};

// The knowledge that look-ups are answered from. Immutable.
struct Knowledge {
  using Kernels = std::map<std::string, std::shared_ptr<const Kernel>>;  // by name, in its space
  std::shared_ptr<const lookup::Index> index;
  std::shared_ptr<const Kernels> kernels;
  std::shared_ptr<const ShapeGrids> grids;
  std::shared_ptr<const IncludeRoots> include_roots;
};

// The file that keeps the index of many records, so that the next book opens at once.
struct KeptIndex {
  std::string path;              // empty: nowhere
  size_t worth_a_file = 20'000;  // fewer records are read from the store as fast
  size_t worth_another = 5'000;  // so many more, and it is written again
};

// When the grids of records are made and records that ship are read: kAtOnce before any look-up, so
// that none waits for the store; kWhenAsked in a command that asks one question.
enum class GridsTime { kAtOnce, kWhenAsked };

// Thread-safe.
class RecordBook {
 public:
  // Completes what a crash may have left unpublished. All must outlive the book.
  static absl::StatusOr<std::unique_ptr<RecordBook>> Open(
      db::Store& store, const Catalogue& catalogue, const Devices& devices, SpaceSolver& solver,
      const KeptIndex& kept = {}, IncludeRoots include_roots = {},
      GridsTime grids = GridsTime::kAtOnce);

  // Stores the record and answers look-ups with it from then on, or does neither. `done`: as
  // Store::PublishRecord. A call that ended with DEADLINE_EXCEEDED may have stored the record, and
  // may be repeated.
  absl::Status Publish(lookup::Record record, const db::SweepRow* done = nullptr);

  // Answers with what other hosts that share the store have published, too.
  absl::Status CatchUp();

  // Called after each publish, by its thread: must return at once. REQUIRES: nothing is published
  // yet.
  void OnPublish(std::function<void()> published) { published_ = std::move(published); }

  // Answers a query. Never waits for the store or a device. If no record fits it waits for the
  // search of a safe config, unless `cancelled` says that the caller gave up. NOT_FOUND: no such
  // kernel. INVALID_ARGUMENT: a dim or dtype that the kernel does not have, or a problem that no
  // config can run.
  absl::StatusOr<RecordAnswer> Lookup(const RecordQuery& query,
                                      const Cancelled& cancelled = {}) const;
  // Answers several queries from one Knowledge, in the order of the queries.
  std::vector<absl::StatusOr<RecordAnswer>> LookupMany(const std::vector<RecordQuery>& queries,
                                                       const Cancelled& cancelled) const;
  // Lookup for threads that must not wait: nullopt if a safe config is yet to be sought.
  std::optional<absl::StatusOr<RecordAnswer>> LookupAtOnce(const RecordQuery& query) const;

  // A number that changes whenever a question may have another answer than before. Answers to later
  // questions are at least as new.
  uint64_t version() const;

  // Ends searches and the writing of the index. Idempotent.
  void Stop() {
    safe_configs_.Stop();
    keeper_.Stop();
  }

  std::shared_ptr<const lookup::Index> snapshot() const;
  // The sweeps that ship, read at the first call, since most commands need none. Empty if they
  // cannot be read.
  const ShippedSweeps& shipped_sweeps() const;
  Knowledge knowledge() const { return state().known; }

 private:
  using Kernels = Knowledge::Kernels;
  struct State {
    Knowledge known;
    std::shared_ptr<const lookup::SeenDevices> devices;
  };
  // The device that a query is about.
  struct Place {
    std::string device_name;
    TargetTraits traits;
    std::string note;    // why this device, if that is not obvious
    std::string driver;  // empty: not known
  };

  // An answer that may lack its config.
  struct Found {
    RecordAnswer answer;
    std::optional<SafeConfigs::Wanted> wanted;
  };

  RecordBook(db::Store& store, const Catalogue& catalogue, const Devices& devices,
             SpaceSolver& solver, const KeptIndex& kept, IncludeRoots include_roots,
             GridsTime grids)
      : store_(store),
        catalogue_(catalogue),
        devices_(devices),
        safe_configs_(solver),
        kept_(kept),
        include_roots_(std::make_shared<const IncludeRoots>(std::move(include_roots))),
        grids_(grids) {}

  // Answers with a record that is stored.
  absl::Status Add(lookup::Record record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(publish_mutex_);
  absl::Status CatchUpTo(int64_t last_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(publish_mutex_);
  // Publishes the winners that a crash kept from being published, of sweeps with higher ids.
  void Complete(int64_t sweep_id);
  // Opens the kept index, and adds the records published since. NOT_FOUND: there is none, or it is
  // not of this store and program.
  absl::Status LoadKept();
  // Reads all records of the store, and those that ship unless they are read lazily.
  absl::Status Load();
  // Adds the shipped records of a kernel (null: of all kernels) that were not added before.
  void ReadShipped(const std::string* kernel) const;
  void SetRecords(std::vector<lookup::Record> records, std::shared_ptr<const Kernels> kernels,
                  std::shared_ptr<const lookup::SeenDevices> devices) const;
  // Adds a kernel that is not in the catalogue, by the source of its newest record.
  absl::Status Learn(const std::string& name, const std::string& hash, Kernels& kernels) const;
  // Learn, but notes kernels whose source cannot be read.
  void LearnOrNote(const lookup::Record& newest, Kernels& kernels) const;
  void SetState(State state) const;
  // Writes the index in the background if much of it is in no file.
  void KeepIfWorthwhile();
  absl::Status Keep(const Cancelled& cancelled);
  State state() const;  // with all shipped records
  State state_of(const std::string& kernel_name) const;
  State known_state() const;  // with the shipped records read so far
  absl::StatusOr<Place> PlaceOf(const std::string& device, const lookup::SeenDevices& seen) const;
  absl::StatusOr<Found> Find(const RecordQuery& query, const State& state) const;
  absl::StatusOr<RecordAnswer> Lookup(const RecordQuery& query, const State& state,
                                      const Cancelled& cancelled) const;
  // Asks the sweeps of other problems if this one was not tuned; completes `match`. They choose
  // among configs that `accept` takes.
  lookup::Expectation AskOthers(const lookup::Query& query, const Kernel& kernel,
                                const TargetTraits& traits, const Knowledge& known,
                                AcceptConfig accept, lookup::Answer& match) const;
  // The sources that grids are made from. This must outlive them.
  ShapeGrids::Sources GridSources(std::shared_ptr<const Kernels> kernels) const;

  db::Store& store_;
  const Catalogue& catalogue_;
  const Devices& devices_;
  mutable SafeConfigs safe_configs_;
  const KeptIndex kept_;
  const std::shared_ptr<const IncludeRoots> include_roots_;
  const GridsTime grids_;
  int64_t settled_sweep_ = 0;  // all up to it had been published when the book was opened
  std::shared_ptr<const ShippedRecords> shipped_;  // under the store's own
  mutable Mutex shipped_mutex_;
  mutable std::set<std::string> shipped_kernels_ ABSL_GUARDED_BY(shipped_mutex_);  // that were read
  mutable std::atomic<bool> all_shipped_ = false;
  mutable std::once_flag shipped_sweeps_once_;
  mutable std::shared_ptr<const ShippedSweeps> shipped_sweeps_;
  std::function<void()> published_;
  Mutex publish_mutex_;  // one publish at a time
  // Records up to this one are answered from.
  int64_t caught_up_to_ ABSL_GUARDED_BY(publish_mutex_) = 0;
  mutable Mutex mutex_;
  mutable State state_ ABSL_GUARDED_BY(mutex_);
  mutable std::atomic<uint64_t> state_version_ = 0;  // grows after each change of it
  std::atomic<bool> keeping_ = false;
  // The last: it uses all of the above.
  Executor keeper_{/*threads_max=*/1, /*queue_max=*/1, Executor::Priority::kLow};
};

}  // namespace tune::server
