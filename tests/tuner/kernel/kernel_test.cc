// SPDX-License-Identifier: Apache-2.0
#include "tuner/kernel/kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_replace.h"
#include "server/wire/spec.h"
#include "tests/tuner/kernel/problems.h"
#include "tests/tuner/test_kernel.h"

namespace tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

std::shared_ptr<const Kernel> TestKernel() {
  auto kernel = server::ReadKernel("scale.textproto", TestSpecText(), TestFiles());
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return *kernel;
}

TEST(TargetTraitsFor, KnowsTargets) {
  EXPECT_EQ(Traits("sm_70").max_shared_bytes, 98304);
  EXPECT_EQ(Traits("sm_75").max_shared_bytes, 65536);
  EXPECT_EQ(Traits("sm_80").max_shared_bytes, 166912);
  EXPECT_EQ(Traits("sm_86").max_shared_bytes, 101376);
  EXPECT_EQ(Traits("sm_90a").max_shared_bytes, 232448);
  EXPECT_EQ(Traits("sm_90a").sm, 90);
  EXPECT_EQ(Traits("sm_100f").max_shared_bytes, 232448);
  EXPECT_EQ(Traits("sm_120").max_shared_bytes, 101376);
  EXPECT_EQ(Traits("sm_999").max_shared_bytes, 49152);
  EXPECT_EQ(Traits("cpu").sm, 0);
  EXPECT_EQ(Traits("cpu").max_shared_bytes, 1 << 20);
  EXPECT_GE(Traits("cpu").sm_count, 1);
  for (const char* wrong : {"", "gpu", "sm_", "sm_x", "sm_90b", "sm_90aa", "SM_90", "sm_-9"}) {
    EXPECT_EQ(TargetTraitsFor(wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
}

TEST(MatchesTarget, TakesStars) {
  for (const char* pattern : {"sm_90a", "sm_*", "*", "*a", "s*9*a", "sm_90a*", "**"}) {
    EXPECT_TRUE(MatchesTarget(pattern, "sm_90a")) << pattern;
  }
  for (const char* pattern : {"", "sm_90", "sm_*0", "cpu", "*b*", "sm_90a?", "m_90a"}) {
    EXPECT_FALSE(MatchesTarget(pattern, "sm_90a")) << pattern;
  }
}

TEST(Kernel, ADimMayHaveTheValueOfAnother) {
  const std::string text = absl::StrReplaceAll(
      TestSpecText(), {{"default_value: 4096 min: 1", "default_dim: \"rows\" min: 65"}});
  const auto kernel = server::ReadKernel("scale.textproto", text, TestFiles());
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const auto problem = [&](const std::map<std::string, int64_t>& dims, const char* target) {
    return ToText(MakeProblem(**kernel, dims, "", target));
  };
  EXPECT_EQ(problem({}, "sm_90a"), "rows=8192 cols=8192 mode=0 bf16");
  EXPECT_EQ(problem({{"rows", 128}}, "cpu"), "rows=128 cols=128 mode=0 bf16");
  EXPECT_EQ(problem({{"rows", 128}, {"cols", 256}}, "cpu"), "rows=128 cols=256 mode=0 bf16");
  EXPECT_EQ((*kernel)->MakeProblem({}, "", "cpu").status().message(),
            "dim 'cols' goes from 65 to 262144, not 64");
}

TEST(Kernel, MakesProblems) {
  const auto kernel = TestKernel();
  EXPECT_EQ(ToText(MakeProblem(*kernel, {}, "", "sm_90a")), "rows=8192 cols=4096 mode=0 bf16");
  EXPECT_EQ(ToText(MakeProblem(*kernel, {{"cols", 8}}, "f32", "cpu")), "rows=64 cols=8 mode=0 f32");
  auto error = [&](const std::map<std::string, int64_t>& dims, const char* dtype,
                   const char* target) {
    return std::string(kernel->MakeProblem(dims, dtype, target).status().message());
  };
  EXPECT_EQ(error({{"row", 1}}, "", "cpu"),
            "kernel 'scale' has no dim 'row'; its dims are rows, cols, mode");
  EXPECT_EQ(error({{"cols", 0}}, "", "cpu"), "dim 'cols' goes from 1 to 262144, not 0");
  EXPECT_EQ(error({{"rows", int64_t{1} << 41}}, "", "cpu"),
            "dim 'rows' goes from 1 to 1099511627776, not 2199023255552");
  EXPECT_EQ(error({{"mode", 2}}, "", "cpu"), "dim 'mode' is one of 0, 1, not 2");
  EXPECT_EQ(error({}, "f64", "cpu"), "kernel 'scale' is not written for 'f64'; it takes bf16, f32");
  EXPECT_EQ(error({}, "", "tpu"), "kernel 'scale' does not run on tpu; it runs on cpu, sm_*");
}

TEST(Kernel, SpaceHoldsWhatTheSpecAndTheTargetAllow) {
  const auto kernel = TestKernel();
  const Problem problem = MakeProblem(*kernel, {}, "f32", "sm_90a");
  const Space space = kernel->MakeSpace(problem, Traits("sm_90a")).value();
  // f32 loads are at most 4 wide; shared memory is THREADS * VEC * 64 bytes at most 232448; 64
  // chunks of 32 * 1 elements are fewer than 4096.
  uint64_t count = 0;
  for (int64_t threads = 32; threads <= 1024; threads *= 2) {
    for (int64_t vec : {1, 2, 4}) {
      const bool regs = 4096 / (threads * vec) <= 64;
      const bool smem = threads * vec * 4 * 16 <= 232448;
      count += 2 * ((regs ? 1 : 0) + (smem ? 1 : 0));
    }
  }
  EXPECT_EQ(space.size(), count);
  EXPECT_EQ(ToText(space.At(0)), "THREADS=32 VEC=1 PATH=smem CLUSTER=1");
  for (uint64_t i = 0; i < space.size(); ++i) {
    EXPECT_TRUE(kernel->PlanProgram(problem, Traits("sm_90a"), space.At(i)).ok());
  }
  // No clusters below sm_90; other values on the CPU.
  EXPECT_EQ(kernel->MakeSpace(problem, Traits("sm_86"))->params()[3].values.size(), 1);
  EXPECT_EQ(
      kernel->MakeSpace(MakeProblem(*kernel, {}, "", "cpu"), Traits("cpu"))->params()[0].values,
      (std::vector<Value>{int64_t{1}, int64_t{4}}));
}

TEST(Kernel, EmptySpaceNamesTheConstraint) {
  const auto kernel = TestKernel();
  const Problem problem = MakeProblem(*kernel, {{"rows", int64_t{1} << 31}}, "", "sm_90a");
  EXPECT_EQ(std::string(kernel->MakeSpace(problem, Traits("sm_90a")).status().message()),
            "kernel 'scale', rows=2147483648 cols=4096 mode=0 bf16, sm_90a: no config is valid: "
            "constraint 'launch.grid[0] is a whole number from 1 to 2147483647' rejects every one");
}

TEST(Kernel, ChecksAConfigWithoutTheSpace) {
  const auto kernel = server::ReadKernel("scale.textproto", TestSpecText(), TestFiles()).value();
  const Problem problem = kernel->MakeProblem({}, "bf16", "sm_90a").value();
  const TargetTraits traits = Traits("sm_90a");
  const Space space = kernel->MakeSpace(problem, traits).value();
  // All that the space has, and nothing else.
  uint64_t valid = 0;
  for (int64_t threads : {32, 64, 128, 256, 512, 1024}) {
    for (int64_t vec : {1, 2, 4, 8}) {
      for (const char* path : {"regs", "smem"}) {
        for (int64_t cluster : {1, 2}) {
          const Config config{
              {{"THREADS", threads}, {"VEC", vec}, {"PATH", path}, {"CLUSTER", cluster}}};
          const bool is_valid = kernel->CheckConfig(problem, traits, config).ok();
          EXPECT_EQ(is_valid, space.IndexOf(config).has_value()) << ToText(config);
          valid += is_valid ? 1 : 0;
        }
      }
    }
  }
  EXPECT_EQ(valid, space.size());
  const Config good = space.At(0);
  Config wrong = good;
  wrong.entries[0].second = int64_t{48};
  EXPECT_THAT(std::string(kernel->CheckConfig(problem, traits, wrong).message()),
              HasSubstr("48 is not one of the values of param 'THREADS'"));
  wrong = good;
  wrong.entries.pop_back();
  EXPECT_TRUE(absl::IsInvalidArgument(kernel->CheckConfig(problem, traits, wrong)));
  wrong = good;
  std::swap(wrong.entries[0], wrong.entries[1]);
  EXPECT_TRUE(absl::IsInvalidArgument(kernel->CheckConfig(problem, traits, wrong)));
}

TEST(Kernel, DefaultConfigMustBeValid) {
  const auto kernel = TestKernel();
  auto text = [&](const std::map<std::string, int64_t>& dims, const char* target) {
    const Problem problem = MakeProblem(*kernel, dims, "", target);
    const absl::StatusOr<Config> config = kernel->DefaultConfig(problem, Traits(target));
    return config.ok() ? ToText(*config) : std::string(config.status().message());
  };
  EXPECT_EQ(text({}, "sm_90a"), "THREADS=256 VEC=4 PATH=regs CLUSTER=1");
  EXPECT_EQ(text({{"cols", 256}}, "cpu"), "THREADS=1 VEC=4 PATH=regs CLUSTER=1");
  EXPECT_EQ(text({{"cols", 4097}}, "sm_90a"),
            "kernel 'scale', rows=8192 cols=4097 mode=0 bf16, sm_90a: the default config "
            "(THREADS=256 VEC=4 PATH=regs CLUSTER=1) is not valid: constraint 'cols % VEC == 0 and "
            "(PATH == 'smem' or chunks <= 64)' does not hold");
}

TEST(Kernel, PlansAProblem) {
  const auto kernel = TestKernel();
  const Problem problem = MakeProblem(*kernel, {{"mode", 1}}, "", "sm_90a");
  const ProblemPlan plan = kernel->PlanProblem(problem, Traits("sm_90a")).value();
  ASSERT_EQ(plan.buffers.size(), 3);
  EXPECT_EQ(plan.buffers[0].name, "x");
  EXPECT_EQ(plan.buffers[0].count, 8192 * 4096);
  EXPECT_EQ(plan.buffers[0].dtype, DType::kBF16);
  EXPECT_EQ(plan.buffers[0].role, Role::kInput);
  EXPECT_EQ(plan.buffers[0].fill.kind, Fill::Kind::kNormal);
  EXPECT_EQ(plan.buffers[0].fill.high, 1);
  EXPECT_EQ(plan.buffers[1].dtype, DType::kBF16);
  EXPECT_EQ(plan.buffers[2].fill.kind, Fill::Kind::kConstant);
  EXPECT_EQ(plan.buffers[2].fill.low, 3);
  // The reference: outputs as doubles, no tensor maps, the default config.
  ASSERT_EQ(plan.reference.steps.at(0).args.size(), 5);
  EXPECT_EQ(Arg<BufferPlan>(plan.reference.steps.at(0).args, 0).dtype, DType::kBF16);
  EXPECT_EQ(Arg<BufferPlan>(plan.reference.steps.at(0).args, 1).dtype, DType::kF64);
  EXPECT_EQ(Arg<BufferPlan>(plan.reference.steps.at(0).args, 2).dtype, DType::kI32);
  EXPECT_EQ(plan.reference.steps.at(0).launch.entry, "scale_reference");
  EXPECT_EQ(plan.reference.steps.at(0).launch.grid[0], 132 * 8);
  EXPECT_EQ(plan.reference.steps.at(0).launch.block[0], 128);
  EXPECT_THAT(plan.reference.compile.defines,
              ElementsAre(Pair("THREADS", "256"), Pair("VEC", "4"), Pair("PATH", "regs"),
                          Pair("CLUSTER", "1"), Pair("CHUNKS", "4"), Pair("VEC_T", "char"),
                          Pair("DTYPE", "__nv_bfloat16"), Pair("DTYPE_BF16", "1"),
                          Pair("TUNE_REFERENCE", "1")));
  EXPECT_EQ(plan.work.flops, 8192.0 * 4096);
  EXPECT_EQ(plan.work.bytes, 4.0 * 8192 * 4096);
  EXPECT_EQ(plan.work.peak, "tensor_bf16");
  ASSERT_EQ(plan.tolerances.size(), 2);
  EXPECT_EQ(plan.tolerances[0].first, DType::kBF16);
  EXPECT_EQ(plan.tolerances[0].second.rtol, 0.01);
  EXPECT_EQ(plan.tolerances[1].first, DType::kI32);
  EXPECT_EQ(plan.tolerances[1].second.atol, 0);
  const Problem on_cpu = MakeProblem(*kernel, {{"mode", 1}}, "", "cpu");
  EXPECT_EQ(kernel->PlanProblem(on_cpu, Traits("cpu"))->work.peak, "f32");
}

TEST(Kernel, ResultsMayBeOfAnotherTypeThanInputs) {
  const std::string text = absl::StrReplaceAll(
      TestSpecText(), {{"[\"bf16\", \"f32\"]", "[\"bf16\", \"e4m3\"]"},
                       {"\"y\" buffer { dtype: \"dtype\"",
                        "\"y\" buffer { dtype: \"'bf16' if dtype == 'e4m3' else dtype\""},
                       {"'tensor_' + dtype if mode", "'tensor_f8' if mode"},
                       {"tolerances {",
                        "tolerances { dtype: \"bf16\" atol: 0.5 when: \"dtype == "
                        "'e4m3' and mode == 1\" }\ntolerances {"}});
  const auto kernel = server::ReadKernel("s", text, TestFiles()).value();
  const auto plan = [&](const std::string& dtype, int64_t mode) {
    const Problem problem = MakeProblem(*kernel, {{"mode", mode}}, dtype, "sm_90a");
    return kernel->PlanProblem(problem, Traits("sm_90a")).value();
  };
  EXPECT_EQ(plan("bf16", 1).buffers[1].dtype, DType::kBF16);
  EXPECT_EQ(plan("bf16", 1).tolerances[0].second.atol, 0.001);
  const ProblemPlan narrow = plan("e4m3", 1);
  EXPECT_EQ(narrow.buffers[0].dtype, DType::kE4M3);
  EXPECT_EQ(narrow.buffers[0].fill.kind, Fill::Kind::kNormal);
  EXPECT_EQ(narrow.buffers[1].dtype, DType::kBF16);
  EXPECT_EQ(narrow.tolerances[0].first, DType::kBF16);
  EXPECT_EQ(narrow.tolerances[0].second.atol, 0.5);
  EXPECT_EQ(plan("e4m3", 0).tolerances[0].second.atol, 0.001);
  EXPECT_THAT(narrow.reference.compile.defines,
              testing::IsSupersetOf({Pair("DTYPE", "__nv_fp8_e4m3"), Pair("DTYPE_E4M3", "1")}));
  const auto wrong =
      server::ReadKernel("s", absl::StrReplaceAll(text, {{"'bf16' if", "'half' if"}}), TestFiles())
          .value();
  const Problem problem = MakeProblem(*wrong, {}, "e4m3", "sm_90a");
  EXPECT_THAT(std::string(wrong->PlanProblem(problem, Traits("sm_90a")).status().message()),
              HasSubstr("y.dtype: unknown data type 'half'"));
}

TEST(Kernel, PlansAVariant) {
  const auto kernel = TestKernel();
  const Problem problem = MakeProblem(*kernel, {}, "", "sm_90a");
  Config config;
  config.entries = {{"THREADS", int64_t{128}},
                    {"VEC", int64_t{8}},
                    {"PATH", std::string("smem")},
                    {"CLUSTER", int64_t{2}}};
  const ProgramPlan plan = kernel->PlanProgram(problem, Traits("sm_90a"), config).value();
  EXPECT_EQ(plan.compile.target, "sm_90a");
  EXPECT_EQ(plan.compile.source_name, "scale.cu");
  EXPECT_EQ(plan.compile.source_text, TestFiles()["scale.cu"]);
  ASSERT_EQ(plan.compile.headers.size(), 1);
  EXPECT_EQ(plan.compile.headers[0].name, "vec.h");
  EXPECT_THAT(plan.compile.options, ElementsAre("--use_fast_math"));
  EXPECT_EQ(plan.compile.entries, std::vector<std::string>{"scale"});
  EXPECT_THAT(plan.compile.defines,
              ElementsAre(Pair("THREADS", "128"), Pair("VEC", "8"), Pair("PATH", "smem"),
                          Pair("CLUSTER", "2"), Pair("CHUNKS", "4"), Pair("VEC_T", "uint4"),
                          Pair("DTYPE", "__nv_bfloat16"), Pair("DTYPE_BF16", "1")));
  EXPECT_THAT(plan.steps.at(0).launch.grid, ElementsAre(16384, 1, 1));
  EXPECT_THAT(plan.steps.at(0).launch.block, ElementsAre(128, 1, 1));
  EXPECT_THAT(plan.steps.at(0).launch.cluster, ElementsAre(2, 1, 1));
  EXPECT_EQ(plan.steps.at(0).launch.shared_bytes, 128 * 16 * 16);
  ASSERT_EQ(plan.steps.at(0).args.size(), 6);
  EXPECT_EQ(Arg<ScalarPlan>(plan.steps.at(0).args, 3).value, Value(1.0 / 4096));
  EXPECT_EQ(Arg<ScalarPlan>(plan.steps.at(0).args, 4).value, Value(int64_t{4096}));
  const TensorMapPlan& map = Arg<TensorMapPlan>(plan.steps.at(0).args, 5);
  EXPECT_EQ(map.buffer.name, "x");
  EXPECT_THAT(map.dims, ElementsAre(4096, 8192));
  EXPECT_THAT(map.strides_bytes, ElementsAre(8192));
  EXPECT_THAT(map.box, ElementsAre(128, 1));
  EXPECT_EQ(map.swizzle_bytes, 128);
  config.entries[3].second = int64_t{1};
  EXPECT_EQ(kernel->PlanProgram(problem, Traits("sm_80"), config)->steps.at(0).args.size(), 5);
  const Problem on_cpu = MakeProblem(*kernel, {{"cols", 64}}, "", "cpu");
  const Config cpu_config = kernel->DefaultConfig(on_cpu, Traits("cpu")).value();
  EXPECT_THAT(kernel->PlanProgram(on_cpu, Traits("cpu"), cpu_config)->compile.options, IsEmpty());
  // Only what the spec lists reaches a compiler.
  config.entries[2].second = std::string("regs -o/etc/passwd");
  EXPECT_EQ(std::string(kernel->PlanProgram(problem, Traits("sm_80"), config).status().message()),
            "kernel 'scale': PATH: the config has PATH=regs -o/etc/passwd");
}

TEST(Kernel, HashDependsOnTheMeaningNotTheSpelling) {
  const std::string hash = TestKernel()->hash();
  EXPECT_EQ(hash.size(), 64);
  auto hash_of = [](const std::string& text, const std::map<std::string, std::string>& files) {
    return server::ReadKernel("other.textproto", text, files).value()->hash();
  };
  const std::string text = TestSpecText();
  std::map<std::string, std::string> files = TestFiles();
  EXPECT_EQ(hash_of("# a comment\n" + text, files), hash);
  files["unused.h"] = "int x;";
  EXPECT_EQ(hash_of(text, files), hash);
  EXPECT_EQ(server::ReadKernel("s", text, files).value()->files().size(), 2);
  std::set<std::string> hashes = {hash};
  EXPECT_TRUE(
      hashes.insert(hash_of(absl::StrReplaceAll(text, {{"min: 1", "min: 2"}}), files)).second);
  files["vec.h"] += " ";
  EXPECT_TRUE(hashes.insert(hash_of(text, files)).second);
}

struct WrongSpec {
  const char* what;  // in the test spec
  const char* instead;
  const char* message;
};

constexpr WrongSpec kWrongSpecs[] = {
    {"name: \"scale\"", "name: \"Scale\"",
     "scale.textproto:1:1: name: 'Scale' is no kernel name: a lower case letter, then lower case "
     "letters, digits, '_' and '-', at most 64"},
    {"source: \"scale.cu\"", "source: \"../scale.cu\"",
     "scale.textproto:3:1: source: '../scale.cu' is no file name: letters, digits, '_', '-', '+' "
     "and '.', no folder"},
    {"headers: \"vec.h\"", "headers: \"mat.h\"",
     "scale.textproto:4:1: headers[0]: file 'mat.h' was not given"},
    {"entry: \"scale\"", "entry: \"scale<int\"",
     "scale.textproto:5:1: entry: 'scale<int' is neither a kernel's name nor an instance of a "
     "template such as 'softmax<THREADS, float>'"},
    {"entry: \"scale\"", "entry: \"scale_{WAY}\"",
     "scale.textproto:5:1: entry: unknown name 'WAY' at column 1 of 'WAY'; in scope: "
     "CLUSTER, PATH, THREADS, VEC, chunks, cols, dtype, dtype_bytes, elements, mode, rows, sm, "
     "target, vec_bytes"},
    {"entry: \"scale\"", "entry: \"scale<{THREADS>\"",
     "scale.textproto:5:1: entry: 'scale<{THREADS>' has a '{' without a '}'"},
    {"entry: \"scale\"", "entry: \"scale<\\\"a\\\">\"",
     "scale.textproto:5:1: entry: 'scale<\"a\">' is neither a kernel's name nor an instance of a "
     "template such as 'softmax<THREADS, float>'"},
    {"name: \"cols\"", "name: \"rows\"",
     "scale.textproto:7:8: dims[1].name: the name 'rows' is taken twice"},
    {"name: \"cols\"", "name: \"min\"",
     "scale.textproto:7:8: dims[1].name: 'min' already means something in expressions"},
    {"name: \"cols\"", "name: \"budget\"",
     "scale.textproto:7:8: dims[1].name: 'budget' is a flag of tunectl, where dims are flags too; "
     "give the dim another name than address, all, alpha, background, base, baseline, best, "
     "budget, "
     "config, count, csv, default, delta0, detach, device, devices, dtype, folder, fresh, head, "
     "help, json, "
     "junit, kernel, kernels, markdown, max, prior, replay, retune, rev, rounds, samples, seconds, "
     "seed, set, strategy, strict, study, svg, sweep, target, tolerance, top, trial, "
     "verbose, version, warm"},
    {"name: \"cols\"", "name: \"sm_count\"",
     "scale.textproto:7:8: dims[1].name: 'sm_count' already means something in expressions"},
    {"default_value: 64 }", "default_value: 0 }",
     "scale.textproto:6:67: dims[0].on[0].default_value: 0 is not within 1 and 1099511627776"},
    {"cols\" default_value: 4096", "cols\" default_dim: \"mode\"",
     "scale.textproto:7:21: dims[1].default_dim: no dim before 'cols' is called 'mode'"},
    {"default_value: 4096", "default_value: 4096 default_dim: \"rows\"",
     "scale.textproto:7:41: dims[1].default_dim: a dim that takes it has no default_value and no "
     "on"},
    {"values: [0, 1]", "values: [1, 2]",
     "scale.textproto:8:21: dims[2].default_value: 0 is not one of the values"},
    {"[\"bf16\", \"f32\"]", "[\"bf16\", \"fp32\"]",
     "scale.textproto:9:1: dtypes[1]: unknown data type 'fp32'; known: f64, f32, f16, bf16, i8, "
     "u8, i32, u32, i64, e4m3, i16, u16, u64, bool"},
    {"\"pow2(32, 1024)\"", "\"pow2(32, 1024\"",
     "scale.textproto:12:3: params[0].values: unexpected end at column 14 of 'pow2(32, 1024'"},
    {"\"[1, 4]\"", "\"[1, VEC]\"",
     "scale.textproto:14:22: params[0].on[0].values: unknown name 'VEC' at column 5 of '[1, VEC]'; "
     "in scope: cols, dtype, dtype_bytes, elements, mode, rows, sm, target"},
    {"name: \"VEC\"", "name: \"DTYPE\"",
     "scale.textproto:16:10: params[1].name: macro 'DTYPE' is one of ours: DTYPE, DTYPE_*, TUNE_*"},
    {"name: \"VEC\"", "name: \"__VEC\"",
     "scale.textproto:16:10: params[1].name: '__VEC' is no name: a letter, then letters, digits "
     "and "
     "'_', at most 64, not starting with '__'"},
    {"\"VEC * dtype_bytes\"", "\"VEC * chunks\"",
     "scale.textproto:19:26: lets[0].value: unknown name 'chunks' at column 7 of 'VEC * chunks'; "
     "in "
     "scope: CLUSTER, PATH, THREADS, VEC, cols, dtype, dtype_bytes, mode, rows, sm, target; let "
     "'chunks' needs a param, comes later or is wrong"},
    {"\"vec_bytes <= 16\"", "\"vec_bytes <= sm_count\"",
     "scale.textproto:22:15: constraints[0].expression: unknown name 'sm_count' at column 14 of "
     "'vec_bytes <= sm_count'; in scope: CLUSTER, PATH, THREADS, VEC, chunks, cols, dtype, "
     "dtype_bytes, elements, mode, rows, sm, target, vec_bytes"},
    {"\"vec_bytes <= 16\"", "\"\"",
     "scale.textproto:22:15: constraints[0].expression: an expression is needed"},
    {"name: \"CHUNKS\"", "name: \"THREADS\"",
     "scale.textproto:24:11: defines[0].name: macro 'THREADS' is defined twice"},
    {"shape: [\"elements\"]", "shape: [\"chunks\"]",
     "scale.textproto:27:42: args[1].buffer.shape[0]: unknown name 'chunks' at column 1 of "
     "'chunks'; in scope: cols, dtype, dtype_bytes, elements, mode, rows, sm, target; let "
     "'chunks' needs a param, comes later or is wrong"},
    {"role: ROLE_INPUT", "",
     "scale.textproto:26:18: args[0].buffer.role: name one: ROLE_INPUT, ROLE_OUTPUT, ROLE_INOUT or "
     "ROLE_SCRATCH"},
    {"name: \"count\"", "name: \"x\"",
     "scale.textproto:28:8: args[2].name: two args are called 'x'"},
    {"scalar { dtype: \"f32\"", "scalar { dtype: \"e4m3\"",
     "scale.textproto:30:27: args[3].scalar.dtype: unknown scalar type 'e4m3'; known: bool, i8, "
     "i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64"},
    {"buffer: \"x\"", "buffer: \"z\"",
     "scale.textproto:33:3: args[5].tensor_map.buffer: no buffer arg is called 'z'"},
    {"strides: \"cols * dtype_bytes\"", "strides: [\"1\", \"2\"]",
     "scale.textproto:33:38: args[5].tensor_map.strides: one fewer than dims: 1, not 2"},
    {"swizzle_bytes: 128", "swizzle_bytes: 48",
     "scale.textproto:34:3: args[5].tensor_map.swizzle_bytes: 48 is not 0, 32, 64 or 128"},
    {"grid: \"rows * CLUSTER\"", "grid: \"row * CLUSTER\"",
     "scale.textproto:37:3: launch.grid[0]: unknown name 'row' at column 1 of 'row * CLUSTER'; in "
     "scope: CLUSTER, PATH, THREADS, VEC, chunks, cols, dtype, dtype_bytes, elements, mode, rows, "
     "sm, sm_count, target, vec_bytes"},
    {"block: \"THREADS\"", "", "scale.textproto:36:1: launch.block: 1 to 3 expressions, not 0"},
    {"flops: \"elements\"", "flops: \"chunks\"",
     "scale.textproto:42:8: work.flops: unknown name 'chunks' at column 1 of 'chunks'; in scope: "
     "cols, dtype, dtype_bytes, elements, mode, rows, sm, target; let "
     "'chunks' needs a param, comes later or is wrong"},
    {"entry: \"scale_reference\"", "",
     "scale.textproto:44:1: reference.entry: '' is neither a kernel's name nor an instance of a "
     "template such as 'softmax<THREADS, float>'"},
    {"tolerances { dtype: \"bf16\"", "tolerances { dtype: \"dtype\"",
     "scale.textproto:48:14: tolerances[0].dtype: unknown data type 'dtype'; known: f64, f32, f16, "
     "bf16, i8, u8, i32, u32, i64, e4m3, i16, u16, u64, bool"},
    {"rtol: 0.01", "rtol: -1", "scale.textproto:48:28: tolerances[0].rtol: not within 0 and 1"},
    {"rtol: 0.01", "when: \"VEC == 1\" rtol: 0.01",
     "scale.textproto:48:28: tolerances[0].when: unknown name 'VEC' at column 1 of 'VEC == 1'; in "
     "scope: cols, dtype, dtype_bytes, elements, mode, rows, sm, target"},
    {"\"y\" buffer { dtype: \"dtype\"", "\"y\" buffer { dtype: \"'f32' if x else dtype\"",
     "scale.textproto:27:27: args[1].buffer.dtype: unknown name 'x' at column 10 of ''f32' if x "
     "else dtype'; in scope: cols, dtype, dtype_bytes, elements, mode, rows, sm, target"},
    {"\"sm_*\"]", "\"sm 90\"]",
     "scale.textproto:49:1: targets[1]: 'sm 90' is no target pattern such as 'cpu', 'sm_*', "
     "'sm_90a'"},
};

TEST(Kernel, NamesLineColumnAndFieldOfWhatIsWrong) {
  for (const WrongSpec& wrong : kWrongSpecs) {
    std::string text = TestSpecText();
    const size_t at = text.find(wrong.what);
    ASSERT_NE(at, std::string::npos) << wrong.what;
    text.replace(at, std::string(wrong.what).size(), wrong.instead);
    const absl::Status status = server::ReadKernel("scale.textproto", text, TestFiles()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong.what;
    EXPECT_EQ(std::string(status.message()), wrong.message);
  }
}

TEST(Kernel, LeavesAssertionsOutOnEveryDeviceOrOnNone) {
  const std::string text = absl::StrReplaceAll(TestSpecText(), {{"--use_fast_math", "-DNDEBUG"}});
  const auto kernel = server::ReadKernel("s", text, TestFiles()).value();
  for (const char* target : {"sm_90a", "cpu"}) {
    const Problem problem = MakeProblem(*kernel, {{"cols", 64}}, "", target);
    const Config config = kernel->DefaultConfig(problem, Traits(target)).value();
    EXPECT_THAT(kernel->PlanProgram(problem, Traits(target), config)->compile.options,
                ElementsAre("-DNDEBUG"))
        << target;
  }
}

TEST(Kernel, RejectsOptionsThatAreNotAllowed) {
  for (const char* option : {"--pre-include=/etc/passwd", "-DX=1", "-I/", "--ptxas-options=-v"}) {
    const std::string text = absl::StrReplaceAll(TestSpecText(), {{"--use_fast_math", option}});
    EXPECT_THAT(std::string(server::ReadKernel("s", text, TestFiles()).status().message()),
                HasSubstr(absl::StrCat("nvrtc_options[0]: option '", option,
                                       "' is not allowed; allowed: "
                                       "--use_fast_math, --ftz=true, ")));
  }
}

TEST(Kernel, RejectsWhatIsTooLargeOrNoText) {
  auto message = [](const std::string& text, std::map<std::string, std::string> files) {
    return std::string(server::ReadKernel("s", text, files).status().message());
  };
  EXPECT_EQ(message("", {}),
            "s:1:1: name: '' is no kernel name: a lower case letter, then lower "
            "case letters, digits, '_' and '-', at most 64");
  std::map<std::string, std::string> files = TestFiles();
  files["scale.cu"] = std::string(4 << 20, ' ');
  EXPECT_THAT(message(TestSpecText(), files), HasSubstr("the most is 4194304"));
  files["scale.cu"] = std::string("a\0b", 3);
  EXPECT_EQ(message(TestSpecText(), files),
            "s:3:1: source: file 'scale.cu' is not text: "
            "line 1 has a NUL byte");
  std::string many;
  for (int i = 0; i < 33; ++i) {
    absl::StrAppend(&many, "params { name: \"P", i, "\" values: \"[1]\" default_value: \"1\" }\n");
  }
  EXPECT_EQ(message(many, {}), "s:33:1: params[32]: one too many; the most is 32");
}

// Errors that only show once there is a problem.
TEST(Kernel, ChecksValuesForTheProblem) {
  const WrongSpec cases[] = {
      {"\"[1, 2, 4, 8]\"", "\"[1, 2, 1.0]\"", "kernel 'scale': VEC: the value 1.0 is there twice"},
      {"\"[1, 2, 4, 8]\"", "\"[]\"", "kernel 'scale': VEC: '[]' gives 0 values; 1 to 4096 will do"},
      {"\"256\"", "\"200\"", "kernel 'scale': THREADS: the default, 200, is not one of the values"},
      {"\"['regs', 'smem']\"", "\"['regs', 'a b']\"",
       "kernel 'scale': PATH: 'a b' cannot be a macro: letters, digits and '_', at most 64"},
      {"\"pow2(32, 1024)\"", "\"range(32, rows)\"",
       "kernel 'scale': THREADS: a list has more than 4096 items at column 1 of 'range(32, rows)'"},
      {"\"cols % VEC == 0 and", "\"cols % (VEC - 1) == 0 and",
       "kernel 'scale', rows=8192 cols=4096 mode=0 bf16, sm_90a: constraint 'cols % (VEC - 1) == 0 "
       "and (PATH == 'smem' or chunks <= 64)' cannot be evaluated for VEC=1: division by zero at "
       "column 6 of 'cols % (VEC - 1) == 0 and (PATH == 'smem' or chunks <= 64)'"},
  };
  for (const WrongSpec& wrong : cases) {
    const std::string text = absl::StrReplaceAll(TestSpecText(), {{wrong.what, wrong.instead}});
    const auto kernel = server::ReadKernel("s", text, TestFiles());
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    const Problem problem = MakeProblem(**kernel, {}, "", "sm_90a");
    EXPECT_EQ(std::string((*kernel)->MakeSpace(problem, Traits("sm_90a")).status().message()),
              wrong.message);
  }
}

TEST(Kernel, ChecksPlansForTheProblem) {
  const WrongSpec cases[] = {
      {"shape: \"rows\"", "shape: \"rows - 8192\"",
       "kernel 'scale': count.shape[0]: 0 is below one"},
      {"shape: \"rows\"", "shape: [\"2 ** 30\", \"2 ** 11\"]",
       "kernel 'scale': count: the buffer has more than 2^40 elements"},
      {"{ dtype: \"i32\" value: \"cols\" }", "{ dtype: \"i32\" value: \"2 ** 31\" }",
       "kernel 'scale': n: 2147483648 does not fit i32"},
      {"\"min(rows, sm_count * 8)\"", "\"rows / 3\"",
       "kernel 'scale': reference.launch.grid[0]: a whole number is needed, not 2730.6666666666665 "
       "at column 6 of 'rows / 3'"},
      {"'tensor_' + dtype if mode", "'tensor_' + target if True",
       "kernel 'scale': work.peak: no peak is called 'tensor_sm_90a'; known: f64, f32, f16, "
       "tensor_bf16, tensor_f16, tensor_tf32, tensor_f8, tensor_i8"},
      {"\"ceil_div(cols, THREADS * VEC)\"", "\"cols // (VEC - 4)\"",
       "kernel 'scale': chunks: division by zero at column 6 of 'cols // (VEC - 4)'"},
      {"'uint4' if vec_bytes == 16", "'a\\n#include <x>' if True",
       "kernel 'scale': VEC_T: 'a\n#include <x>' cannot be a macro"},
  };
  for (const WrongSpec& wrong : cases) {
    const std::string text = absl::StrReplaceAll(TestSpecText(), {{wrong.what, wrong.instead}});
    const auto kernel = server::ReadKernel("s", text, TestFiles());
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    const Problem problem = MakeProblem(**kernel, {}, "", "sm_90a");
    EXPECT_EQ(std::string((*kernel)->PlanProblem(problem, Traits("sm_90a")).status().message()),
              wrong.message);
  }
}

}  // namespace
}  // namespace tune
