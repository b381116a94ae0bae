// SPDX-License-Identifier: Apache-2.0
#include <spdlog/spdlog.h>

#include <utility>

#include "base/plural.h"
#include "base/status_macros.h"
#include "db/store.h"
#include "server/modules.h"
#include "server/state/paths.h"

namespace tune::server {
namespace {

// Ends early if `executor` stops.
void CheckFile(db::Store& store, const Executor& executor) {
  const absl::Status checked = store.CheckFile([&] { return executor.stopping(); });
  if (checked.ok() || absl::IsCancelled(checked)) return;
  spdlog::error("{}", checked.ToString());
  store.NoteUnreadable({"store", 0, std::string(checked.message())});
}

}  // namespace

std::string StorePath(const std::string& state_dir) { return state_dir + "/tune.db"; }

absl::Status StoreModule::Start() {
  has_no_jobs = use != StoreUse::kOwn;
  if (use == StoreUse::kNone) {
    MakePrivateDir(options.state_dir).IgnoreError();  // for the compile cache, if it can be
    return absl::OkStatus();
  }
  if (use == StoreUse::kRead) {
    absl::StatusOr<std::unique_ptr<db::Store>> opened =
        db::Store::OpenToRead(StorePath(options.state_dir));
    const bool needs_owner =
        absl::IsNotFound(opened.status()) || absl::IsFailedPrecondition(opened.status());
    if (!needs_owner) {
      ASSIGN_OR_RETURN(store, std::move(opened));
      return absl::OkStatus();
    }
    use = StoreUse::kOwn;
    has_no_jobs = absl::IsNotFound(opened.status());
  }
  RETURN_IF_ERROR(MakePrivateDir(options.state_dir));
  db::StoreOptions opening{.drop_damaged_log = options.drop_damaged_log};
  if (metrics != nullptr) {
    opening.wrote = [this](absl::Duration time) { metrics->CountWrite(time); };
    opening.stored_trial = [this](const Trial& trial) {
      metrics->CountTrial(ToText(trial.outcome));
    };
  }
  const std::string path = StorePath(options.state_dir);
  if (!options.store.empty()) opening.lock = path;
  ASSIGN_OR_RETURN(store, db::Store::Open(options.store.empty() ? path : options.store, opening));
  return absl::OkStatus();
}

void StoreModule::Report(Executor& executor) {
  if (const auto known = store->Statistics(); known.ok() && known->withdrawn_record_count > 0) {
    spdlog::warn(
        "an older daemon had published {} of unconfirmed trials, which are withdrawn; tune their "
        "problems again",
        Counted(known->withdrawn_record_count, "record"));
  }
  for (const db::UnreadableRow& row : store->UnreadableRows()) {
    spdlog::error("{} {} of the store is left out: {}", row.table, row.id, row.why);
  }
  (void)executor.Run([&] { CheckFile(*store, executor); });
}

}  // namespace tune::server
