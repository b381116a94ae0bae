// SPDX-License-Identifier: Apache-2.0
#include "kernels/catalogue.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/shared_headers.h"
#include "server/wire/spec.h"
#include "tuner/kernel/kernel.h"

namespace tune {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What is in the source tree, found without the build's help.
std::set<std::string> FoldersWithSpecs() {
  std::set<std::string> names;
  for (const fs::directory_entry& folder : fs::directory_iterator(KERNELS_FOLDER)) {
    const std::string name = folder.path().filename().string();
    if (fs::exists(folder.path() / (name + ".textproto"))) names.insert(name);
  }
  return names;
}

TEST(CatalogueTest, HasEveryKernelFolderOnce) {
  absl::StatusOr<std::vector<CatalogueEntry>> catalogue = LoadCatalogue();
  ASSERT_TRUE(catalogue.ok()) << catalogue.status();
  std::set<std::string> names;
  for (const CatalogueEntry& entry : *catalogue) names.insert(entry.name);
  EXPECT_THAT(*catalogue, SizeIs(names.size()));
  EXPECT_EQ(names, FoldersWithSpecs());
}

TEST(CatalogueTest, CarriesTheFilesByteForByte) {
  const std::vector<CatalogueEntry> catalogue = LoadCatalogue().value();
  for (const CatalogueEntry& entry : catalogue) {
    SCOPED_TRACE(entry.name);
    const fs::path folder = fs::path(KERNELS_FOLDER) / entry.name;
    std::set<std::string> shared;
    const auto read = [&](const std::string& name) -> absl::StatusOr<std::string> {
      shared.insert(name);
      return ReadFile(fs::path(KERNELS_FOLDER) / "include" / name);
    };
    const auto resolved =
        ResolveSharedHeaders(entry.spec_name, ReadFile(folder / entry.spec_name), read);
    ASSERT_TRUE(resolved.ok()) << resolved.status();
    EXPECT_EQ(entry.spec_text, resolved->text);
    EXPECT_EQ(entry.readme, ReadFile(folder / "README.md"));
    for (const auto& [name, text] : entry.files) {
      const fs::path place = shared.contains(name) ? fs::path(KERNELS_FOLDER) / "include" : folder;
      EXPECT_EQ(text, ReadFile(place / name)) << name;
    }
  }
}

TEST(CatalogueTest, EveryKernelHasSourceAndReadme) {
  const std::vector<CatalogueEntry> catalogue = LoadCatalogue().value();
  for (const CatalogueEntry& entry : catalogue) {
    SCOPED_TRACE(entry.name);
    EXPECT_THAT(entry.files, Not(SizeIs(0)));
    EXPECT_THAT(entry.readme, Not(testing::IsEmpty()))
        << "kernels/" << entry.name << "/README.md says what the kernel does and how it is tuned";
    for (const auto& [name, text] : entry.files) {
      EXPECT_THAT(entry.spec_text, HasSubstr(name))
          << name << " is in the folder, but the spec does not name it";
    }
  }
}

// The default is what a sweep starts from, and what a look-up without a record answers with.
TEST(CatalogueTest, DefaultsAreValidForEveryProblemToCheck) {
  const std::vector<CatalogueEntry> catalogue = LoadCatalogue().value();
  for (const CatalogueEntry& entry : catalogue) {
    const auto kernel = server::ReadKernel(entry.spec_name, entry.spec_text, entry.files).value();
    for (const char* target :
         {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"}) {
      if (!kernel->RunsOn(target)) continue;
      const TargetTraits traits = TargetTraitsFor(target).value();
      for (const CheckProblem& check : kernel->spec().checks) {
        const auto problem = kernel->MakeProblem(check.dims, check.dtype, target);
        ASSERT_TRUE(problem.ok()) << entry.name << ": " << problem.status();
        const auto config = kernel->DefaultConfig(*problem, traits);
        EXPECT_TRUE(config.ok()) << entry.name << " " << ToText(*problem) << " on " << target
                                 << ": " << config.status();
      }
    }
  }
}

// Those of these two depend on many dims, of which the problems to check are few.
TEST(CatalogueTest, DefaultsOfGemmAndDecodeAreValidForProblemsOfAllSizes) {
  const std::vector<CatalogueEntry> catalogue = LoadCatalogue().value();
  std::vector<std::map<std::string, int64_t>> products;
  for (const int64_t m : {1,  16,  17,  32,  33,  48,  49,   64,   65,   80,   81,   96,
                          97, 112, 113, 128, 257, 512, 1000, 1024, 1025, 4096, 16384}) {
    for (const int64_t n : {8, 100, 256, 4096, 8448, 8456, 14336, 65536}) {
      for (const int64_t k : {64, 70, 4096}) {
        for (const int64_t epilogue : {0, 1, 2, 4}) {
          for (const int64_t layout : {0, 1, 2, 3}) {
            products.push_back({{"m", m},
                                {"n", n},
                                {"k", k},
                                {"transpose_a", layout % 2},
                                {"transpose_b", layout / 2},
                                {"epilogue", epilogue}});
          }
        }
      }
    }
  }
  std::vector<std::map<std::string, int64_t>> caches;
  for (const int64_t batch : {1, 2, 3, 7, 16, 40, 300}) {
    for (const int64_t kv_heads : {1, 2, 4, 8, 32}) {
      for (const int64_t rows : {1, 8, 32}) {
        for (const int64_t seq : {1, 200, 256, 700, 2048, 16384, 131072}) {
          for (const int64_t head_dim : {64, 128}) {
            caches.push_back({{"batch", batch},
                              {"kv_heads", kv_heads},
                              {"heads", kv_heads * rows},
                              {"seq", seq},
                              {"head_dim", head_dim},
                              {"page_size", 16}});
          }
        }
      }
    }
  }
  for (const auto& [name, problems] :
       {std::pair("gemm", &products), {"attention_decode", &caches}}) {
    const auto is_it = [&, wanted = name](const CatalogueEntry& entry) {
      return entry.name == wanted;
    };
    const auto entry = std::find_if(catalogue.begin(), catalogue.end(), is_it);
    ASSERT_TRUE(entry != catalogue.end()) << name;
    const auto kernel =
        server::ReadKernel(entry->spec_name, entry->spec_text, entry->files).value();
    for (const char* target : {"sm_80", "sm_90a", "sm_100a", "sm_120a"}) {
      const TargetTraits traits = TargetTraitsFor(target).value();
      for (const auto& dims : *problems) {
        for (const char* dtype : {"bf16", "e4m3"}) {
          // Of 8 bits, gemm alone, and of its layouts this one.
          const bool has_e4m3 =
              dims.contains("m") && !dims.at("transpose_a") && dims.at("transpose_b");
          if (dtype == std::string_view("e4m3") && !has_e4m3) continue;
          const Problem problem = kernel->MakeProblem(dims, dtype, target).value();
          const auto config = kernel->DefaultConfig(problem, traits);
          EXPECT_TRUE(config.ok())
              << name << " " << ToText(problem) << " on " << target << ": " << config.status();
        }
      }
    }
  }
}

// Knowledge by size is a table (by_limit), knowledge by case a let with a comment.
TEST(CatalogueTest, NoDefaultHasMoreThanThreeConditions) {
  const std::vector<CatalogueEntry> catalogue = LoadCatalogue().value();
  for (const CatalogueEntry& entry : catalogue) {
    const auto kernel = server::ReadKernel(entry.spec_name, entry.spec_text, entry.files).value();
    for (const ParamSpec& param : kernel->spec().params) {
      std::vector<std::string> defaults = {param.default_value};
      for (const ParamOnTarget& on : param.on) defaults.push_back(on.default_value);
      for (const std::string& text : defaults) {
        const std::vector<std::string> parts = absl::StrSplit(text, " if ");
        EXPECT_LE(parts.size(), 4u) << entry.name << ": " << param.name << ": " << text;
      }
    }
  }
}

TEST(CatalogueTest, NoFileIsACopyOfAnother) {
  std::map<std::string, fs::path> first_with;
  for (const fs::directory_entry& folder : fs::directory_iterator(KERNELS_FOLDER)) {
    if (!folder.is_directory() || folder.path().filename() == "records") continue;
    for (const fs::directory_entry& file : fs::directory_iterator(folder.path())) {
      const auto [first, is_new] = first_with.try_emplace(ReadFile(file.path()), file.path());
      EXPECT_TRUE(is_new) << file.path() << " is a copy of " << first->second
                          << ": move one to kernels/include/, delete the other and name it in both "
                             "specs as <kernels/NAME>";
    }
  }
}

}  // namespace
}  // namespace tune
