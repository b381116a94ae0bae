// SPDX-License-Identifier: Apache-2.0
#include "server/kernels/space_query.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "server/kernels/kernel_source.h"
#include "server/wire/nouns.h"
#include "tuner/space/definition_json.h"
#include "tuner/space/effects.h"

namespace tune::server {
namespace {

constexpr size_t kDefinitionBytesMax = 1 << 20;
constexpr uint32_t kSamplesMax = 10'000;
// The limit of an answer, which is held until the client has read it.
constexpr size_t kAnswerBytesMax = 4 << 20;

// The subject of a request: the definition, and for a kernel its problem and target.
struct Question {
  SpaceDefinition definition;
  std::optional<Problem> problem;
  std::string target;
};

absl::StatusOr<std::string> ChooseTarget(const Kernel& kernel, const std::string& wanted,
                                         const std::vector<std::string>& targets) {
  if (!wanted.empty()) return wanted;
  for (const std::string& target : targets) {
    if (kernel.RunsOn(target)) return target;
  }
  return absl::InvalidArgumentError(absl::StrCat("no device of this host runs kernel '",
                                                 kernel.spec().name,
                                                 "': name a target, such as --target sm_90a"));
}

absl::StatusOr<Question> Resolve(const v1::SpaceSource& source, const Catalogue& catalogue,
                                 const std::vector<std::string>& targets) {
  Question question;
  NamedKernel named;
  switch (source.space_case()) {
    case v1::SpaceSource::kDefinitionJson: {
      if (source.definition_json().size() > kDefinitionBytesMax) {
        return absl::InvalidArgumentError("a space definition has at most 1 MiB");
      }
      if (source.dims_size() > 0 || !source.dtype().empty() || !source.target().empty()) {
        return absl::InvalidArgumentError(
            "a space definition has no dims, dtype or target; only kernels do");
      }
      ASSIGN_OR_RETURN(question.definition, ParseSpaceDefinition(source.definition_json()));
      return question;
    }
    case v1::SpaceSource::kKernelName: {
      ASSIGN_OR_RETURN(named, catalogue.Find(source.kernel_name()));
      break;
    }
    case v1::SpaceSource::kKernelSource: {
      ASSIGN_OR_RETURN(named, ParseKernelSource(source.kernel_source()));
      break;
    }
    case v1::SpaceSource::SPACE_NOT_SET:
      return absl::InvalidArgumentError("no space: name a kernel, or give a source or definition");
  }
  const Kernel& kernel = *named.kernel;
  ASSIGN_OR_RETURN(question.target, ChooseTarget(kernel, source.target(), targets));
  ASSIGN_OR_RETURN(const TargetTraits traits, TargetTraitsFor(question.target));
  const std::map<std::string, int64_t> dims(source.dims().begin(), source.dims().end());
  ASSIGN_OR_RETURN(question.problem, kernel.MakeProblem(dims, source.dtype(), question.target));
  ASSIGN_OR_RETURN(question.definition, kernel.DefineSpace(*question.problem, traits));
  return question;
}

absl::Status AddDetails(const SpaceDefinition& definition, const Space& space,
                        const SpaceEffort& effort, v1::DescribeSpaceResponse& response) {
  ASSIGN_OR_RETURN(const std::vector<ConstraintEffect> effects,
                   ConstraintEffects(definition, space.valid_count(), effort));
  const double share = space.valid_count() / static_cast<double>(space.size());
  for (size_t i = 0; i < space.params().size(); ++i) {
    v1::SpaceParam* param = response.add_params();
    param->set_name(space.params()[i].name);
    const std::vector<uint64_t> counts = space.ValueCounts(i);
    for (size_t j = 0; j < counts.size(); ++j) {
      v1::SpaceValue* value = param->add_values();
      *value->mutable_value() = ToProto(space.params()[i].values[j]);
      value->set_valid(static_cast<double>(counts[j]) * share);
    }
  }
  for (const ConstraintEffect& effect : effects) {
    v1::ConstraintEffect* constraint = response.add_constraints();
    constraint->set_text(Utf8(effect.text));
    if (effect.rejects.has_value()) constraint->set_rejects(*effect.rejects);
    if (effect.rejects_alone.has_value() && space.exact()) {
      constraint->set_rejects_alone(*effect.rejects_alone);
    }
  }
  return absl::OkStatus();
}

// Some of the configs, each once.
std::vector<uint64_t> SomeOf(const Space& space, uint64_t count, uint64_t seed) {
  auto random = [&seed] {
    // SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA
    // 2014.
    uint64_t x = seed += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  };
  std::vector<uint64_t> chosen;
  if (space.size() <= 4 * count) {
    // Most of them: cards dealt from a pack.
    std::vector<uint64_t> all(space.size());
    std::iota(all.begin(), all.end(), uint64_t{0});
    for (uint64_t i = 0; i < all.size() && chosen.size() < count; ++i) {
      std::swap(all[i], all[i + random() % (all.size() - i)]);
      if (space.Contains(all[i])) chosen.push_back(all[i]);
    }
    return chosen;
  }
  std::set<uint64_t> seen;
  // An inexact space may have fewer valid configs than indices, so there is an end to trying.
  for (uint64_t tries = 0; tries < 8 * count && chosen.size() < count; ++tries) {
    const uint64_t index = space.Sample(random);
    if (seen.insert(index).second) chosen.push_back(index);
  }
  return chosen;
}

absl::Status CheckSize(const google::protobuf::Message& response, absl::string_view advice) {
  const size_t bytes = response.ByteSizeLong();
  if (bytes <= kAnswerBytesMax) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the answer would have ", bytes, " bytes, and may have ", kAnswerBytesMax, ": ", advice));
}

}  // namespace

absl::Status DescribeSpace(const v1::DescribeSpaceRequest& request, const Catalogue& catalogue,
                           const std::vector<std::string>& targets,
                           v1::DescribeSpaceResponse& response, const SpaceEffort& effort) {
  ASSIGN_OR_RETURN(const Question question, Resolve(request.space(), catalogue, targets));
  const absl::Time start = SteadyNow();
  ASSIGN_OR_RETURN(const Space space, Space::Build(question.definition, effort));
  const absl::Duration spent = SteadyNow() - start;
  if (request.details()) {
    RETURN_IF_ERROR(AddDetails(question.definition, space, effort, response));
  }
  response.set_build_seconds(absl::ToDoubleSeconds(spent));
  if (question.problem.has_value()) *response.mutable_problem() = ToProto(*question.problem);
  response.set_target(question.target);
  response.set_product(ProductOf(question.definition));
  response.set_valid(space.valid_count());
  response.set_exact(space.exact());
  response.set_relative_error(space.valid_count_error());
  response.set_bytes(space.bytes());
  for (const Space::Component& component : space.components()) {
    v1::SpaceComponent* added = response.add_components();
    for (size_t param : component.params) added->add_params(space.params()[param].name);
    added->set_valid(component.count);
  }
  return CheckSize(response, "ask without details, or give the params fewer values");
}

absl::Status SampleSpace(const v1::SampleSpaceRequest& request, const Catalogue& catalogue,
                         const std::vector<std::string>& targets, v1::SampleSpaceResponse& response,
                         const SpaceEffort& effort) {
  if (request.count() == 0 || request.count() > kSamplesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("1 to ", kSamplesMax, " configs can be sampled, not ", request.count()));
  }
  ASSIGN_OR_RETURN(const Question question, Resolve(request.space(), catalogue, targets));
  ASSIGN_OR_RETURN(const Space space, Space::Build(question.definition, effort));
  for (uint64_t index : SomeOf(space, request.count(), request.seed())) {
    *response.add_configs() = ToProto(space.At(index));
  }
  return CheckSize(response, "ask for fewer configs");
}

}  // namespace tune::server
