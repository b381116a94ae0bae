// SPDX-License-Identifier: Apache-2.0
// Guard zones around a kernel's shared arrays, so that a write outside of one is seen. The compiler
// side makes room for them in the assembly, where every array of any declaration has a name, a size
// and a place. The runner's side finds them in the binary's symbols, fills and inspects them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tuner/device/cpu/launcher.h"

namespace tune::cpu {

// `assembly` with a zone on either side of each thread-local variable, which is what a __shared__
// one is here.
std::string AddSharedGuards(absl::string_view assembly);

// Not thread-safe. The kernel must stay loaded.
class SharedGuards {
 public:
  // `binary` is loaded as `library`, and launched with `dynamic_bytes` of dynamic shared memory.
  static SharedGuards Find(const std::string& binary, void* library, int64_t dynamic_bytes);

  // On every thread of the launcher. Zones stay filled until a kernel writes to them.
  void Fill(Launcher& launcher) const;
  // "wrote outside shared array 'kernel::tile' of 512 bytes: ..."; empty if nothing did.
  std::string DescribeDamage(Launcher& launcher) const;

 private:
  struct Array {
    std::string name;
    size_t front = 0;  // offsets in the thread's block of thread-local storage
    size_t begin = 0;
    size_t end = 0;
    size_t back_end = 0;
  };

  std::string Inspect(Launcher& launcher, unsigned thread) const;
  // The calling thread's block of the kernel's thread-local storage.
  unsigned char* Block() const;

  size_t module_ = 0;  // of thread-local storage, as the loader numbers them; 0: none
  size_t dynamic_bytes_ = 0;
  std::vector<Array> arrays_;
};

}  // namespace tune::cpu
