// SPDX-License-Identifier: Apache-2.0
// libtune for C++17 and later: tune.h with destructors. Nothing here is compiled into the library,
// so compilers and standard libraries may differ.
//
//   auto client = tune::Client::Open();
//   auto tuned = client.Best("softmax", {{"rows", 4096}, {"cols", 1024}});
//   int64_t threads = tuned.Integer("ROW_THREADS", 128);
//
// Calls throw tune::Error for the statuses of tune.h, which are mistakes of the caller.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tune/tune.h"

namespace tune {

// A call that failed. INVALID_ARGUMENT and FAILED_PRECONDITION are mistakes of the job.
class Error : public std::runtime_error {
 public:
  explicit Error(tune_status status) : std::runtime_error(tune_error()), status_(status) {}
  tune_status status() const { return status_; }

 private:
  tune_status status_;
};

// The config that answers, and why. See tune.h for units.
class Answer {
 public:
  explicit Answer(tune_answer* answer) : answer_(answer) {}

  tune_match match() const { return tune_answer_match(get()); }
  std::string match_name() const { return tune_answer_match_name(get()); }
  std::string reason() const { return tune_answer_reason(get()); }
  std::string device() const { return tune_answer_device(get()); }
  std::string target() const { return tune_answer_target(get()); }
  std::string dtype() const { return tune_answer_dtype(get()); }
  std::string snapshot() const { return tune_answer_snapshot(get()); }
  std::string source() const { return tune_answer_source(get()); }
  tune_record record() const {
    tune_record record;
    tune_answer_record(get(), &record);
    return record;
  }

  tune_expectation expectation() const {
    tune_expectation expectation;
    tune_answer_expectation(get(), &expectation);
    return expectation;
  }

  int64_t Integer(const char* param, int64_t fallback) const {
    return tune_answer_integer(get(), param, fallback);
  }
  std::string Text(const char* param, const char* fallback) const {
    return tune_answer_text(get(), param, fallback);
  }
  // Every param as a compiler's macro: {"ROW_THREADS", "128"}, in the spec's order.
  std::vector<std::pair<std::string, std::string>> Macros() const {
    std::vector<std::pair<std::string, std::string>> macros;
    tune_param param;
    for (size_t i = 0; i < tune_answer_param_count(get()); ++i) {
      if (tune_answer_param(get(), i, &param) == TUNE_OK)
        macros.emplace_back(param.name, param.text);
    }
    return macros;
  }
  const tune_answer* get() const { return answer_.get(); }

 private:
  struct Free {
    void operator()(tune_answer* answer) const { tune_answer_free(answer); }
  };
  std::unique_ptr<tune_answer, Free> answer_;
};

struct Options {
  std::string snapshot;                    // empty: TUNE_SNAPSHOT's
  std::string address;                     // empty: TUNE_ADDRESS's
  double deadline = 0;                     // in seconds; 0: 0.25; negative: no daemon is asked
  std::optional<bool> record_misses = {};  // nullopt: if TUNE_RECORD_MISSES is 1
  std::string bundle = {};                 // empty: share/tunectl of the install
};

struct Question {
  std::string kernel;
  std::map<std::string, int64_t> dims = {};
  std::string dtype = {};   // empty: the spec's first
  std::string device = {};  // empty: this process's first GPU, else its CPU
  bool require_exact = false;
};

struct ProgramCloser {
  void operator()(const tune_program* program) const {
    tune_program_close(const_cast<tune_program*>(program));
  }
};

// A snapshot and its answers. Thread-safe.
class Client {
 public:
  static Client Open(const Options& options = {}) {
    tune_options plain = {};
    plain.size = sizeof(plain);
    plain.snapshot = options.snapshot.empty() ? nullptr : options.snapshot.c_str();
    plain.address = options.address.empty() ? nullptr : options.address.c_str();
    plain.deadline = options.deadline;
    if (options.record_misses.has_value()) plain.record_misses = *options.record_misses ? 1 : -1;
    if (!options.bundle.empty()) plain.bundle = options.bundle.c_str();
    tune_client* client = nullptr;
    Check(tune_open(&plain, &client));
    return Client(client);
  }

  std::string digest() const { return tune_client_digest(get()); }
  int64_t number() const { return tune_client_number(get()); }
  std::string source() const { return tune_client_source(get()); }
  std::vector<std::string> notes() const { return All(tune_client_note); }
  std::vector<std::string> kernels() const { return All(tune_client_kernel); }

  Answer Best(const Question& question) const {
    tune_answer* answer = nullptr;
    Check(tune_best(get(), Plain(question).get(), &answer));
    return Answer(answer);
  }
  Answer Best(const std::string& kernel, const std::map<std::string, int64_t>& dims,
              const std::string& dtype = "", const std::string& device = "") const {
    return Best(Question{kernel, dims, dtype, device});
  }
  // Answers in the order of the questions. tune::Error names a question that failed:
  // "questions[2]: ...".
  std::vector<Answer> BestBatch(const std::vector<Question>& questions) const {
    std::vector<Plain> plain(questions.begin(), questions.end());
    std::vector<tune_question> array;
    for (const Plain& one : plain) array.push_back(*one.get());
    std::vector<tune_answer*> handles(questions.size());
    Check(tune_best_batch(get(), array.data(), array.size(), handles.data()));
    std::vector<Answer> answers;
    answers.reserve(handles.size());
    for (tune_answer* handle : handles) answers.emplace_back(handle);
    return answers;
  }
  std::string Explain(const Question& question, size_t most = 5) const {
    char* text = nullptr;
    Check(tune_explain(get(), Plain(question).get(), most, &text));
    const std::unique_ptr<char, decltype(&tune_free)> owned(text, tune_free);
    return text;
  }
  // Reports the queued misses. Returns false if some were still unsent after `seconds`.
  bool WaitForMisses(double seconds) const {
    const tune_status status = tune_misses_wait(get(), seconds);
    if (status != TUNE_DEADLINE_EXCEEDED) Check(status);
    return status == TUNE_OK;
  }
  std::vector<std::string> miss_notes() const { return All(tune_misses_note); }
  // The file of an artifact: record().artifact names it.
  std::string Artifact(const std::string& digest) const {
    void* data = nullptr;
    size_t bytes = 0;
    Check(tune_artifact(get(), digest.c_str(), &data, &bytes));
    const std::unique_ptr<void, decltype(&tune_free)> owned(data, tune_free);
    return std::string(static_cast<const char*>(data), bytes);
  }
  // An artifact's launches, for tune_program_step and tune_program_arg.
  std::unique_ptr<const tune_program, ProgramCloser> Program(const std::string& digest) const {
    tune_program* program = nullptr;
    Check(tune_program_open(get(), digest.c_str(), &program));
    return std::unique_ptr<const tune_program, ProgramCloser>(program);
  }
  const tune_client* get() const { return client_.get(); }

 private:
  friend class Watch;
  explicit Client(tune_client* client) : client_(client) {}
  static void Check(tune_status status) {
    if (status != TUNE_OK) throw Error(status);
  }
  std::vector<std::string> All(const char* (*get_one)(const tune_client*, size_t)) const {
    std::vector<std::string> all;
    while (const char* one = get_one(get(), all.size())) all.emplace_back(one);
    return all;
  }

  // A question as C sees it. Points into the question.
  class Plain {
   public:
    explicit Plain(const Question& question) {
      for (const auto& [name, value] : question.dims) dims_.push_back({name.c_str(), value});
      plain_.size = sizeof(plain_);
      plain_.kernel = question.kernel.c_str();
      plain_.dtype = question.dtype.empty() ? nullptr : question.dtype.c_str();
      plain_.device = question.device.empty() ? nullptr : question.device.c_str();
      plain_.dims = dims_.data();
      plain_.dim_count = dims_.size();
      plain_.require_exact = question.require_exact;
    }
    const tune_question* get() const { return &plain_; }

   private:
    std::vector<tune_dim> dims_;
    tune_question plain_ = {};
  };

  struct Close {
    void operator()(tune_client* client) const { tune_close(client); }
  };
  std::unique_ptr<tune_client, Close> client_;
};

// A question of the job that a newer snapshot answers better.
struct Better {
  Answer before;
  Answer after;
};

// Finds newer snapshots with better answers, which the job takes when it suits it. Used by one
// thread at a time.
//
//   tune::Watch watch(client);
//   ...
//   if (watch.Poll() > 0) client = *watch.Take();  // between two steps
class Watch {
 public:
  // `every`: seconds between two looks; 0: 30.
  explicit Watch(const Client& client, double every = 0) {
    tune_watch* watch = nullptr;
    Client::Check(tune_watch_open(client.get(), every, &watch));
    watch_.reset(watch);
  }

  // Returns how many answers are known to be better in the newest snapshot. Does not wait.
  size_t Poll() { return tune_watch_poll(get()); }
  // Looks for a newer snapshot first, which may take 10 s.
  size_t Look() {
    size_t count = 0;
    Client::Check(tune_watch_look(get(), &count));
    return count;
  }
  // The better answers, and the snapshot that has them, as of the last poll or look.
  std::vector<Better> better() const {
    std::vector<Better> all;
    tune_answer* before = nullptr;
    tune_answer* after = nullptr;
    while (tune_watch_better(get(), all.size(), &before, &after) == TUNE_OK) {
      all.push_back({Answer(before), Answer(after)});
    }
    return all;
  }
  std::string digest() const { return tune_watch_digest(get()); }
  // A client of that snapshot, for which the watch goes on; nullopt if no answer is better.
  std::optional<Client> Take() {
    tune_client* client = nullptr;
    const tune_status status = tune_watch_take(get(), &client);
    if (status == TUNE_NOT_FOUND) return std::nullopt;
    Client::Check(status);
    return Client(client);
  }

 private:
  tune_watch* get() const { return watch_.get(); }

  struct Close {
    void operator()(tune_watch* watch) const { tune_watch_close(watch); }
  };
  std::unique_ptr<tune_watch, Close> watch_;
};

}  // namespace tune
