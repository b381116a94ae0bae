// SPDX-License-Identifier: Apache-2.0
// A kernel's part of an index in a file (record_file.h).
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "lookup/kernel_index.h"

namespace tune::lookup {
namespace {

constexpr size_t kRecordsBetweenLooks = 1000;

std::map<std::string, int> AsNumbers(const std::map<std::string, DimMatch>& dims) {
  std::map<std::string, int> numbers;
  for (const auto& [name, match] : dims) numbers[name] = static_cast<int>(match);
  return numbers;
}

// Takes numbers of an array one after the other.
class Numbers {
 public:
  explicit Numbers(absl::Span<const uint64_t> left) : left_(left) {}
  bool empty() const { return left_.empty(); }
  // 0 beyond the end, which a count that does not fit then shows.
  uint64_t Take() {
    if (left_.empty()) return 0;
    const uint64_t number = left_.front();
    left_.remove_prefix(1);
    return number;
  }

 private:
  absl::Span<const uint64_t> left_;
};

}  // namespace

absl::StatusOr<nlohmann::json> KernelIndex::Save(RecordFileWriter& file, const RecordCodec& codec,
                                                 const Cancelled& cancelled) const {
  std::vector<RecordPtr> records = CurrentRecords();
  std::reverse(records.begin(), records.end());
  const std::shared_ptr<const KernelIndex> whole = Build(policy_, records);
  std::vector<uint64_t> places;
  for (const RecordPtr& record : records) {
    if (places.size() % kRecordsBetweenLooks == 0 && cancelled && cancelled()) {
      return absl::CancelledError("nobody needs the index any more");
    }
    const std::string text = codec.encode(*record);
    places.push_back(file.Add(text));
    places.push_back(text.size());
  }
  std::vector<uint64_t> trees;
  for (const auto& [key, tree] : whole->trees_) {
    trees.push_back(key.size());
    for (const int64_t part : key) trees.push_back(static_cast<uint64_t>(part));
    trees.push_back(tree->axes());
    trees.push_back(tree->size());
    trees.push_back(file.AddArray(tree->ranks()));
    trees.push_back(file.AddArray(tree->coordinates()));
  }
  std::vector<std::string> texts(whole->ids_.size());
  for (const auto& [text, id] : whole->ids_) texts[static_cast<size_t>(id) - 1] = text;
  return nlohmann::json{{"name", policy_.kernel_name},
                        {"dims", AsNumbers(policy_.dims)},
                        {"include_digest", policy_.include_digest},
                        {"texts", texts},
                        {"hashes", whole->hashes_},
                        {"devices", whole->devices_},
                        {"dtypes_by_target", whole->dtypes_by_target_},
                        {"any_hash", whole->AnyHash()},
                        {"any_device", whole->AnyDevice()},
                        {"places", {file.AddArray<uint64_t>(places), places.size()}},
                        {"trees", {file.AddArray<uint64_t>(trees), trees.size()}}};
}

absl::StatusOr<std::shared_ptr<const KernelIndex>> KernelIndex::Open(
    const KernelPolicy& policy, std::shared_ptr<const RecordFile> file,
    const nlohmann::json& saved) {
  std::shared_ptr<KernelIndex> index(new KernelIndex(policy));
  auto part = std::make_shared<Saved>();
  const auto array = [&](const char* name) {
    const nlohmann::json& place = saved.at(name);
    return file->Integers(place.at(0).get<uint64_t>(), place.at(1).get<uint64_t>());
  };
  ASSIGN_OR_RETURN(part->places, array("places"));
  ASSIGN_OR_RETURN(const absl::Span<const uint64_t> trees, array("trees"));
  for (const nlohmann::json& text : saved.at("texts")) index->Intern(text.get<std::string>());
  saved.at("hashes").get_to(index->hashes_);
  saved.at("devices").get_to(index->devices_);
  saved.at("dtypes_by_target").get_to(index->dtypes_by_target_);
  part->any_hash = saved.at("any_hash").get<int64_t>();
  part->any_device = saved.at("any_device").get<int64_t>();
  for (Numbers numbers(trees); !numbers.empty();) {
    Key key;
    for (uint64_t left = std::min<uint64_t>(numbers.Take(), trees.size()); left > 0; --left) {
      key.push_back(static_cast<int64_t>(numbers.Take()));
    }
    const uint64_t axes = numbers.Take();
    const uint64_t points = numbers.Take();
    ASSIGN_OR_RETURN(const auto ranks, file->Ranks(numbers.Take(), points));
    if (axes == 0 && points > 1) return absl::DataLossError("two points of an index are one");
    const uint64_t coordinates = points * axes;
    ASSIGN_OR_RETURN(const auto of_points, file->Coordinates(numbers.Take(), coordinates));
    part->trees[key] = std::make_shared<PointTree>(PointTree::Over(axes, of_points, ranks));
  }
  part->file = std::move(file);
  index->saved_ = std::move(part);
  const bool same_rules =
      AsNumbers(policy.dims) == saved.at("dims").get<std::map<std::string, int>>() &&
      policy.include_digest == saved.at("include_digest").get<std::string>();
  if (same_rules) return index;
  // Dims match in another way than when it was written, or headers are others: other trees.
  std::vector<RecordPtr> records = index->CurrentRecords();
  std::reverse(records.begin(), records.end());
  return Build(policy, std::move(records));
}

}  // namespace tune::lookup
