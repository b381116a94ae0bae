// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/ptx_linker.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tuner/device/cuda/dynamic_library.h"

#define TUNE_LINKER_FUNCTIONS(X) \
  X(nvJitLinkCreate)             \
  X(nvJitLinkDestroy)            \
  X(nvJitLinkAddData)            \
  X(nvJitLinkComplete)           \
  X(nvJitLinkGetLinkedCubinSize) \
  X(nvJitLinkGetLinkedCubin)     \
  X(nvJitLinkGetErrorLogSize)    \
  X(nvJitLinkGetErrorLog)        \
  X(nvJitLinkGetInfoLogSize)     \
  X(nvJitLinkGetInfoLog)         \
  X(nvJitLinkVersion)

namespace tune::cuda {
namespace {

constexpr int kInputPtx = 2;
constexpr int kSuccess = 0;

using SizeOf = int (*)(void* handle, size_t* size);
using TextOf = int (*)(void* handle, char* text);

std::string LogOf(void* handle, SizeOf size_of, TextOf text_of) {
  size_t size = 0;
  if (size_of(handle, &size) != kSuccess || size == 0) return "";
  std::string log(size, '\0');
  if (text_of(handle, log.data()) != kSuccess) return "";
  log.resize(log.find_last_not_of('\0') + 1);
  return log;
}

}  // namespace

absl::StatusOr<PtxLinker> PtxLinker::Load(const Toolkit& toolkit) {
  const std::string remedy = "pip install nvidia-nvjitlink==13.0.*";
  ASSIGN_OR_RETURN(void* library, OpenLibrary({"libnvJitLink.so.13", "libnvJitLink.so.12"},
                                              toolkit.library_dirs, remedy));
  PtxLinker linker;
  Api& api = linker.api_;
  TUNE_LINKER_FUNCTIONS(TUNE_FUNCTION_FIND)
  return linker;
}

std::string PtxLinker::Version() const {
  unsigned major = 0;
  unsigned minor = 0;
  api_.nvJitLinkVersion(&major, &minor);
  return absl::StrCat("nvJitLink ", major, ".", minor);
}

PtxLinker::Result PtxLinker::Link(const std::string& name, const std::string& text,
                                  const std::string& target) const {
  Result result;
  const std::string architecture = absl::StrCat("-arch=", target);
  const char* options[] = {architecture.c_str(), "-verbose", "-Xptxas=-v"};
  void* handle = nullptr;
  if (const int created = api_.nvJitLinkCreate(&handle, std::size(options), options);
      created != kSuccess) {
    result.log = absl::StrCat("nvJitLink does not link for ", target, ": error ", created);
    return result;
  }
  // Its size counts a final NUL.
  int done = api_.nvJitLinkAddData(handle, kInputPtx, text.c_str(), text.size() + 1, name.c_str());
  if (done == kSuccess) done = api_.nvJitLinkComplete(handle);
  size_t size = 0;
  if (done == kSuccess) done = api_.nvJitLinkGetLinkedCubinSize(handle, &size);
  if (done == kSuccess) {
    result.cubin.resize(size);
    done = api_.nvJitLinkGetLinkedCubin(handle, result.cubin.data());
  }
  result.log = absl::StrCat(LogOf(handle, api_.nvJitLinkGetErrorLogSize, api_.nvJitLinkGetErrorLog),
                            LogOf(handle, api_.nvJitLinkGetInfoLogSize, api_.nvJitLinkGetInfoLog));
  if (done != kSuccess) {
    result.cubin.clear();
    absl::StrAppend(&result.log, result.log.empty() ? "" : "\n", "nvJitLink: error ", done);
  }
  api_.nvJitLinkDestroy(&handle);
  return result;
}

}  // namespace tune::cuda
