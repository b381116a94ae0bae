// SPDX-License-Identifier: Apache-2.0
// NVIDIA's JIT linker, which makes a cubin of PTX. Needs no GPU and no driver.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tuner/device/cuda/toolkit.h"

namespace tune::cuda {

class PtxLinker {
 public:
  // FAILED_PRECONDITION if nvJitLink cannot be opened; says what to install.
  static absl::StatusOr<PtxLinker> Load(const Toolkit& toolkit);

  // "nvJitLink 13.0".
  std::string Version() const;

  struct Result {
    std::string cubin;  // empty: the text was not taken, and the log says why
    std::string log;    // ptxas's words on registers among them
  };
  Result Link(const std::string& name, const std::string& text, const std::string& target) const;

 private:
  // The functions of nvJitLink.h, which some toolkits lack. A handle is an opaque pointer; a result
  // is an int, 0 on success.
  struct Api {
    int (*nvJitLinkCreate)(void** handle, unsigned option_count, const char** options) = nullptr;
    int (*nvJitLinkDestroy)(void** handle) = nullptr;
    int (*nvJitLinkAddData)(void* handle, int type, const void* data, size_t size,
                            const char* name) = nullptr;
    int (*nvJitLinkComplete)(void* handle) = nullptr;
    int (*nvJitLinkGetLinkedCubinSize)(void* handle, size_t* size) = nullptr;
    int (*nvJitLinkGetLinkedCubin)(void* handle, void* cubin) = nullptr;
    int (*nvJitLinkGetErrorLogSize)(void* handle, size_t* size) = nullptr;
    int (*nvJitLinkGetErrorLog)(void* handle, char* log) = nullptr;
    int (*nvJitLinkGetInfoLogSize)(void* handle, size_t* size) = nullptr;
    int (*nvJitLinkGetInfoLog)(void* handle, char* log) = nullptr;
    int (*nvJitLinkVersion)(unsigned* major, unsigned* minor) = nullptr;
  };

  Api api_;
};

}  // namespace tune::cuda
