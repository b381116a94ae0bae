// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/cubin_module.h"

#include <elf.h>
#include <string.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace tune::cuda {
namespace {

constexpr uint16_t kCudaMachine = 190;
constexpr unsigned char kAbiWithSmAbove = 8;  // from CUDA 13 on the flags have it one byte higher
constexpr absl::string_view kCodePrefix = ".text.";
constexpr absl::string_view kInfoPrefix = ".nv.info";
// Formats of .nv.info: each attribute is a format, a kind and a size or value (cuobjdump -elf).
constexpr unsigned char kSizedFormat = 4;
constexpr unsigned char kMaxThreads = 0x05;
constexpr unsigned char kRequiredThreads = 0x10;
constexpr unsigned char kParameterInfo = 0x17;
constexpr int kParameterSizeShift = 18;
constexpr size_t kParametersMax = 4096;

class CubinReader {
 public:
  CubinReader(const std::string& name, absl::string_view bytes) : name_(name), bytes_(bytes) {}

  absl::StatusOr<CubinModule> Read() {
    const auto header = At<Elf64_Ehdr>(0);
    if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_machine != kCudaMachine) {
      return Error("this is no cubin");
    }
    CubinModule module;
    const bool above = header->e_ident[EI_ABIVERSION] >= kAbiWithSmAbove;
    module.sm = static_cast<int>(header->e_flags >> (above ? 8 : 0) & 0xff);
    RETURN_IF_ERROR(ReadSections(*header));
    for (const auto& [section, contents] : sections_) {
      absl::string_view entry = section;
      if (!absl::ConsumePrefix(&entry, kCodePrefix)) continue;
      const auto info = sections_.find(absl::StrCat(kInfoPrefix, ".", entry));
      if (info == sections_.end()) continue;  // a function that kernels call
      EntryFacts& known = module.entries.emplace_back();
      known.name = std::string(entry);
      RETURN_IF_ERROR(ReadInfo(info->second, known));
    }
    return module;
  }

 private:
  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": ", what));
  }

  template <typename T>
  std::optional<T> At(uint64_t offset) const {
    return ReadAt<T>(bytes_, offset);
  }
  template <typename T>
  static std::optional<T> ReadAt(absl::string_view bytes, uint64_t offset) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
    T value;
    memcpy(&value, bytes.data() + offset, sizeof(T));
    return value;
  }

  absl::Status ReadSections(const Elf64_Ehdr& header) {
    const auto section_at = [&](uint64_t i) {
      return At<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr));
    };
    const auto names = section_at(header.e_shstrndx);
    if (!names) return Error("the cubin is cut");
    for (uint64_t i = 0; i < header.e_shnum; ++i) {
      const auto section = section_at(i);
      if (!section) return Error("the cubin is cut");
      if (section->sh_type == SHT_NOBITS) continue;
      const uint64_t name_at = names->sh_offset + section->sh_name;
      if (name_at >= bytes_.size() || section->sh_offset > bytes_.size() ||
          section->sh_size > bytes_.size() - section->sh_offset) {
        return Error("the cubin is cut");
      }
      const absl::string_view tail = bytes_.substr(name_at);
      sections_[std::string(tail.substr(0, tail.find('\0')))] =
          bytes_.substr(section->sh_offset, section->sh_size);
    }
    return absl::OkStatus();
  }

  absl::Status ReadInfo(absl::string_view info, EntryFacts& entry) const {
    std::map<unsigned, int64_t> sizes;  // of parameters, by their order
    while (info.size() >= 4) {
      const auto format = static_cast<unsigned char>(info[0]);
      const auto kind = static_cast<unsigned char>(info[1]);
      const size_t size = format == kSizedFormat ? *ReadAt<uint16_t>(info, 2) : 0;
      if (info.size() - 4 < size) return Error("the cubin is cut");
      const absl::string_view value = info.substr(4, size);
      info.remove_prefix(4 + size);
      if (kind == kParameterInfo && value.size() >= 12 && sizes.size() < kParametersMax) {
        sizes[*ReadAt<uint16_t>(value, 4)] = *ReadAt<uint32_t>(value, 8) >> kParameterSizeShift;
      }
      if ((kind == kMaxThreads || kind == kRequiredThreads) && value.size() >= 12) {
        int64_t threads = 1;
        for (size_t axis = 0; axis < 3; ++axis) {
          threads *= std::clamp<int64_t>(*ReadAt<uint32_t>(value, 4 * axis), 1, 1 << 16);
        }
        (kind == kMaxThreads ? entry.threads_max : entry.threads) = threads;
      }
    }
    entry.parameters.emplace();
    for (const auto& [ordinal, bytes] : sizes) {
      entry.parameters->push_back({.bytes = bytes, .type = ""});
    }
    return absl::OkStatus();
  }

  const std::string name_;
  const absl::string_view bytes_;
  std::map<std::string, absl::string_view> sections_;
};

}  // namespace

absl::StatusOr<CubinModule> ReadCubin(const std::string& name, absl::string_view bytes) {
  return CubinReader(name, bytes).Read();
}

absl::Status CheckCubinTarget(int cubin_sm, const std::string& target) {
  absl::string_view digits = target;
  int sm = 0;
  absl::ConsumePrefix(&digits, "sm_");
  digits = digits.substr(0, digits.find_first_not_of("0123456789"));
  if (absl::SimpleAtoi(digits, &sm) && sm / 10 == cubin_sm / 10 && cubin_sm <= sm) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a cubin for sm_", cubin_sm, " does not run on ", target));
}

}  // namespace tune::cuda
