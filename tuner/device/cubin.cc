// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cubin.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/elf_view.h"
#include "base/status_macros.h"

namespace tune {
namespace {

constexpr uint16_t kCudaMachine = 190;
constexpr unsigned char kAbiWithSmAbove = 8;  // from CUDA 13 on the flags have it one byte higher
constexpr absl::string_view kCut = "the cubin is cut";
constexpr absl::string_view kCodePrefix = ".text.";
constexpr absl::string_view kInfoPrefix = ".nv.info.";
// Formats of .nv.info: each attribute is a format, a kind and a size or value (cuobjdump -elf).
constexpr unsigned char kSizedFormat = 4;
constexpr unsigned char kMaxThreads = 0x05;
constexpr unsigned char kRequiredThreads = 0x10;
constexpr unsigned char kParameterInfo = 0x17;
constexpr int kParameterSizeShift = 18;

// Reads an entry's attributes. They have its parameters in any order, each with its ordinal.
absl::Status ReadInfo(absl::string_view info, EntryFacts& entry) {
  std::map<size_t, int64_t> sizes;  // of parameters, by ordinal
  while (info.size() >= 4) {
    const auto format = static_cast<unsigned char>(info[0]);
    const auto kind = static_cast<unsigned char>(info[1]);
    const size_t size = format == kSizedFormat ? *ReadAt<uint16_t>(info, 2) : 0;
    if (info.size() - 4 < size) return absl::InvalidArgumentError(kCut);
    const absl::string_view value = info.substr(4, size);
    info.remove_prefix(4 + size);
    if (kind == kParameterInfo && value.size() >= 12) {
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
    if (ordinal != entry.parameters->size()) {
      return absl::InvalidArgumentError(absl::StrCat("parameter ", entry.parameters->size(),
                                                     " of '", entry.name, "' is missing"));
    }
    entry.parameters->push_back({.bytes = bytes, .type = ""});
  }
  return absl::OkStatus();
}

absl::StatusOr<CubinModule> Read(absl::string_view bytes) {
  const auto header = ReadAt<Elf64_Ehdr>(bytes, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_machine != kCudaMachine) {
    return absl::InvalidArgumentError("this is no cubin");
  }
  const std::optional<ElfView> view = ElfView::Open(bytes);
  if (!view) return absl::InvalidArgumentError(kCut);
  CubinModule module;
  const bool above = header->e_ident[EI_ABIVERSION] >= kAbiWithSmAbove;
  module.sm = static_cast<int>(header->e_flags >> (above ? 8 : 0) & 0xff);
  std::map<absl::string_view, absl::string_view> infos;  // by entry
  std::set<absl::string_view> functions;
  for (const ElfView::Section& section : view->sections()) {
    absl::string_view function = section.name;
    if (absl::ConsumePrefix(&function, kInfoPrefix)) infos[function] = section.contents;
    if (absl::ConsumePrefix(&function, kCodePrefix)) functions.insert(function);
  }
  for (const absl::string_view function : functions) {
    const auto info = infos.find(function);
    if (info == infos.end()) continue;  // a function that kernels call
    EntryFacts& entry = module.entries.emplace_back();
    entry.name = std::string(function);
    RETURN_IF_ERROR(ReadInfo(info->second, entry));
  }
  return module;
}

}  // namespace

absl::StatusOr<CubinModule> ReadCubin(const std::string& name, absl::string_view bytes) {
  absl::StatusOr<CubinModule> module = Read(bytes);
  if (module.ok()) return module;
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", module.status().message()));
}

}  // namespace tune
