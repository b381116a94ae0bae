// SPDX-License-Identifier: Apache-2.0
#include "server/log.h"

#include <fcntl.h>
#include <signal.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "base/printable.h"
#include "server/log_writer.h"
#include "server/supervision/acting_for.h"

namespace tune::server {
namespace {

// The message as people read it: what it quotes of kernels and workers cannot steer the terminal,
// and only the first line of a message begins with a time.
class PlainMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string text = absl::StrReplaceAll(
        Printable({message.payload.data(), message.payload.size()}), {{"\n", "\n  "}});
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::custom_flag_formatter> clone() const override {
    return std::make_unique<PlainMessage>();
  }
};

std::string JsonOf(const nlohmann::json& value) {
  return value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

// The message as a JSON string, quotes included, and the members that say for whom and on what the
// thread works that logs it.
class JsonMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    std::string json = JsonOf(std::string(message.payload.data(), message.payload.size()));
    const std::string& principal = ActingFor::Current().name;
    if (!principal.empty()) absl::StrAppend(&json, ",\"principal\":", JsonOf(principal));
    if (const JobInHand& job = WorkingOn::Current(); job.id != 0) {
      absl::StrAppend(&json, ",\"job\":", job.id, ",\"device\":", JsonOf(job.device_id));
    }
    out.append(json.data(), json.data() + json.size());
  }
  std::unique_ptr<spdlog::custom_flag_formatter> clone() const override {
    return std::make_unique<JsonMessage>();
  }
};

// Into the queue of a LogWriter.
class QueueSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit QueueSink(LogWriter& writer) : writer_(writer) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    writer_.Write(std::string(line.data(), line.size()));
  }
  void flush_() override {}

 private:
  LogWriter& writer_;
};

std::unique_ptr<spdlog::pattern_formatter> MakeFormatter(LogFormat format) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  if (format == LogFormat::kJson) {
    formatter->add_flag<JsonMessage>('*').set_pattern(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":%*})");
  } else {
    formatter->add_flag<PlainMessage>('*').set_pattern("%Y-%m-%d %H:%M:%S.%e %l %*");
  }
  return formatter;
}

std::string FormatLine(LogFormat format, spdlog::level::level_enum level, const std::string& text) {
  spdlog::memory_buf_t line;
  MakeFormatter(format)->format(spdlog::details::log_msg("tunerd", level, text), line);
  return std::string(line.data(), line.size());
}

absl::StatusOr<spdlog::level::level_enum> ParseLevel(const std::string& level) {
  const spdlog::level::level_enum parsed = spdlog::level::from_str(level);
  if (parsed != spdlog::level::off || level == "off") return parsed;
  return absl::InvalidArgumentError(
      absl::StrCat("unknown log level '", level, "'; there is: debug, info, warn, error, off"));
}

// The log of a daemon, from StartDaemonLog to the end of the process: threads that are never joined
// use it.
struct DaemonLog {
  DaemonLog(int fd, int pipe, LogFormat as)
      : format(as), pipe_fd(pipe), writer(fd, [as](uint64_t count) {
          return FormatLine(as, spdlog::level::warn,
                            absl::StrCat(count,
                                         " lines of the log were dropped: whoever reads it "
                                         "stood still"));
        }) {}

  const LogFormat format;
  const int pipe_fd;  // where what was written to stderr is read
  LogWriter writer;
  std::shared_ptr<spdlog::logger> logger;
};
DaemonLog* g_daemon_log = nullptr;

// gRPC's lines begin like "E1126 13:49:53.1 4242 file.cc:113] ".
void LogForeign(absl::string_view line) {
  spdlog::level::level_enum level = spdlog::level::err;
  const size_t end = line.find("] ");
  const bool prefixed = line.size() > 5 && absl::ascii_isdigit(line[1]) &&
                        absl::ascii_isdigit(line[4]) && line[5] == ' ' &&
                        end != absl::string_view::npos;
  if (prefixed && line[0] == 'I') level = spdlog::level::info;
  if (prefixed && line[0] == 'D') level = spdlog::level::debug;
  if (prefixed) line.remove_prefix(end + 2);
  g_daemon_log->logger->log(level, "{}", std::string(line));
}

void ReadForeign() {
  constexpr size_t kLineMax = 64 << 10;
  std::string text;
  char piece[4096];
  while (true) {
    const ssize_t got = read(g_daemon_log->pipe_fd, piece, sizeof(piece));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    text.append(piece, static_cast<size_t>(got));
    size_t begin = 0;
    for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      if (end > begin) LogForeign(absl::string_view(text).substr(begin, end - begin));
    }
    text.erase(0, begin);
    if (text.size() < kLineMax) continue;
    LogForeign(text);
    text.clear();
  }
}

// The last words of the C library, or of a terminate, are still in the pipe before it aborts.
void AwaitLastWords(int) {
  for (int i = 0; i < 50; ++i) {
    const timespec pause{.tv_sec = 0, .tv_nsec = 10'000'000};
    nanosleep(&pause, nullptr);
    int unread = 0;
    (void)ioctl(g_daemon_log->pipe_fd, FIONREAD, &unread);
    if (i > 2 && unread == 0 && g_daemon_log->writer.waiting() == 0) return;
  }
}

void SetLogger(const std::shared_ptr<spdlog::logger>& logger, spdlog::level::level_enum level,
               LogFormat format) {
  logger->set_formatter(MakeFormatter(format));
  logger->set_level(level);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(logger);
}

}  // namespace

absl::Status StartLog(const std::string& level, LogFormat format) {
  const absl::StatusOr<spdlog::level::level_enum> parsed = ParseLevel(level);
  if (!parsed.ok()) return parsed.status();
  SetLogger(
      std::make_shared<spdlog::logger>("tunerd", std::make_shared<spdlog::sinks::stderr_sink_mt>()),
      *parsed, format);
  return absl::OkStatus();
}

absl::Status StartDaemonLog(const std::string& level, LogFormat format) {
  const absl::StatusOr<spdlog::level::level_enum> parsed = ParseLevel(level);
  if (!parsed.ok()) return parsed.status();
  int ends[2] = {-1, -1};
  int real = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (real < 0) real = open("/dev/null", O_WRONLY | O_CLOEXEC);  // it was started without a stderr
  if (real < 0 || pipe2(ends, O_CLOEXEC) != 0 || dup2(ends[1], STDERR_FILENO) < 0) {
    return absl::UnavailableError(absl::StrCat("the log: ", std::strerror(errno)));
  }
  close(ends[1]);
  g_daemon_log = new DaemonLog(real, ends[0], format);
  g_daemon_log->logger =
      std::make_shared<spdlog::logger>("tunerd", std::make_shared<QueueSink>(g_daemon_log->writer));
  SetLogger(g_daemon_log->logger, *parsed, format);
  std::thread(ReadForeign).detach();
  struct sigaction last_words = {};
  last_words.sa_handler = AwaitLastWords;
  last_words.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGABRT, &last_words, nullptr);
  return absl::OkStatus();
}

absl::Status CheckLogLevel(const std::string& level) { return ParseLevel(level).status(); }

absl::Status SetLogLevel(const std::string& level) {
  const absl::StatusOr<spdlog::level::level_enum> parsed = ParseLevel(level);
  if (parsed.ok()) spdlog::set_level(*parsed);
  return parsed.status();
}

void LogFailure(const absl::Status& status) {
  const std::string text = absl::StrCat("tunerd: ", Printable(status.message()));
  if (g_daemon_log == nullptr) {
    (void)!write(STDERR_FILENO, (text + "\n").data(), text.size() + 1);
    return;
  }
  g_daemon_log->writer.Write(g_daemon_log->format == LogFormat::kJson
                                 ? FormatLine(LogFormat::kJson, spdlog::level::critical, text)
                                 : text + "\n");
}

void FlushDaemonLog(absl::Duration patience) {
  if (g_daemon_log != nullptr) g_daemon_log->writer.Flush(patience);
}

}  // namespace tune::server
