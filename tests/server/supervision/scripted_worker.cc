// SPDX-License-Identifier: Apache-2.0
// A worker whose compiler and runner do what they are told: the source text of a compile, or the
// binary of a run, is a behaviour. "--state DIR" is where it remembers across restarts.
//
//   ok                answers; a compile's binary is its define RUN, or "ok"
//   samples NS        a run with ten samples of NS nanoseconds
//   outcome N         answers with that outcome
//   slow MS           answers after so many milliseconds
//   hang              never answers
//   crash, exit       ends by a signal, or with code 3, after saying so on stderr
//   once WHAT         WHAT the first time in DIR's life, ok afterwards
//   unusable          a non-OK status
//   fragile           ok the first time in DIR's life, unusable afterwards
//   toofast           a run with ten samples of a picosecond
//   garbage, oversized, truncated, chatter    breaks the protocol on the socket
//   empties           a short message that is a hundred times as long once it is parsed
//   sulk              a status without a word, and nothing else
//   forge             a reply to another request than it was sent
//   huge              a log of 32 MiB
//   bulky BYTES       a compile with a binary of so many bytes
//   threads N         a compile of entries that take blocks of exactly N threads
//   spawn, stray      starts a child that outlives it, in its process group or a session of its
//   own,
//                     writes its id to DIR/child, then hangs
//   memory MIB, hidden MIB, files MIB, entries N, children N    takes as much memory, memory in no
//                     resident set, or bytes in DIR/files, or makes as many empty files there, or
//                     starts as many children, then hangs
//   environment NAME  answers with that variable in the log or message
//   descriptors       answers with the open file descriptors
//   network, write PATH, read PATH    tries it, and answers with what the kernel said
//   count             answers with how many requests this process has seen
//
// A compile with a define COMPILE takes that as its behaviour, with spaces for '_'; the same holds
// for RUN, and "samples" takes its nanoseconds from the define INDEX then. Each behaviour is logged
// to DIR/log, when it begins and when it ends.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "server/worker/compile_worker.h"
#include "server/worker/device_worker.h"
#include "server/worker/serve.h"

namespace tune::server {
namespace {

std::string g_state_dir;

[[noreturn]] void Hang() {
  while (true) pause();
}

void Send(const std::string& bytes) {
  if (write(kWorkerFd, bytes.data(), bytes.size()) < 0) _exit(1);
}

std::string Attempt(int fd) {
  const std::string said = fd < 0 ? strerror(errno) : "done";
  if (fd >= 0) close(fd);
  return said;
}

std::string OpenDescriptors() {
  std::string list;
  DIR* dir = opendir("/proc/self/fd");
  while (dirent* entry = readdir(dir)) {
    const int fd = atoi(entry->d_name);
    if (entry->d_name[0] != '.' && fd != dirfd(dir)) absl::StrAppend(&list, " ", fd);
  }
  closedir(dir);
  return list;
}

void Spawn(bool leaves_group) {
  const pid_t child = fork();
  if (child == 0) {
    if (leaves_group) setsid();
    Hang();
  }
  std::ofstream(g_state_dir + "/child") << child;
  Hang();
}

void TakeMemory(int mib) {
  std::vector<char> memory(static_cast<size_t>(mib) << 20, 'x');
  Hang();
}

// In no resident set: a file in memory that is not mapped.
void TakeHiddenMemory(int mib) {
  const std::string text(1 << 20, 'x');
  const int fd = memfd_create("hidden", 0);
  for (int i = 0; i < mib; ++i) {
    if (write(fd, text.data(), text.size()) < 0) _exit(1);
  }
  Hang();
}

void TakeFiles(int count, size_t bytes) {
  std::filesystem::create_directories(g_state_dir + "/files");
  for (int i = 0; i < count; ++i) {
    std::ofstream(absl::StrCat(g_state_dir, "/files/", i)) << std::string(bytes, 'x');
  }
  Hang();
}

void TakeChildren(int count) {
  for (int i = 0; i < count; ++i) {
    if (fork() == 0) Hang();
  }
  Hang();
}

bool FirstTime(const std::string& what) {
  std::string name = absl::StrCat(g_state_dir, "/once ", what);
  const int fd = open(name.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

struct Doing {
  bool unusable = false;
  bool sulks = false;
  int outcome = 1;
  double sample_ns = 1000;
  std::string said;
  size_t binary_bytes = 0;
  int threads = 0;
};

void Log(const std::string& line) {
  const int fd = open((g_state_dir + "/log").c_str(), O_CREAT | O_APPEND | O_WRONLY, 0600);
  if (fd < 0) return;
  const std::string text = line + "\n";
  if (write(fd, text.data(), text.size()) < 0) _exit(1);
  close(fd);
}

// Device workers of this state that have started and not ended.
int CountAlive() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(g_state_dir)) {
    const std::string name = entry.path().filename().string();
    absl::string_view id = name;
    if (absl::ConsumePrefix(&id, "alive ") && kill(atoi(std::string(id).c_str()), 0) == 0) ++count;
  }
  return count;
}

// Logs the beginning and the end of what goes on meanwhile.
class Logged {
 public:
  explicit Logged(const std::string& what) : what_(what) { Log("begin " + what_); }
  ~Logged() { Log("end " + what_); }

 private:
  const std::string what_;
};

Doing Do(std::string behaviour) {
  static int count = 0;
  ++count;
  Doing doing;
  absl::string_view rest = behaviour;
  if (absl::ConsumePrefix(&rest, "once ")) {
    if (!FirstTime(std::string(rest))) return doing;
    behaviour = std::string(rest);
  }
  rest = behaviour;
  if (absl::ConsumePrefix(&rest, "slow ")) usleep(1000 * atoi(std::string(rest).c_str()));
  if (absl::ConsumePrefix(&rest, "bulky ")) {
    doing.binary_bytes = static_cast<size_t>(atol(std::string(rest).c_str()));
  }
  if (absl::ConsumePrefix(&rest, "threads ")) doing.threads = atoi(std::string(rest).c_str());
  if (absl::ConsumePrefix(&rest, "memory ")) TakeMemory(atoi(std::string(rest).c_str()));
  if (absl::ConsumePrefix(&rest, "hidden ")) TakeHiddenMemory(atoi(std::string(rest).c_str()));
  if (absl::ConsumePrefix(&rest, "files ")) TakeFiles(atoi(std::string(rest).c_str()), 1 << 20);
  if (absl::ConsumePrefix(&rest, "entries ")) TakeFiles(atoi(std::string(rest).c_str()), 0);
  if (absl::ConsumePrefix(&rest, "children ")) TakeChildren(atoi(std::string(rest).c_str()));
  if (absl::ConsumePrefix(&rest, "loud ")) fprintf(stderr, "variant.cu:4: assertion\n");
  if (absl::ConsumePrefix(&rest, "outcome ")) doing.outcome = atoi(std::string(rest).c_str());
  if (absl::ConsumePrefix(&rest, "samples ")) {
    if (!absl::SimpleAtod(rest, &doing.sample_ns)) _exit(4);
  }
  if (absl::ConsumePrefix(&rest, "environment ")) {
    const char* value = getenv(std::string(rest).c_str());
    doing.said = value == nullptr ? "unset" : value;
  }
  if (absl::ConsumePrefix(&rest, "write ")) {
    doing.said = Attempt(open(std::string(rest).c_str(), O_CREAT | O_WRONLY, 0600));
  }
  if (absl::ConsumePrefix(&rest, "read ")) {
    doing.said = Attempt(open(std::string(rest).c_str(), O_RDONLY));
  }
  if (behaviour == "network") doing.said = Attempt(socket(AF_INET, SOCK_STREAM, 0));
  if (behaviour == "descriptors") doing.said = OpenDescriptors();
  if (behaviour == "count") doing.said = absl::StrCat(count);
  if (behaviour == "huge") doing.said.assign(32 << 20, 'x');
  if (behaviour == "fragile") doing.unusable = !FirstTime(behaviour);
  if (behaviour == "toofast") doing.sample_ns = 1e-3;
  if (behaviour == "unusable") doing.unusable = true;
  if (behaviour == "hang") Hang();
  if (behaviour == "spawn" || behaviour == "stray") Spawn(behaviour == "stray");
  if (behaviour == "crash") {
    fprintf(stderr, "about to crash\n");
    raise(SIGSEGV);
    _exit(5);
  }
  if (behaviour == "exit") {
    fprintf(stderr, "about to leave\n");
    _exit(3);
  }
  if (behaviour == "garbage") Send(std::string("\x05\0\0\0\xff\xff\xff\xff\xff", 9));
  if (behaviour == "oversized") Send("\xff\xff\xff\xff");
  if (behaviour == "truncated") {
    Send(std::string("\x64\0\0\0xx", 6));
    _exit(0);
  }
  if (behaviour == "empties") {
    std::string ceilings = std::string("\x05\0\x20\0\x2a\x80\x80\x80\x01", 9);
    while (ceilings.size() < 4 + 5 + (2u << 20)) ceilings += std::string("\x0a\0", 2);
    Send(ceilings);
  }
  if (behaviour == "sulk") doing.sulks = true;
  if (behaviour == "forge") Send(std::string("\x05\0\0\0\x62\x03one", 9));
  // An answer nobody asked for, after the one that was: an empty message.
  if (behaviour == "chatter") Send(std::string("\0\0\0\0\0\0\0\0", 8));
  return doing;
}

std::string Spaced(const std::string& text) { return absl::StrReplaceAll(text, {{"_", " "}}); }

class ScriptedCompiler : public Compiler {
 public:
  explicit ScriptedCompiler(Language language) : language_(language) {}
  Language language() const override { return language_; }
  std::string Version() const override {
    return language_ == Language::kCuda ? "scripted 1" : "scripted " + ToText(language_) + " 1";
  }
  std::vector<std::string> Targets() const override { return {"cpu", "sm_90a"}; }
  absl::StatusOr<Artifact> Compile(const CompilePlan& plan) override {
    std::map<std::string, std::string> defines(plan.defines.begin(), plan.defines.end());
    const bool told = defines.contains("COMPILE");
    const Logged logged("compile");
    const Doing doing = Do(told ? Spaced(defines["COMPILE"]) : plan.source_text);
    if (doing.unusable) return absl::InternalError("scripted: the compiler is unusable");
    Artifact variant;
    variant.outcome = static_cast<Outcome>(doing.outcome);
    variant.log = doing.said;
    variant.binary = told ? Spaced(defines["RUN"]) : "ok";
    if (variant.binary == "samples") absl::StrAppend(&variant.binary, " ", defines["INDEX"]);
    if (doing.binary_bytes > 0) variant.binary.resize(doing.binary_bytes, ' ');
    for (const std::string& entry : plan.entries) {
      variant.entries.push_back({.name = entry, .threads = doing.threads});
    }
    variant.resources.binary_sha256 = "hash of " + variant.binary.substr(0, 100);
    variant.resources.binary_bytes = static_cast<int64_t>(variant.binary.size());
    variant.seconds = 0.25;
    return variant;
  }

 private:
  const Language language_;
};

class ScriptedRunner : public Runner {
 public:
  ScriptedRunner(std::string canary, DeviceInfo info, bool busy, int room)
      : canary_(std::move(canary)), busy_(busy), room_(room), info_(std::move(info)) {
    if (room_ > 0) std::ofstream(absl::StrCat(g_state_dir, "/alive ", getpid()));
    info_.max_shared_bytes = 1 << 16;
    info_.clock = Clock::kHost;
  }
  const DeviceInfo& info() const override { return info_; }
  absl::StatusOr<std::vector<Ceiling>> MeasureCeilings() override {
    const Logged logged("ceilings");
    const double copy = busy_ && FirstTime("ceilings") ? 1e11 : 1e12;
    return std::vector<Ceiling>{{"dram_copy", copy, CeilingSource::kMeasured},
                                {"f32", 1e13, CeilingSource::kMeasured}};
  }
  absl::Status Canary() override {
    if (Do(canary_).unusable) return absl::InternalError("scripted: wrong sum");
    return absl::OkStatus();
  }
  absl::Status Prepare(const ProblemPlan&, const std::string& binary, uint64_t) override {
    if (room_ > 0 && CountAlive() > room_) {
      Log("no room");
      return absl::ResourceExhaustedError("scripted: no memory beside the other processes");
    }
    const Doing doing = Do(binary);
    if (doing.unusable) return absl::InvalidArgumentError("scripted: the reference is wrong");
    return absl::OkStatus();
  }
  absl::StatusOr<RunReport> Run(const RunRequest& request) override {
    const Logged logged(absl::StrCat("run ", request.program.binary));
    const Doing doing = Do(request.program.binary);
    if (doing.unusable) return absl::InternalError("scripted: the runner is unusable");
    if (doing.sulks) return absl::InternalError("");
    RunReport report;
    report.outcome = static_cast<Outcome>(doing.outcome);
    report.message = doing.said;
    report.samples_ns.assign(10, doing.sample_ns);
    report.clock = Clock::kHost;
    return report;
  }

 private:
  const std::string canary_;
  const bool busy_;  // when its ceilings are measured for the first time
  const int room_;   // a problem fits beside so many processes on the device, itself among them
  DeviceInfo info_;
};

// Arguments: compile|device [--state DIR] [--canary BEHAVIOUR] [--broken SENTENCE]
// [--target TARGET] [--name NAME] [--driver VERSION] [--uuid UUID] [--busy once] [--room PROCESSES]
// [--walls up] [--sms COUNT] [--memory GIB], then those of a worker.
int Main(int argc, char** argv) {
  const bool compile = argc > 1 && std::string(argv[1]) == "compile";
  std::string canary = "ok", broken;
  std::string name = "scripted device", target = "sm_90a", driver = "1", uuid = "GPU-scripted";
  std::map<std::string, std::string*> texts = {
      {"--state", &g_state_dir}, {"--canary", &canary}, {"--broken", &broken}, {"--name", &name},
      {"--target", &target},     {"--driver", &driver}, {"--uuid", &uuid}};
  bool busy = false, walls = false;
  int room = 0, sms = 4, memory = 0;
  std::vector<char*> rest = {argv[0]};
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (const auto text = texts.find(flag); text != texts.end()) {
      *text->second = argv[i + 1];
    } else if (flag == "--busy") {
      busy = true;
    } else if (flag == "--room") {
      room = atoi(argv[i + 1]);
    } else if (flag == "--sms") {
      sms = atoi(argv[i + 1]);
    } else if (flag == "--memory") {
      memory = atoi(argv[i + 1]);
    } else if (flag == "--walls") {
      walls = true;
    } else {
      rest.insert(rest.end(), {argv[i], argv[i + 1]});
    }
  }
  const int count = static_cast<int>(rest.size());
  if (compile) {
    const auto compiler_of = [&](Language language) -> CompilerFactory {
      return [=](const IncludeRoots&) -> absl::StatusOr<std::unique_ptr<Compiler>> {
        if (!broken.empty()) return absl::FailedPreconditionError(broken);
        return std::make_unique<ScriptedCompiler>(language);
      };
    };
    return RunCompileWorker(count, rest.data(),
                            walls ? WorkerRole::kLibraryCompiler : WorkerRole::kUnwalled,
                            {compiler_of(Language::kCuda), compiler_of(Language::kPtx)});
  }
  return RunDeviceWorker(count, rest.data(),
                         walls ? WorkerRole::kAccelerator : WorkerRole::kUnwalled,
                         [&](int) -> absl::StatusOr<std::unique_ptr<Runner>> {
                           if (!broken.empty()) return absl::FailedPreconditionError(broken);
                           DeviceInfo info;
                           info.name = name;
                           info.target = target;
                           info.driver = driver;
                           info.uuid = uuid;
                           info.sm_count = sms;
                           info.memory_bytes = int64_t{memory} << 30;
                           return std::make_unique<ScriptedRunner>(canary, info, busy, room);
                         });
}

}  // namespace
}  // namespace tune::server

int main(int argc, char** argv) { return tune::server::Main(argc, argv); }
