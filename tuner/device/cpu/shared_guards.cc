// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/shared_guards.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/elf_view.h"
#include "base/mutex.h"
#include "tuner/device/cpu/guard_zone.h"

// The loader's argument for the address of a module's variable in the calling thread. The loader
// allocates the module's variables on the thread's first use.
struct TlsIndex {
  unsigned long module;
  unsigned long offset;
};
extern "C" void* __tls_get_addr(TlsIndex* index);

namespace tune::cpu {
namespace {

// A GPU has 48 KiB of static shared memory: nothing that counts within it gets past a zone.
constexpr size_t kStaticZoneBytes = 65536;
// Multiples of this leave arrays where they would lie in a page, so that they share cache sets as
// they do without zones.
constexpr size_t kZoneUnit = 4096;
// The size of all zones of a kernel in each thread. A template may have dozens of arrays.
constexpr size_t kZonesBytesMax = size_t{8} << 20;

constexpr absl::string_view kFront = "tune_cpu_front.";
constexpr absl::string_view kBack = "tune_cpu_back.";

struct Variable {
  size_t line = 0;  // of its label
  absl::string_view name;
  absl::string_view align;  // the directive ahead of it
};

absl::string_view FirstWord(absl::string_view line) {
  line = absl::StripLeadingAsciiWhitespace(line);
  return line.substr(0, line.find_first_of(" \t"));
}

bool IsSection(absl::string_view word) {
  return word == ".section" || word == ".text" || word == ".data" || word == ".bss" ||
         word == ".previous" || word == ".popsection" || word == ".pushsection";
}

std::vector<Variable> FindVariables(const std::vector<absl::string_view>& lines) {
  std::vector<Variable> found;
  bool inside = false;
  absl::string_view align;
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    const absl::string_view word = FirstWord(lines[i]);
    if (IsSection(word)) {
      inside = absl::StrContains(lines[i], ".tbss");
      align = {};
    } else if (inside && (word == ".align" || word == ".p2align" || word == ".balign")) {
      align = lines[i];
    } else if (inside && absl::EndsWith(word, ":") && FirstWord(lines[i + 1]) == ".zero") {
      found.push_back({i, word.substr(0, word.size() - 1), std::exchange(align, {})});
    }
  }
  return found;
}

// The thread-local symbols of a shared object.
std::map<std::string, Elf64_Sym> ThreadLocals(absl::string_view file) {
  std::map<std::string, Elf64_Sym> symbols;
  const std::optional<ElfView> object = ElfView::Open(file);
  if (!object) return symbols;
  for (const ElfView::Symbol& symbol : object->Symbols(SHT_SYMTAB)) {
    if (ELF64_ST_TYPE(symbol.header.st_info) != STT_TLS) continue;
    symbols[std::string(symbol.name)] = symbol.header;
  }
  return symbols;
}

// "_ZZ5scaleE4tile" is "scale::tile".
std::string Readable(const std::string& symbol) {
  int status = 0;
  char* text = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 && text != nullptr ? text : symbol;
  std::free(text);
  return name;
}

}  // namespace

std::string AddSharedGuards(absl::string_view assembly) {
  const std::vector<absl::string_view> lines = absl::StrSplit(assembly, '\n');
  const std::vector<Variable> variables = FindVariables(lines);
  if (variables.empty()) return std::string(assembly);
  const size_t fair = kZonesBytesMax / (2 * variables.size()) / kZoneUnit * kZoneUnit;
  const size_t bytes = std::clamp(fair, kZoneUnit, kStaticZoneBytes);
  std::string text;
  size_t copied = 0;  // lines
  const auto copy_until = [&](size_t end) {
    for (; copied < end; ++copied) {
      absl::StrAppend(&text, lines[copied], copied + 1 < lines.size() ? "\n" : "");
    }
  };
  const auto add_zone = [&](absl::string_view prefix, absl::string_view name) {
    absl::StrAppend(&text, prefix, name, ":\n\t.zero\t", bytes, "\n\t.size\t", prefix, name, ", ",
                    bytes, "\n");
  };
  for (const Variable& variable : variables) {
    copy_until(variable.line);
    add_zone(kFront, variable.name);
    if (!variable.align.empty()) absl::StrAppend(&text, variable.align, "\n");
    copy_until(variable.line + 2);
    add_zone(kBack, variable.name);
  }
  copy_until(lines.size());
  return text;
}

SharedGuards SharedGuards::Find(const std::string& binary, void* library, int64_t dynamic_bytes) {
  SharedGuards guards;
  guards.dynamic_bytes_ = static_cast<size_t>(dynamic_bytes);
  if (dlinfo(library, RTLD_DI_TLS_MODID, &guards.module_) != 0) guards.module_ = 0;
  if (guards.module_ == 0) return guards;
  const std::map<std::string, Elf64_Sym> symbols = ThreadLocals(binary);
  for (const auto& [name, front] : symbols) {
    absl::string_view variable = name;
    if (!absl::ConsumePrefix(&variable, kFront)) continue;
    const auto own = symbols.find(std::string(variable));
    const auto back = symbols.find(absl::StrCat(kBack, variable));
    if (own == symbols.end() || back == symbols.end()) continue;
    const Array array = {.name = Readable(own->first),
                         .front = front.st_value,
                         .begin = own->second.st_value,
                         .end = own->second.st_value + own->second.st_size,
                         .back_end = back->second.st_value + back->second.st_size};
    if (array.front < array.begin && array.begin < array.end && array.end < array.back_end) {
      guards.arrays_.push_back(array);
    }
  }
  return guards;
}

unsigned char* SharedGuards::Block() const {
  TlsIndex index = {module_, 0};
  return static_cast<unsigned char*>(__tls_get_addr(&index));
}

void SharedGuards::Fill(Launcher& launcher) const {
  launcher.RunOnAll([&](unsigned thread) {
    const SharedMemory dynamic = launcher.shared(thread);
    FillGuard(dynamic.data - dynamic.front_bytes, dynamic.front_bytes);
    FillGuard(dynamic.data + dynamic_bytes_, dynamic.bytes_max - dynamic_bytes_);
    if (arrays_.empty()) return;
    unsigned char* block = Block();
    for (const Array& array : arrays_) {
      FillGuard(block + array.front, array.begin - array.front);
      FillGuard(block + array.end, array.back_end - array.end);
    }
  });
}

std::string SharedGuards::Inspect(Launcher& launcher, unsigned thread) const {
  const auto describe = [](unsigned char* front, unsigned char* begin, unsigned char* end,
                           unsigned char* back_end) {
    std::string damage = DescribeGuard(end, static_cast<size_t>(back_end - end), GuardSide::kAfter);
    if (!damage.empty()) return damage;
    return DescribeGuard(front, static_cast<size_t>(begin - front), GuardSide::kBefore);
  };
  const SharedMemory dynamic = launcher.shared(thread);
  std::string damage = describe(dynamic.data - dynamic.front_bytes, dynamic.data,
                                dynamic.data + dynamic_bytes_, dynamic.data + dynamic.bytes_max);
  if (!damage.empty()) {
    return absl::StrCat("wrote outside its ", dynamic_bytes_,
                        " bytes of dynamic shared memory: ", damage);
  }
  if (arrays_.empty()) return "";
  unsigned char* block = Block();
  for (const Array& array : arrays_) {
    damage = describe(block + array.front, block + array.begin, block + array.end,
                      block + array.back_end);
    if (damage.empty()) continue;
    return absl::StrCat("wrote outside shared variable '", array.name, "' of ",
                        array.end - array.begin, " bytes: ", damage);
  }
  return "";
}

std::string SharedGuards::DescribeDamage(Launcher& launcher) const {
  Mutex mutex;
  std::string first;
  launcher.RunOnAll([&](unsigned thread) {
    std::string damage = Inspect(launcher, thread);
    if (damage.empty()) return;
    MutexLock lock(mutex);
    if (first.empty()) first = std::move(damage);
  });
  if (!first.empty()) Fill(launcher);
  return first;
}

}  // namespace tune::cpu
