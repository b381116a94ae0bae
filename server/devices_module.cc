// SPDX-License-Identifier: Apache-2.0
#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/plural.h"
#include "base/status_macros.h"
#include "server/modules.h"

namespace tune::server {
namespace {

// Parsing takes a millisecond a kernel: much for a command that asks one question about one.
void KeepNamed(const std::vector<std::string>& names, std::vector<CatalogueEntry>& entries) {
  const auto is_named = [&](const CatalogueEntry& entry) {
    return std::find(names.begin(), names.end(), entry.name) != names.end();
  };
  // A name of none is one of another name space, or wrong: then the error lists what there is.
  if (std::none_of(entries.begin(), entries.end(), is_named)) return;
  std::erase_if(entries, [&](const CatalogueEntry& entry) { return !is_named(entry); });
}

}  // namespace

absl::Status DevicesModule::Start() {
  const ServerOptions& options = store.options;
  if (store.use != StoreUse::kOwn) {
    ASSIGN_OR_RETURN(scratch, PrivateFolder::Make());
  }
  ASSIGN_OR_RETURN(IncludeRoots include_roots, IncludeRoots::Read(options.include_roots));
  ASSIGN_OR_RETURN(workers, Workers::Create({.state_dir = options.state_dir,
                                             .scratch_dir = scratch ? scratch->path() : "",
                                             .worker_dir = options.worker_dir,
                                             .limits = options.limits,
                                             .include_roots = std::move(include_roots),
                                             .triton_python = options.triton_python,
                                             .numpy_python = options.numpy_python,
                                             .allow_weak_walls = options.allow_weak_walls,
                                             .compile_deadline = options.compile_deadline,
                                             .prepare_deadline = options.prepare_deadline,
                                             .run_deadline = options.run_deadline}));
  ASSIGN_OR_RETURN(std::vector<CatalogueEntry> entries, LoadCatalogue());
  if (store.has_no_jobs) KeepNamed(options.kernels, entries);
  std::vector<absl::Status> faults;
  catalogue = Catalogue::Parse(entries, faults);
  for (const absl::Status& fault : faults) {
    spdlog::error("a kernel of the catalogue is left out: {}", fault.ToString());
  }
  spdlog::info("state in {}, {} in the catalogue", options.state_dir,
               Counted(catalogue.kernels().size(), "kernel"));
  if (store.store == nullptr) return absl::OkStatus();
  // Most commands of tunectl need no device, so an embedded server probes devices when asked.
  devices = std::make_unique<Devices>(
      *workers, *store.store, options.embedded ? ProbeTime::kWhenAsked : ProbeTime::kAtOnce);
  return absl::OkStatus();
}

void DevicesModule::BeginStop() {
  solver.Stop();
  if (devices != nullptr) devices->Stop();
}

}  // namespace tune::server
