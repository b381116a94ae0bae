// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "base/status_macros.h"
#include "server/modules.h"
#include "server/snapshots/snapshot_text.h"

namespace tune::server {

absl::Status RecordsModule::Start() {
  const ServerOptions& options = store.options;
  ASSIGN_OR_RETURN(
      records, RecordBook::Open(*store.store, devices.catalogue, *devices.devices, devices.solver,
                                {.path = options.state_dir + "/records.index"},
                                devices.workers->include_roots(),
                                options.embedded ? GridsTime::kWhenAsked : GridsTime::kAtOnce));
  const std::string folder =
      options.snapshot_dir.empty() ? options.state_dir + "/snapshots" : options.snapshot_dir;
  const bool writable = store.store->writable();
  ASSIGN_OR_RETURN(snapshots,
                   SnapshotFolder::Open(
                       folder, writable ? SnapshotFolder::Use::kWrite : SnapshotFolder::Use::kRead,
                       options.limits.snapshots));
  ASSIGN_OR_RETURN(artifacts,
                   ArtifactFolder::Open(
                       folder, writable ? ArtifactFolder::Use::kWrite : ArtifactFolder::Use::kRead,
                       options.limits.artifact_bytes));
  ASSIGN_OR_RETURN(vault, Vault::Open(options.state_dir + "/vault",
                                      writable ? Vault::Use::kWrite : Vault::Use::kRead));
  snapshot_writer = std::make_unique<SnapshotWriter>(*snapshots, [this] {
    return SnapshotText(records->knowledge(), kSnapshotBytesMax, vault->All());
  });
  records->OnPublish([this] { snapshot_writer->Notice(); });
  // The catalogue may have changed since the newest snapshot.
  snapshot_writer->Notice();
  return absl::OkStatus();
}

void RecordsModule::Stop(absl::Duration) {
  if (records != nullptr) records->Stop();
  if (snapshot_writer != nullptr) snapshot_writer->Stop();
}

}  // namespace tune::server
