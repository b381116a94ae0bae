// SPDX-License-Identifier: Apache-2.0
// GPUs that are scripted workers, and their compilers: a folder of workers' programs without any
// real one. What a GPU is told is how its worker behaves from its next start on.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/supervision/workers.h"
#include "tests/server/temp_dir.h"

namespace tune::server {

class ScriptedGpus {
 public:
  explicit ScriptedGpus(int count = 1) {
    for (int i = 0; i < count; ++i) {
      std::filesystem::create_directories(absl::StrCat(dir_.path(), "/gpus/", i));
    }
    std::filesystem::create_directories(dir_.path() + "/bin");
    Write("tune-compile-cuda", "compile");
    // shellcheck would have what it is told quoted; it is several arguments.
    Write("tune-device-cuda", "device $(cat " + dir_.path() + "/told-$ordinal 2>/dev/null)");
  }

  // Arguments of tests/server/supervision/scripted_worker.cc; none: it is well.
  void Tell(int ordinal, const std::string& arguments) {
    std::ofstream(absl::StrCat(dir_.path(), "/told-", ordinal)) << arguments;
  }
  // The scripted worker has no walls.
  std::unique_ptr<Workers> StartWorkers() const {
    return Workers::Create({.state_dir = dir_.path() + "/state",
                            .worker_dir = dir_.path() + "/bin",
                            .gpus_dir = dir_.path() + "/gpus",
                            .allow_weak_walls = true})
        .value();
  }
  // A file of this name in a folder that goes away with the GPUs.
  std::string Path(const std::string& name) const { return dir_.path() + "/" + name; }

 private:
  void Write(const std::string& name, const std::string& arguments) const {
    const std::string program = dir_.path() + "/bin/" + name;
    std::ofstream(program) << R"(#!/bin/sh
for word in "$@"; do
  if [ "$last" = --ordinal ]; then ordinal=$word; fi
  last=$word
done
exec )" << SCRIPTED_WORKER << " "
                           << arguments << " --state " << dir_.path() << " \"$@\"\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  }

  TempDir dir_;
};

}  // namespace tune::server
