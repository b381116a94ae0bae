// SPDX-License-Identifier: Apache-2.0
// Explanations, kernels as a snapshot describes them, and the devices of this process, of the C
// interface.
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/spec_dtype.h"
#include "base/status_macros.h"
#include "client/libtune/c_interface.h"
#include "client/libtune/local_devices.h"
#include "tune/tune.h"
#include "tuner/device_profile.h"

using tune::library::Answer;
using tune::library::Ask;
using tune::library::Candidate;
using tune::library::CheckQuestion;
using tune::library::Copy;
using tune::library::Fail;
using tune::library::Fill;
using tune::library::Guarded;
using tune::library::LocalDevice;
using tune::library::SnapshotKernel;

namespace {

using nlohmann::json;

struct Explanation {
  std::string text;
  std::vector<Candidate> candidates;
};

absl::StatusOr<Explanation> ExplanationOf(const tune_client* client, const tune_question* question,
                                          size_t most) {
  ASSIGN_OR_RETURN(const auto kept, Ask(client, question));
  Explanation explanation;
  explanation.candidates = Candidates(client->client->snapshot(), kept->answer, most);
  explanation.text = Explain(kept->answer, explanation.candidates);
  return explanation;
}

json JsonOf(const Candidate& candidate) {
  json fields = json::array();
  for (const tune::lookup::KeyField& field : candidate.fields) {
    fields.push_back({{"name", field.name},
                      {"rule", field.rule},
                      {"asked", field.asked},
                      {"there", field.there.empty() ? json() : json(field.there)},
                      {"verdict", field.verdict}});
  }
  return {{"record", candidate.record},
          {"answers", candidate.answers},
          {"config_is_valid", candidate.config_is_valid},
          {"fields", std::move(fields)}};
}

std::string JsonOf(const Explanation& explanation) {
  json candidates = json::array();
  for (const Candidate& one : explanation.candidates) candidates.push_back(JsonOf(one));
  const json whole = {{"text", explanation.text}, {"candidates", std::move(candidates)}};
  return whole.dump(-1, ' ', false, json::error_handler_t::replace);
}

// NOT_FOUND.
absl::StatusOr<const SnapshotKernel*> KernelOf(const tune_client* client, const std::string& name) {
  const auto* snapshot = client->client->snapshot();
  const SnapshotKernel* kernel = snapshot == nullptr ? nullptr : snapshot->FindKernel(name);
  if (kernel != nullptr) return kernel;
  return absl::NotFoundError(absl::StrCat("the snapshot has no kernel '", name, "'"));
}

// The text of a value lives as long as `text`.
tune_param ParamOf(const tune::Value& value, std::string& text) {
  text = tune::ToMacro(value);
  tune_param param = {"", TUNE_TEXT, 0, 0, text.c_str()};
  if (const bool* boolean = std::get_if<bool>(&value)) {
    param.kind = TUNE_BOOLEAN;
    param.integer = *boolean ? 1 : 0;
  } else if (const int64_t* integer = std::get_if<int64_t>(&value)) {
    param.kind = TUNE_INTEGER;
    param.integer = *integer;
  } else if (const double* number = std::get_if<double>(&value)) {
    param.kind = TUNE_NUMBER;
    param.number = *number;
    return param;
  }
  param.number = static_cast<double>(param.integer);
  return param;
}

absl::StatusOr<tune::Value> Evaluate(const tune_client* client, const tune_question& problem,
                                     const char* target, const char* expression) {
  ASSIGN_OR_RETURN(const SnapshotKernel* kernel, KernelOf(client, problem.kernel));
  std::map<std::string, int64_t> dims;
  for (size_t i = 0; i < problem.dim_count; ++i) dims[problem.dims[i].name] = problem.dims[i].value;
  const auto& host = *tune::DeviceProfiles().back();
  const std::string on =
      target == nullptr ? std::string(host.common_targets.front()) : std::string(target);
  return kernel->Evaluate(expression, dims,
                          problem.dtype == nullptr ? "" : tune::SpecDType(problem.dtype),
                          client->client->snapshot()->TargetNamed(on));
}

}  // namespace

tune_status tune_explain(const tune_client* client, const tune_question* question, size_t most,
                         char** text) {
  return Guarded([&] {
    if (text == nullptr) return Fail(TUNE_INVALID_ARGUMENT, "there is no place for a text");
    *text = nullptr;
    const auto explanation = ExplanationOf(client, question, most);
    if (!explanation.ok()) return Fail(explanation.status());
    *text = Copy(explanation->text);
    return TUNE_OK;
  });
}

tune_status tune_explain_json(const tune_client* client, const tune_question* question, size_t most,
                              char** json) {
  return Guarded([&] {
    if (json == nullptr) return Fail(TUNE_INVALID_ARGUMENT, "there is no place for a text");
    *json = nullptr;
    const auto explanation = ExplanationOf(client, question, most);
    if (!explanation.ok()) return Fail(explanation.status());
    *json = Copy(JsonOf(*explanation));
    return TUNE_OK;
  });
}

tune_status tune_kernel_json(const tune_client* client, const char* kernel, char** json) {
  return Guarded([&] {
    if (client == nullptr || kernel == nullptr || json == nullptr) {
      return Fail(TUNE_INVALID_ARGUMENT, "a client, a kernel's name, and a place for a text");
    }
    *json = nullptr;
    const auto found = KernelOf(client, kernel);
    if (!found.ok()) return Fail(found.status());
    *json = Copy((*found)->json);
    return TUNE_OK;
  });
}

tune_status tune_vault_json(const tune_client* client, const char* tuner, char** text) {
  return Guarded([&] {
    if (client == nullptr || tuner == nullptr || text == nullptr) {
      return Fail(TUNE_INVALID_ARGUMENT, "a client, a tuner's name, and a place for a text");
    }
    *text = nullptr;
    json pairs = json::array();
    if (const auto* snapshot = client->client->snapshot(); snapshot != nullptr) {
      for (const auto& entry : snapshot->VaultOf(tuner)) pairs.push_back({entry.key, entry.value});
    }
    *text = Copy(pairs.dump(-1, ' ', false, json::error_handler_t::replace));
    return TUNE_OK;
  });
}

tune_status tune_evaluate(const tune_client* client, const tune_question* problem,
                          const char* target, const char* expression, tune_param* value) {
  return Guarded([&] {
    const absl::Status question = CheckQuestion(client, problem);
    if (!question.ok()) return Fail(question);
    if (expression == nullptr || value == nullptr) {
      return Fail(TUNE_INVALID_ARGUMENT, "an expression, and a place for its value");
    }
    const auto found = Evaluate(client, *problem, target, expression);
    if (!found.ok()) return Fail(found.status());
    thread_local std::string text;
    *value = ParamOf(*found, text);
    return TUNE_OK;
  });
}

tune_status tune_local_device(size_t index, tune_device* device) {
  return Guarded([&] {
    const std::vector<LocalDevice> devices = tune::library::LocalDevices();
    if (index >= devices.size()) return Fail(TUNE_NOT_FOUND, "there is no such device");
    thread_local LocalDevice kept;
    kept = devices[index];
    const tune_device found = {0,
                               kept.id.c_str(),
                               kept.name.c_str(),
                               kept.target.c_str(),
                               kept.driver.c_str(),
                               kept.sm_count};
    if (!Fill(found, device)) return Fail(TUNE_INVALID_ARGUMENT, "a device has its size");
    return TUNE_OK;
  });
}
