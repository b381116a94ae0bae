// SPDX-License-Identifier: Apache-2.0
// Measures a daemon's clients beside a bare gRPC server that answers as many bytes: look-ups of one
// caller and of several, by turns, and many clients that start at once. bench/studies/service.py
// drives it. Each command prints one JSON object; all times are in microseconds.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tune/v1/record.grpc.pb.h"

namespace tune {
namespace {

using Json = nlohmann::ordered_json;
using Stub = v1::RecordService::Stub;

constexpr absl::Duration kLimit = absl::Seconds(60);
constexpr int kTurnCalls = 200;
constexpr absl::Duration kTurn = absl::Milliseconds(250);

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "service_load: %s\n", why.c_str());
  std::exit(1);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) Die("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The quantile of sorted times, in microseconds.
double At(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto place = static_cast<size_t>(share * static_cast<double>(sorted.size()));
  return sorted[std::min(sorted.size() - 1, place)];
}

struct TlsFiles {
  std::string ca, certificate, key;
};

// Each a connection of its own.
std::shared_ptr<grpc::Channel> Connect(const std::string& address, const TlsFiles& tls = {}) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (!tls.ca.empty()) {
    grpc::SslCredentialsOptions options{.pem_root_certs = ReadFile(tls.ca)};
    if (!tls.key.empty()) options.pem_private_key = ReadFile(tls.key);
    if (!tls.certificate.empty()) options.pem_cert_chain = ReadFile(tls.certificate);
    credentials = grpc::SslCredentials(options);
  }
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

// Reads questions from a JSON array of objects: kernel, dims, dtype, device.
std::vector<v1::LookupRequest> ReadQuestions(const std::string& path) {
  std::vector<v1::LookupRequest> questions;
  for (const Json& one : Json::parse(ReadFile(path))) {
    v1::LookupRequest request;
    request.set_kernel_name(one.at("kernel"));
    for (const auto& [name, value] : one.at("dims").items())
      (*request.mutable_dims())[name] = value;
    request.set_dtype(one.at("dtype"));
    request.set_device(one.at("device"));
    questions.push_back(std::move(request));
  }
  if (questions.empty()) Die("no questions in " + path);
  return questions;
}

grpc::Status Ask(Stub& stub, const v1::LookupRequest& question, v1::LookupResponse& answer) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kLimit));
  return stub.Lookup(&context, question, &answer);
}

// Answers every call with the same bytes and looks at nothing.
class EchoService : public grpc::CallbackGenericService {
 public:
  explicit EchoService(const std::string& answer) : slice_(answer), answer_(&slice_, 1) {}

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    class Reactor : public grpc::ServerGenericBidiReactor {
     public:
      explicit Reactor(const grpc::ByteBuffer& answer) : answer_(answer) { StartRead(&request_); }
      void OnReadDone(bool) override {
        StartWriteAndFinish(&answer_, grpc::WriteOptions(), grpc::Status::OK);
      }
      void OnDone() override { delete this; }

     private:
      grpc::ByteBuffer request_;
      grpc::ByteBuffer answer_;
    };
    return new Reactor(answer_);
  }

 private:
  const grpc::Slice slice_;
  const grpc::ByteBuffer answer_;
};

void Echo(const std::string& address, const std::string& answer_file) {
  EchoService service(ReadFile(answer_file));
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials());
  builder.RegisterCallbackGenericService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) Die("cannot listen on " + address);
  server->Wait();
}

// The bytes of one answer, for Echo.
void Answer(const std::string& address, const std::string& questions_file,
            const std::string& out_file) {
  const auto stub = v1::RecordService::NewStub(Connect(address));
  v1::LookupResponse answer;
  const grpc::Status status = Ask(*stub, ReadQuestions(questions_file).front(), answer);
  if (!status.ok()) Die(status.error_message());
  std::ofstream(out_file, std::ios::binary) << answer.SerializeAsString();
}

// A server of the two that are compared.
struct Side {
  std::string name;
  std::unique_ptr<Stub> stub;
  std::vector<double> times;  // of the turn
  std::map<std::string, int> matches;
  int errors = 0;
};

std::vector<Side> Sides(const std::string& ours, const std::string& echo) {
  std::vector<Side> sides(2);
  sides[0].name = "ours";
  sides[0].stub = v1::RecordService::NewStub(Connect(ours));
  sides[1].name = "echo";
  sides[1].stub = v1::RecordService::NewStub(Connect(echo));
  return sides;
}

Json Summary(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return {{"calls", times.size()},
          {"p50", At(times, 0.5)},
          {"p99", At(times, 0.99)},
          {"p999", At(times, 0.999)},
          {"max", times.empty() ? 0 : times.back()}};
}

// The median over rounds, each of which is a turn of both sides: what else the machine does then
// meets both.
double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return At(values, 0.5);
}

// A single caller: a round is a turn of some hundred calls of each side.
void Latency(const std::string& ours, const std::string& echo, const std::string& questions_file,
             double seconds, bool once) {
  const std::vector<v1::LookupRequest> questions = ReadQuestions(questions_file);
  std::vector<Side> sides = Sides(ours, echo);
  size_t next = 0;
  std::map<std::string, std::vector<double>> all;
  Json ratios = Json::array();
  std::vector<double> p50s;
  const absl::Time end = absl::Now() + absl::Seconds(seconds);
  const size_t round = sides.size() * kTurnCalls;
  for (bool warm = false; absl::Now() < end; warm = true) {
    if (once && next + round > questions.size()) break;
    for (Side& side : sides) {
      side.times.clear();
      for (int i = 0; i < kTurnCalls; ++i) {
        const v1::LookupRequest& question = questions[next++ % questions.size()];
        v1::LookupResponse answer;
        const absl::Time begin = absl::Now();
        const grpc::Status status = Ask(*side.stub, question, answer);
        side.times.push_back(absl::ToDoubleMicroseconds(absl::Now() - begin));
        if (!status.ok()) ++side.errors;
        ++side.matches[v1::Match_Name(answer.match())];
      }
    }
    if (!warm) continue;
    std::map<std::string, double> p50;
    for (Side& side : sides) {
      std::sort(side.times.begin(), side.times.end());
      p50[side.name] = At(side.times, 0.5);
      std::vector<double>& of_side = all[side.name];
      of_side.insert(of_side.end(), side.times.begin(), side.times.end());
    }
    p50s.push_back(p50["ours"] / p50["echo"]);
  }
  Json json;
  for (const Side& side : sides) {
    json[side.name] = Summary(all[side.name]);
    json[side.name]["errors"] = side.errors;
    json[side.name]["matches"] = side.matches;
  }
  std::sort(p50s.begin(), p50s.end());
  json["rounds"] = p50s.size();
  json["p50_ratio"] = {
      {"median", At(p50s, 0.5)}, {"low", At(p50s, 0.05)}, {"high", At(p50s, 0.95)}};
  json["p99_ratio"] = json["ours"]["p99"].get<double>() / json["echo"]["p99"].get<double>();
  std::printf("%s\n", json.dump(1).c_str());
}

// Calls that are in flight all the time of a turn, each followed by the next.
class Callers {
 public:
  Callers(Stub& stub, const std::vector<v1::LookupRequest>& questions)
      : stub_(stub), questions_(questions) {}

  // Calls a second.
  double Run(int callers, absl::Duration turn) {
    const absl::Time begin = absl::Now();
    end_ = begin + turn;
    done_ = 0;
    std::unique_lock lock(mutex_);
    for (in_flight_ = callers; callers > 0; --callers) Start(new Call());
    idle_.wait(lock, [&] { return in_flight_ == 0; });
    return static_cast<double>(done_) / absl::ToDoubleSeconds(absl::Now() - begin);
  }
  int errors() const { return errors_; }

 private:
  struct Call {
    std::unique_ptr<grpc::ClientContext> context;
    v1::LookupResponse answer;
  };

  void Start(Call* call) {
    call->context = std::make_unique<grpc::ClientContext>();
    call->context->set_deadline(absl::ToChronoTime(absl::Now() + kLimit));
    call->answer.Clear();
    stub_.async()->Lookup(call->context.get(), &questions_[next_++ % questions_.size()],
                          &call->answer,
                          [this, call](const grpc::Status& status) { Done(call, status); });
  }
  void Done(Call* call, const grpc::Status& status) {
    ++done_;
    if (!status.ok()) ++errors_;
    if (absl::Now() < end_) return Start(call);
    delete call;
    std::lock_guard lock(mutex_);
    if (--in_flight_ == 0) idle_.notify_all();
  }

  Stub& stub_;
  const std::vector<v1::LookupRequest>& questions_;
  absl::Time end_;
  std::atomic<size_t> next_ = 0;
  std::atomic<int64_t> done_ = 0;
  std::atomic<int> errors_ = 0;
  std::mutex mutex_;
  std::condition_variable idle_;
  int in_flight_ = 0;  // guarded by mutex_
};

void Rate(const std::string& ours, const std::string& echo, const std::string& questions_file,
          int callers, double seconds) {
  const std::vector<v1::LookupRequest> questions = ReadQuestions(questions_file);
  std::vector<Side> sides = Sides(ours, echo);
  Callers of_ours(*sides[0].stub, questions);
  Callers of_echo(*sides[1].stub, questions);
  std::vector<double> ours_rates, echo_rates, ratios;
  const absl::Time end = absl::Now() + absl::Seconds(seconds);
  for (bool warm = false; absl::Now() < end; warm = true) {
    const double ours_rate = of_ours.Run(callers, kTurn);
    const double echo_rate = of_echo.Run(callers, kTurn);
    if (!warm) continue;
    ours_rates.push_back(ours_rate);
    echo_rates.push_back(echo_rate);
    ratios.push_back(ours_rate / echo_rate);
  }
  std::sort(ratios.begin(), ratios.end());
  const Json json = {
      {"callers", callers},
      {"rounds", ratios.size()},
      {"ours", {{"calls_per_second", MedianOf(ours_rates)}, {"errors", of_ours.errors()}}},
      {"echo", {{"calls_per_second", MedianOf(echo_rates)}, {"errors", of_echo.errors()}}},
      {"rate_ratio",
       {{"median", At(ratios, 0.5)}, {"low", At(ratios, 0.05)}, {"high", At(ratios, 0.95)}}}};
  std::printf("%s\n", json.dump(1).c_str());
}

// Clients that all start at once: each connects and asks one question.
void Storm(const std::string& address, const TlsFiles& tls, const std::string& questions_file,
           int clients) {
  rlimit files = {};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const std::vector<v1::LookupRequest> questions = ReadQuestions(questions_file);
  struct Client {
    std::unique_ptr<Stub> stub;
    grpc::ClientContext context;
    v1::LookupResponse answer;
  };
  std::vector<Client> all(static_cast<size_t>(clients));
  for (Client& client : all) client.stub = v1::RecordService::NewStub(Connect(address, tls));
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<double> times;
  std::map<std::string, int> errors;
  const absl::Time begin = absl::Now();
  for (size_t i = 0; i < all.size(); ++i) {
    Client& client = all[i];
    client.context.set_deadline(absl::ToChronoTime(begin + kLimit));
    client.stub->async()->Lookup(&client.context, &questions[i % questions.size()], &client.answer,
                                 [&](const grpc::Status& status) {
                                   std::lock_guard lock(mutex);
                                   times.push_back(absl::ToDoubleMicroseconds(absl::Now() - begin));
                                   if (!status.ok()) ++errors[status.error_message()];
                                   changed.notify_all();
                                 });
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return times.size() == all.size(); });
  Json json = Summary(times);
  json["errors"] = errors;
  std::printf("%s\n", json.dump(1).c_str());
  std::fflush(stdout);
  // The connections stay open until the process that measures the daemon's memory is done.
  if (std::getchar() == EOF) return;
}

}  // namespace
}  // namespace tune

int main(int argc, char** argv) {
  std::string ours, echo, questions, file;
  tune::TlsFiles tls;
  double seconds = 5;
  int callers = 16;
  int clients = 2000;
  bool once = false;
  CLI::App app("Look-ups of a daemon beside a bare gRPC echo; see bench/studies/service.py.");
  app.require_subcommand(1);
  CLI::App* serve = app.add_subcommand("echo", "Serves the bytes of a file for every call");
  serve->add_option("--listen", echo)->required();
  serve->add_option("--answer", file)->required();
  CLI::App* answer = app.add_subcommand("answer", "Writes the bytes of an answer to a file");
  CLI::App* latency = app.add_subcommand("latency", "One caller, by turns");
  CLI::App* rate = app.add_subcommand("rate", "Several callers on one connection, by turns");
  CLI::App* storm =
      app.add_subcommand("storm", "Many clients at once; waits for a line at its end");
  for (CLI::App* command : {answer, latency, rate, storm}) {
    command->add_option("--ours", ours, "The daemon's address")->required();
    command->add_option("--questions", questions, "A JSON file")->required();
  }
  answer->add_option("--out", file)->required();
  for (CLI::App* command : {latency, rate}) {
    command->add_option("--echo", echo, "The echo's address")->required();
    command->add_option("--seconds", seconds)->capture_default_str();
  }
  latency->add_flag("--once", once, "Ends before it would ask a question again");
  rate->add_option("--callers", callers)->capture_default_str();
  storm->add_option("--clients", clients)->capture_default_str();
  storm->add_option("--tls-ca", tls.ca);
  storm->add_option("--tls-cert", tls.certificate);
  storm->add_option("--tls-key", tls.key);
  CLI11_PARSE(app, argc, argv);
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);  // as tunerd, echo and all
  if (serve->parsed()) tune::Echo(echo, file);
  if (answer->parsed()) tune::Answer(ours, questions, file);
  if (latency->parsed()) tune::Latency(ours, echo, questions, seconds, once);
  if (rate->parsed()) tune::Rate(ours, echo, questions, callers, seconds);
  if (storm->parsed()) tune::Storm(ours, tls, questions, clients);
}
