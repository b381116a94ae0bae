// SPDX-License-Identifier: Apache-2.0
// What a job that runs for days does: asks for all its shapes at once, has those that nobody tuned
// tuned in the background, and takes what is better between two of its steps.
//
//   long_job softmax rows 512 1024 2048
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <tune/tune.hpp>
#include <vector>

namespace {

constexpr int kStepsMax = 600;

int64_t SizeOf(const std::string& text) {
  const char* const end = text.data() + text.size();
  int64_t size = 0;
  const auto read = std::from_chars(text.data(), end, size);
  if (read.ec == std::errc() && read.ptr == end) return size;
  throw std::invalid_argument("'" + text + "' is no size");
}

void Print(const tune::Answer& answer) {
  std::printf("  %s:", answer.reason().c_str());
  for (const auto& [param, value] : answer.Macros()) {
    std::printf(" %s=%s", param.c_str(), value.c_str());
  }
  std::printf("\n");
}

void Plan(const tune::Client& client, const std::vector<tune::Question>& shapes) {
  std::printf("snapshot %s\n", client.digest().c_str());
  for (const tune::Answer& answer : client.BestBatch(shapes)) Print(answer);
}

void Run(const std::vector<tune::Question>& shapes) {
  tune::Options options;
  options.record_misses = true;
  tune::Client client = tune::Client::Open(options);
  Plan(client, shapes);
  std::fflush(stdout);
  tune::Watch watch(client, /*every=*/1);
  for (int step = 0; step < kStepsMax; ++step) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // a step of the job
    if (watch.Poll() == 0) continue;
    std::printf("after step %d, better:\n", step);
    for (const tune::Better& better : watch.better()) Print(better.after);
    // Of several ranks, rank 0 hands watch.digest() to the others, and all open that one instead.
    client = *watch.Take();
    Plan(client, shapes);
    return;
  }
  std::printf("nothing better after %d steps\n", kStepsMax);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s KERNEL DIM SIZE...\n", argv[0]);
    return 2;
  }
  try {
    std::vector<tune::Question> shapes;
    for (int i = 3; i < argc; ++i) {
      shapes.push_back(tune::Question{argv[1], {{argv[2], SizeOf(argv[i])}}});
    }
    Run(shapes);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
