// SPDX-License-Identifier: Apache-2.0
#include "server/records/explanation.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace tune::server {
namespace {

// A record beside the question, and how unlike they are.
struct Compared {
  Candidate candidate;
  size_t blocks = 0;    // fields that differ, an invalid config among them
  double distance = 0;  // in powers of two, over all axes
};

// Records that came with the program have no number, so their keys tell them apart.
bool IsSame(const lookup::Record& a, const lookup::Record& b) {
  const auto identity = [](const lookup::Record& record) {
    const TrialKey& key = record.key;
    return std::tie(record.id, record.published_unix_ms, key.kernel_hash, key.problem.dims,
                    key.problem.dtype, key.device_name, key.target, key.cache_mode, key.driver,
                    key.compiler);
  };
  return identity(a) == identity(b);
}

Compared Compare(const RecordAnswer& answer, const lookup::KernelPolicy& policy,
                 const lookup::Record& record) {
  const lookup::Query asked{.kernel_hash = answer.kernel->hash(),
                            .problem = answer.problem,
                            .device_name = answer.device_name,
                            .target = answer.traits.target,
                            .driver = answer.driver};
  lookup::KeyComparison comparison = lookup::CompareKeys(asked, policy, record.key);
  Compared compared{.distance = comparison.distance};
  Candidate& candidate = compared.candidate;
  candidate.record_id = record.id;
  candidate.answers = answer.record != nullptr && IsSame(*answer.record, record);
  candidate.fields = std::move(comparison.fields);
  candidate.config_is_valid =
      answer.kernel->CheckConfig(answer.problem, answer.traits, record.trial.config).ok();
  compared.blocks = candidate.config_is_valid ? 0 : 1;
  for (const lookup::KeyField& field : candidate.fields) compared.blocks += field.differs();
  return compared;
}

}  // namespace

std::vector<Candidate> CompareWithRecords(const RecordAnswer& answer, size_t most) {
  const lookup::KernelPolicy policy =
      PolicyOf(answer.kernel_name, *answer.kernel, answer.include_digest);
  std::vector<Compared> all;
  for (const lookup::RecordPtr& record : answer.snapshot->Records(answer.kernel_name)) {
    all.push_back(Compare(answer, policy, *record));
  }
  std::sort(all.begin(), all.end(), [](const Compared& a, const Compared& b) {
    const auto unlikeness = [](const Compared& one) {
      return std::tuple(!one.candidate.answers, one.blocks, one.distance, -one.candidate.record_id);
    };
    return unlikeness(a) < unlikeness(b);
  });
  all.resize(std::min(all.size(), most));
  std::vector<Candidate> candidates;
  for (Compared& one : all) candidates.push_back(std::move(one.candidate));
  return candidates;
}

}  // namespace tune::server
