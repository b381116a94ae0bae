// SPDX-License-Identifier: Apache-2.0
// The C interface: handles around a JobClient and its answers. No exception leaves.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/libtune/c_interface.h"
#include "client/libtune/watch.h"

using tune::library::Answer;
using tune::library::Ask;
using tune::library::Fail;
using tune::library::Fill;
using tune::library::Guarded;
using tune::library::JobClient;
using tune::library::MatchName;
using tune::library::Misses;
using tune::library::OpenOptions;
using tune::library::Question;
using tune::library::QuestionKey;
using tune::library::Watch;

struct tune_watch {
  std::shared_ptr<Watch> watch;
  Watch::Found polled;
};

namespace {

constexpr double kWatchSecondsDefault = 30;
constexpr double kWatchSecondsMin = 0.1;
constexpr double kWatchSecondsMax = 86400;
constexpr double kDeadlineSecondsDefault = 0.25;
constexpr int kSecondsMax = 3600;
// The size of the options of a caller that was compiled before they had record_misses.
constexpr size_t kOptionsBytesMin = offsetof(tune_options, record_misses);
constexpr size_t kDimsMax = 1024;

static_assert(TUNE_INVALID_ARGUMENT == static_cast<int>(absl::StatusCode::kInvalidArgument));
static_assert(TUNE_DEADLINE_EXCEEDED == static_cast<int>(absl::StatusCode::kDeadlineExceeded));
static_assert(TUNE_NOT_FOUND == static_cast<int>(absl::StatusCode::kNotFound));
static_assert(TUNE_RESOURCE_EXHAUSTED == static_cast<int>(absl::StatusCode::kResourceExhausted));
static_assert(TUNE_FAILED_PRECONDITION == static_cast<int>(absl::StatusCode::kFailedPrecondition));
static_assert(TUNE_MATCH_EXACT == static_cast<int>(tune::lookup::Match::kExact));
static_assert(TUNE_MATCH_DEFAULT == static_cast<int>(tune::lookup::Match::kNone));

thread_local std::string last_error;

const Answer& Of(const tune_answer* answer) { return answer->kept->answer; }

std::string TextOf(const char* text) { return text == nullptr ? "" : text; }

// Not negative. INVALID_ARGUMENT: more than an hour.
absl::StatusOr<std::chrono::milliseconds> TimeOf(double seconds) {
  if (!std::isfinite(seconds) || seconds > kSecondsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a deadline has at most ", kSecondsMax, " seconds"));
  }
  return std::chrono::milliseconds(static_cast<int64_t>(std::ceil(std::max(seconds, 0.0) * 1e3)));
}

absl::StatusOr<OpenOptions> WantedOf(const tune_options* options) {
  tune_options plain = {};
  if (options != nullptr) {
    if (options->size < kOptionsBytesMin)
      return absl::InvalidArgumentError("options have their size");
    std::memcpy(&plain, options, std::min<size_t>(options->size, sizeof(plain)));
  }
  OpenOptions wanted{.address = TextOf(plain.address), .bundle = TextOf(plain.bundle)};
  if (plain.snapshot != nullptr) wanted.snapshot = plain.snapshot;
  if (plain.record_misses != 0) wanted.record_misses = plain.record_misses > 0;
  ASSIGN_OR_RETURN(wanted.timeout,
                   TimeOf(plain.deadline == 0 ? kDeadlineSecondsDefault : plain.deadline));
  return wanted;
}

// REQUIRES: CheckQuestion.
QuestionKey KeyOf(const tune_question& plain) {
  const auto view = [](const char* text) { return absl::string_view(text == nullptr ? "" : text); };
  QuestionKey key(plain.kernel, view(plain.dtype), view(plain.device));
  for (size_t i = 0; i < plain.dim_count; ++i) key.AddDim(plain.dims[i].name, plain.dims[i].value);
  return key;
}

absl::StatusOr<Question> QuestionOf(const tune_question& plain) {
  Question question{
      .kernel = plain.kernel, .dtype = TextOf(plain.dtype), .device = TextOf(plain.device)};
  for (size_t i = 0; i < plain.dim_count; ++i) {
    if (!question.dims.emplace(plain.dims[i].name, plain.dims[i].value).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("dim '", plain.dims[i].name, "' is given twice"));
    }
  }
  return question;
}

// The question at `index` of an array whose elements have the size that the first one states: a
// caller's may be larger than ours.
const tune_question* QuestionAt(const tune_question* questions, size_t index) {
  const char* const begin = reinterpret_cast<const char*>(questions);
  return reinterpret_cast<const tune_question*>(begin + index * questions->size);
}

const char* At(const std::vector<std::string>& texts, size_t index) {
  return index < texts.size() ? texts[index].c_str() : nullptr;
}

tune_param ParamOf(const tune_answer& answer, size_t index) {
  const auto& [name, value] = answer.kept->answer.config.entries[index];
  tune_param param = {name.c_str(), TUNE_TEXT, 0, 0, answer.kept->macros[index].c_str()};
  if (const bool* boolean = std::get_if<bool>(&value)) {
    param.kind = TUNE_BOOLEAN;
    param.integer = *boolean ? 1 : 0;
    param.number = static_cast<double>(param.integer);
  } else if (const int64_t* integer = std::get_if<int64_t>(&value)) {
    param.kind = TUNE_INTEGER;
    param.integer = *integer;
    param.number = static_cast<double>(*integer);
  } else if (const double* number = std::get_if<double>(&value)) {
    param.kind = TUNE_NUMBER;
    param.number = *number;
  }
  return param;
}

// Its place among the answer's params; their count: there is none of that name.
size_t PlaceOf(const tune_answer& answer, const char* name) {
  const auto& entries = answer.kept->answer.config.entries;
  size_t place = 0;
  while (place < entries.size() && (name == nullptr || entries[place].first != name)) ++place;
  return place;
}

}  // namespace

namespace tune::library {

tune_status Fail(tune_status status, absl::string_view why) noexcept {
  try {
    last_error = std::string(why);
  } catch (const std::exception&) {
    last_error.clear();
  }
  return status;
}

tune_status Fail(const absl::Status& status) noexcept {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kFailedPrecondition:
      return Fail(static_cast<tune_status>(status.code()), status.message());
    default:
      return Fail(TUNE_INTERNAL, status.message());
  }
}

char* Copy(absl::string_view data) {
  char* copy = static_cast<char*>(std::malloc(data.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, data.data(), data.size());
  copy[data.size()] = '\0';
  return copy;
}

absl::Status CheckQuestion(const tune_client* client, const tune_question* plain) {
  if (client == nullptr) return absl::InvalidArgumentError("there is no client");
  if (plain == nullptr || plain->size < sizeof(tune_question) || plain->kernel == nullptr) {
    return absl::InvalidArgumentError("a question has its size and names a kernel");
  }
  if (plain->dim_count > kDimsMax || (plain->dim_count > 0 && plain->dims == nullptr)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a question has an array of at most ", kDimsMax, " dims"));
  }
  for (size_t i = 0; i < plain->dim_count; ++i) {
    if (plain->dims[i].name == nullptr) return absl::InvalidArgumentError("a dim has no name");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const KeptAnswer>> Ask(const tune_client* client,
                                                      const tune_question* plain) {
  RETURN_IF_ERROR(CheckQuestion(client, plain));
  const QuestionKey key = KeyOf(*plain);
  std::shared_ptr<const KeptAnswer> kept = client->client->Find(key.bytes());
  if (kept == nullptr) {
    ASSIGN_OR_RETURN(const Question question, QuestionOf(*plain));
    ASSIGN_OR_RETURN(kept, client->client->Best(key.bytes(), question));
  }
  if (plain->require_exact != 0 && kept->answer.match != tune::lookup::Match::kExact) {
    return absl::NotFoundError(absl::StrCat("no exact record: ", kept->answer.reason));
  }
  return kept;
}

}  // namespace tune::library

uint32_t tune_abi_version(void) { return TUNE_ABI_VERSION; }

const char* tune_error(void) { return last_error.c_str(); }

tune_status tune_open(const tune_options* options, tune_client** client) {
  return Guarded([&] {
    if (client == nullptr) return Fail(TUNE_INVALID_ARGUMENT, "there is no place for a client");
    *client = nullptr;
    const absl::StatusOr<OpenOptions> wanted = WantedOf(options);
    if (!wanted.ok()) return Fail(wanted.status());
    auto opened = JobClient::Open(*wanted);
    if (!opened.ok()) return Fail(opened.status());
    *client = new tune_client{*std::move(opened)};
    return TUNE_OK;
  });
}

void tune_close(tune_client* client) { delete client; }

const char* tune_client_digest(const tune_client* client) {
  const auto* snapshot = client->client->snapshot();
  return snapshot == nullptr ? "" : snapshot->digest().c_str();
}
int64_t tune_client_number(const tune_client* client) {
  const auto* snapshot = client->client->snapshot();
  return snapshot == nullptr ? 0 : snapshot->number();
}
const char* tune_client_source(const tune_client* client) {
  return client->client->source().c_str();
}
const char* tune_client_note(const tune_client* client, size_t index) {
  return At(client->client->notes(), index);
}
const char* tune_client_kernel(const tune_client* client, size_t index) {
  const auto* snapshot = client->client->snapshot();
  return snapshot == nullptr ? nullptr : At(snapshot->kernel_names(), index);
}

tune_status tune_best(const tune_client* client, const tune_question* question,
                      tune_answer** answer) {
  return Guarded([&] {
    if (answer == nullptr) return Fail(TUNE_INVALID_ARGUMENT, "there is no place for an answer");
    *answer = nullptr;
    auto found = Ask(client, question);
    if (!found.ok()) return Fail(found.status());
    auto made = std::make_unique<tune_answer>(tune_answer{*std::move(found)});
    *answer = made.release();
    return TUNE_OK;
  });
}

void tune_answer_free(tune_answer* answer) { delete answer; }

tune_status tune_best_batch(const tune_client* client, const tune_question* questions, size_t count,
                            tune_answer** answers) {
  return Guarded([&] {
    if (count == 0) return TUNE_OK;
    if (questions == nullptr || answers == nullptr || count > TUNE_BATCH_MAX) {
      return Fail(TUNE_INVALID_ARGUMENT,
                  absl::StrCat("a batch has an array of at most ", TUNE_BATCH_MAX,
                               " questions, and places for as many answers"));
    }
    std::fill_n(answers, count, nullptr);
    std::vector<std::unique_ptr<tune_answer>> made;
    made.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      const tune_question* question = QuestionAt(questions, i);
      auto found = question->size == questions->size
                       ? Ask(client, question)
                       : absl::InvalidArgumentError("it has another size than the first");
      if (!found.ok()) {
        return Fail(absl::Status(found.status().code(),
                                 absl::StrCat("questions[", i, "]: ", found.status().message())));
      }
      made.push_back(std::make_unique<tune_answer>(tune_answer{*std::move(found)}));
    }
    for (size_t i = 0; i < count; ++i) answers[i] = made[i].release();
    return TUNE_OK;
  });
}

tune_status tune_misses_wait(const tune_client* client, double seconds) {
  return Guarded([&] {
    if (client == nullptr) return Fail(TUNE_INVALID_ARGUMENT, "there is no client");
    const auto time = TimeOf(seconds);
    if (!time.ok()) return Fail(time.status());
    Misses* misses = client->client->misses();
    if (misses == nullptr || misses->Wait(*time)) return TUNE_OK;
    return Fail(TUNE_DEADLINE_EXCEEDED, "the daemon was not told of all misses in time");
  });
}

const char* tune_misses_note(const tune_client* client, size_t index) {
  const Misses* misses = client->client->misses();
  return misses == nullptr ? nullptr : misses->Note(index);
}

tune_status tune_watch_open(const tune_client* client, double every, tune_watch** watch) {
  return Guarded([&] {
    if (client == nullptr || watch == nullptr) {
      return Fail(TUNE_INVALID_ARGUMENT, "a client, and a place for the watch");
    }
    *watch = nullptr;
    const double seconds = every == 0 ? kWatchSecondsDefault : every;
    if (!(seconds >= kWatchSecondsMin && seconds <= kWatchSecondsMax)) {
      return Fail(TUNE_INVALID_ARGUMENT, "a watch looks every 0.1 to 86400 seconds");
    }
    auto opened =
        Watch::Open(client->client, std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3)));
    if (!opened.ok()) return Fail(opened.status());
    *watch = new tune_watch{*std::move(opened), {}};
    return TUNE_OK;
  });
}

void tune_watch_close(tune_watch* watch) { delete watch; }

size_t tune_watch_poll(tune_watch* watch) {
  Guarded([&] {
    watch->polled = watch->watch->Newest();
    return TUNE_OK;
  });
  return watch->polled.better.size();
}

tune_status tune_watch_look(tune_watch* watch, size_t* count) {
  return Guarded([&] {
    if (watch == nullptr) return Fail(TUNE_INVALID_ARGUMENT, "there is no watch");
    watch->watch->Look(/*fresh_seconds=*/0, /*end_fd=*/-1);
    const size_t better = tune_watch_poll(watch);
    if (count != nullptr) *count = better;
    return TUNE_OK;
  });
}

const char* tune_watch_digest(const tune_watch* watch) {
  return watch->polled.better.empty() ? "" : watch->polled.newest->digest().c_str();
}

tune_status tune_watch_better(const tune_watch* watch, size_t index, tune_answer** before,
                              tune_answer** after) {
  return Guarded([&] {
    if (before == nullptr || after == nullptr || index >= watch->polled.better.size()) {
      return Fail(TUNE_NOT_FOUND, "there is nothing better of that index");
    }
    const auto& better = watch->polled.better[index];
    auto was = std::make_unique<tune_answer>(tune_answer{better.before});
    *after = new tune_answer{better.after};
    *before = was.release();
    return TUNE_OK;
  });
}

tune_status tune_watch_take(tune_watch* watch, tune_client** client) {
  return Guarded([&] {
    if (watch == nullptr || client == nullptr) {
      return Fail(TUNE_INVALID_ARGUMENT, "a watch, and a place for the client");
    }
    *client = nullptr;
    if (watch->polled.better.empty()) return Fail(TUNE_NOT_FOUND, "there is nothing better");
    *client = new tune_client{watch->polled.newest};
    watch->watch->Follow(watch->polled.newest);
    watch->polled = {};
    return TUNE_OK;
  });
}

tune_match tune_answer_match(const tune_answer* answer) {
  return static_cast<tune_match>(Of(answer).match);
}
const char* tune_answer_match_name(const tune_answer* answer) {
  return MatchName(Of(answer).match);
}
const char* tune_answer_reason(const tune_answer* answer) { return Of(answer).reason.c_str(); }

size_t tune_answer_param_count(const tune_answer* answer) { return answer->kept->macros.size(); }

tune_status tune_answer_param(const tune_answer* answer, size_t index, tune_param* param) {
  if (index >= answer->kept->macros.size() || param == nullptr) {
    return Fail(TUNE_INVALID_ARGUMENT, "there is no such param");
  }
  *param = ParamOf(*answer, index);
  return TUNE_OK;
}

int64_t tune_answer_integer(const tune_answer* answer, const char* param, int64_t fallback) {
  const size_t place = PlaceOf(*answer, param);
  if (place == answer->kept->macros.size()) return fallback;
  const tune_param found = ParamOf(*answer, place);
  return found.kind == TUNE_INTEGER || found.kind == TUNE_BOOLEAN ? found.integer : fallback;
}

const char* tune_answer_text(const tune_answer* answer, const char* param, const char* fallback) {
  const size_t place = PlaceOf(*answer, param);
  return place == answer->kept->macros.size() ? fallback : answer->kept->macros[place].c_str();
}

const char* tune_answer_kernel(const tune_answer* answer) { return Of(answer).kernel.c_str(); }
const char* tune_answer_device(const tune_answer* answer) { return Of(answer).device.c_str(); }
const char* tune_answer_target(const tune_answer* answer) { return Of(answer).target.c_str(); }
const char* tune_answer_driver(const tune_answer* answer) { return Of(answer).driver.c_str(); }
const char* tune_answer_dtype(const tune_answer* answer) { return Of(answer).dtype.c_str(); }
size_t tune_answer_dim_count(const tune_answer* answer) { return Of(answer).dims.size(); }

tune_status tune_answer_dim(const tune_answer* answer, size_t index, tune_dim* dim) {
  if (index >= Of(answer).dims.size() || dim == nullptr) {
    return Fail(TUNE_INVALID_ARGUMENT, "there is no such dim");
  }
  const auto& [name, value] = Of(answer).dims[index];
  *dim = {name.c_str(), value};
  return TUNE_OK;
}

void tune_answer_record(const tune_answer* answer, tune_record* record) {
  const Answer& from = Of(answer);
  *record = {from.record,
             from.published_unix_ms,
             from.measured.latency_ns_median,
             from.measured.latency_ns_low,
             from.measured.latency_ns_high,
             from.confidence.c_str(),
             from.evidence.c_str(),
             from.artifact.c_str()};
}

void tune_answer_expectation(const tune_answer* answer, tune_expectation* expectation) {
  const tune::library::Expectation& from = Of(answer).expectation;
  *expectation = {static_cast<tune_basis>(from.basis), from.loss, from.loss_low, from.loss_high};
}

const char* tune_answer_expected(const tune_answer* answer) {
  return answer->kept->expected.c_str();
}
int tune_answer_is_chosen(const tune_answer* answer) {
  return Of(answer).expectation.chosen_between ? 1 : 0;
}

tune_status tune_answer_neighbour(const tune_answer* answer, size_t index,
                                  tune_neighbour* neighbour) {
  const auto& neighbours = Of(answer).expectation.neighbours;
  if (index >= neighbours.size()) return Fail(TUNE_NOT_FOUND, "there is no such neighbour");
  const auto& [dims, weight, loss] = neighbours[index];
  if (Fill(tune_neighbour{0, weight, loss, dims.size()}, neighbour)) return TUNE_OK;
  return Fail(TUNE_INVALID_ARGUMENT, "a neighbour has its size");
}

tune_status tune_answer_neighbour_dim(const tune_answer* answer, size_t index, size_t dim,
                                      tune_dim* value) {
  const auto& neighbours = Of(answer).expectation.neighbours;
  if (index >= neighbours.size() || dim >= neighbours[index].dims.size() || value == nullptr) {
    return Fail(TUNE_NOT_FOUND, "there is no such dim");
  }
  *value = {neighbours[index].dims[dim].first.c_str(), neighbours[index].dims[dim].second};
  return TUNE_OK;
}

tune_status tune_answer_launch(const tune_answer* answer, size_t index, tune_launch* launch) {
  const auto& launches = Of(answer).launches;
  if (index >= launches.size()) return Fail(TUNE_NOT_FOUND, "there is no such launch");
  const tune::LaunchPlan& from = launches[index];
  tune_launch to = {.shared_bytes = static_cast<uint32_t>(from.shared_bytes)};
  for (size_t axis = 0; axis < from.grid.size(); ++axis) {
    to.grid[axis] = static_cast<uint32_t>(from.grid[axis]);
    to.block[axis] = static_cast<uint32_t>(from.block[axis]);
    to.cluster[axis] = static_cast<uint32_t>(from.cluster[axis]);
  }
  if (Fill(to, launch)) return TUNE_OK;
  return Fail(TUNE_INVALID_ARGUMENT, "a launch has its size");
}

const char* tune_answer_snapshot(const tune_answer* answer) { return Of(answer).snapshot.c_str(); }
const char* tune_answer_source(const tune_answer* answer) { return Of(answer).source.c_str(); }

void tune_free(void* memory) { std::free(memory); }
