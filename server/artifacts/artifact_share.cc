// SPDX-License-Identifier: Apache-2.0
#include "server/artifacts/artifact_share.h"

#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune::server {

absl::StatusOr<std::string> PutWithinShare(const std::string& text, const ArtifactShare& share,
                                           ArtifactFolder& folder, db::Retention& store) {
  ASSIGN_OR_RETURN(const std::vector<std::string> known, store.ArtifactsOf(share.owner));
  const int64_t before = folder.BytesOf(known);
  if (before + static_cast<int64_t>(text.size()) > share.bytes_max) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the artifacts of ", share.owner, "'s records have ", before, " bytes, and one of ",
        text.size(), " more is too much: a submitter's share of --artifact-bytes is ",
        share.bytes_max));
  }
  ASSIGN_OR_RETURN(const std::string digest, folder.Put(text));
  std::set<std::string> all(known.begin(), known.end());
  all.insert(digest);
  RETURN_IF_ERROR(store.SetArtifactBytes(
      share.owner, static_cast<uint64_t>(folder.BytesOf({all.begin(), all.end()}))));
  return digest;
}

}  // namespace tune::server
