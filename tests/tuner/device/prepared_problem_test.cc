// SPDX-License-Identifier: Apache-2.0
// A prepared problem on a device that queues everything, as a GPU does: operations run in Wait, and
// no earlier. Kernels are functions of this test.
#include "tuner/device/prepared_problem.h"

#include <gmock/gmock.h>

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "tuner/device/elements.h"
#include "tuner/tune_check.h"

namespace tune {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kCount = 100;
constexpr size_t kGuardBytes = 8;
constexpr char kGuardByte = 'g';

using Arrays = std::vector<DeviceArray>;
using Kernel = std::function<void(const Arrays&)>;

float* Floats(const DeviceArray& array) { return static_cast<float*>(array.data()); }

class QueuingDevice : public ProblemDevice {
 public:
  std::map<std::string, Kernel> kernels;  // of the problem's own programs, by their entry
  int waits = 0;
  size_t bytes_max = 1 << 20;

  void Enqueue(std::function<void()> operation) { queue_.push_back(std::move(operation)); }

  absl::Status CheckFits(size_t, double bytes) const override {
    return bytes <= static_cast<double>(bytes_max) ? absl::OkStatus()
                                                   : absl::ResourceExhaustedError("too large");
  }
  absl::StatusOr<DeviceArray> Allocate(size_t buffer, Part part, const BufferPlan& plan) override {
    std::string& memory = memory_[{part, buffer}];
    memory.assign(static_cast<size_t>(plan.count * SizeInBytes(plan.dtype)) + 2 * kGuardBytes, 0);
    if (memory.size() > bytes_max) {
      memory_.erase({part, buffer});
      return absl::ResourceExhaustedError("no memory");
    }
    return DeviceArray{plan.dtype, reinterpret_cast<uint64_t>(memory.data() + kGuardBytes),
                       plan.count};
  }
  void FreeAll() override { memory_.clear(); }
  absl::Status SetGuards() override {
    return Queue([this] {
      for (auto& [place, memory] : memory_) {
        if (place.first != kData) continue;
        std::memset(memory.data(), kGuardByte, kGuardBytes);
        std::memset(memory.data() + memory.size() - kGuardBytes, kGuardByte, kGuardBytes);
      }
    });
  }

  absl::Status SetBytes(const DeviceArray& out, unsigned char byte) override {
    return Queue([=] { std::memset(out.data(), byte, out.bytes()); });
  }
  absl::Status Fill(const DeviceArray& out, const tune::Fill& fill, uint64_t key) override {
    return Queue([=] { FillElements(out.dtype, fill, key, 0, out.count, out.data()); });
  }
  absl::Status Copy(const DeviceArray& out, const DeviceArray& in) override {
    return Queue([=] { std::memcpy(out.data(), in.data(), out.bytes()); });
  }
  absl::Status Widen(const DeviceArray& out, const DeviceArray& in) override {
    return Queue([=] { WidenElements(in.dtype, in.data(), out.dtype, out.data(), 0, out.count); });
  }
  absl::Status Upload(const DeviceArray& out, const std::string& elements) override {
    return Queue([=, &elements] { std::memcpy(out.data(), elements.data(), elements.size()); });
  }
  absl::Status Download(const DeviceArray& in, void* host) override {
    return Queue([=] { std::memcpy(host, in.data(), in.bytes()); });
  }
  absl::Status FlushCache() override { return absl::OkStatus(); }

  absl::Status BeginCheck() override {
    return Queue([this] {
      comparisons_.clear();
      hashes_.clear();
      damaged_.clear();
    });
  }
  absl::Status Compare(size_t buffer, const DeviceArray& out, const DeviceArray& reference,
                       const TolerancePlan& tolerance) override {
    return Queue([=, this] {
      std::vector<double> values(static_cast<size_t>(out.count));
      std::vector<double> references(values.size());
      LoadElements(out.dtype, out.data(), 0, out.count, values.data());
      LoadElements(reference.dtype, reference.data(), 0, out.count, references.data());
      for (size_t i = 0; i < values.size(); ++i) {
        AddElement(values[i], references[i], ErrorOf(values[i], references[i]), i, tolerance.rtol,
                   tolerance.atol, comparisons_[buffer]);
      }
    });
  }
  absl::Status Hash(size_t buffer, const DeviceArray& in) override {
    return Queue([=, this] {
      hashes_[buffer] = HashOf({static_cast<char*>(in.data()), in.bytes()});
    });
  }
  absl::Status EndCheck() override {
    return Queue([this] {
      const std::string guard(kGuardBytes, kGuardByte);
      for (const auto& [place, memory] : memory_) {
        if (place.first == kData && (memory.substr(0, kGuardBytes) != guard ||
                                     memory.substr(memory.size() - kGuardBytes) != guard)) {
          damaged_.insert(place.second);
        }
      }
    });
  }
  absl::Status Wait() override {
    ++waits;
    for (; !queue_.empty(); queue_.pop_front()) queue_.front()();
    return absl::OkStatus();
  }
  const CompareResult& comparison(size_t buffer) const override {
    static const CompareResult none = {};
    const auto found = comparisons_.find(buffer);
    return found == comparisons_.end() ? none : found->second;
  }
  uint64_t hash(size_t buffer) const override {
    const auto found = hashes_.find(buffer);
    return found == hashes_.end() ? 0 : found->second;
  }
  std::string DescribeDamage(size_t buffer) const override {
    return damaged_.count(buffer) > 0 ? "its guards" : "";
  }

  absl::Status Seal(Part part) override {
    RETURN_IF_ERROR(Wait());
    for (const auto& [place, memory] : memory_) {
      if (place.first == part) seals_[place] = memory;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<bool> SealsHold() override {
    RETURN_IF_ERROR(Wait());
    for (const auto& [place, memory] : seals_) {
      if (memory_[place] != memory) return false;
    }
    return true;
  }

  absl::StatusOr<std::unique_ptr<OwnProgram>> Load(const Program& program,
                                                   const BufferResolver& resolve,
                                                   const char*) override {
    ASSIGN_OR_RETURN(Arrays arrays, Resolved(program.steps[0], resolve));
    return std::make_unique<Own>(*this, kernels[program.steps[0].launch.entry], std::move(arrays));
  }

 private:
  struct Own : OwnProgram {
    Own(QueuingDevice& owner, Kernel code, Arrays args)
        : device(owner), kernel(std::move(code)), arrays(std::move(args)) {}
    absl::StatusOr<std::string> Run() override {
      device.Enqueue([this] { kernel(arrays); });
      RETURN_IF_ERROR(device.Wait());
      return "";
    }
    QueuingDevice& device;
    const Kernel kernel;
    const Arrays arrays;
  };

  static absl::StatusOr<Arrays> Resolved(const StepPlan& step, const BufferResolver& resolve) {
    Arrays arrays;
    for (const ArgPlan& arg : step.args) {
      ASSIGN_OR_RETURN(DeviceArray array, resolve(std::get<BufferPlan>(arg)));
      arrays.push_back(array);
    }
    return arrays;
  }
  static uint64_t HashOf(const std::string& bytes) { return std::hash<std::string>()(bytes); }
  absl::Status Queue(std::function<void()> operation) {
    Enqueue(std::move(operation));
    return absl::OkStatus();
  }

  std::deque<std::function<void()>> queue_;
  std::map<std::pair<Part, size_t>, std::string> memory_;
  std::map<std::pair<Part, size_t>, std::string> seals_;
  std::map<size_t, CompareResult> comparisons_;
  std::map<size_t, uint64_t> hashes_;
  std::set<size_t> damaged_;
};

// y = 2 x, and z, an in-out, is one more than it was.
class PreparedProblemTest : public testing::Test {
 protected:
  static BufferPlan Buffer(const std::string& name, Role role, DType dtype = DType::kF32) {
    return {.name = name, .dtype = dtype, .count = kCount, .role = role, .fill = {}};
  }

  PreparedProblemTest() {
    plan_.buffers = {x_, y_, z_};
    plan_.tolerances = {{DType::kF32, {1e-6, 1e-6}}};
    plan_.reference.steps = {Step("reference", {x_, Buffer("y", Role::kOutput, DType::kF64),
                                                Buffer("z", Role::kInOut, DType::kF64)})};
    device_.kernels["reference"] = [this](const Arrays& arrays) {
      for (int64_t i = 0; i < kCount; ++i) {
        static_cast<double*>(arrays[1].data())[i] = 2.0 * Floats(arrays[0])[i];
        static_cast<double*>(arrays[2].data())[i] += 1;
      }
      addresses_ = arrays;
    };
    device_.kernels["checker"] = [](const Arrays& arrays) {
      auto* faults = static_cast<TuneFaults*>(arrays[2].data());
      for (int64_t i = 0; i < kCount; ++i) {
        if (Floats(arrays[1])[i] != 2 * Floats(arrays[0])[i]) faults->count++;
      }
    };
  }

  static StepPlan Step(const std::string& entry, const std::vector<BufferPlan>& buffers) {
    StepPlan step;
    step.launch.entry = entry;
    step.args.assign(buffers.begin(), buffers.end());
    return step;
  }

  void UseChecker() {
    plan_.checker.steps = {Step("checker", {x_,
                                            Buffer("y", Role::kInput),
                                            {.name = kFaultsBuffer,
                                             .dtype = DType::kU8,
                                             .count = sizeof(TuneFaults),
                                             .role = Role::kInOut}})};
  }

  absl::Status Prepare() {
    problem_.reset();
    ASSIGN_OR_RETURN(problem_, PreparedProblem::Create(device_, plan_, "", /*seed=*/7));
    return absl::OkStatus();
  }

  // Launches a right variant, with `wrong` after it, and waits.
  void Launch(const Kernel& wrong = nullptr) {
    ASSERT_TRUE(problem_->RestoreInOuts().ok());
    ASSERT_TRUE(problem_->PoisonOutputs().ok());
    const Arrays arrays = {*problem_->Resolve(x_), *problem_->Resolve(y_), *problem_->Resolve(z_)};
    device_.Enqueue([=] {
      for (int64_t i = 0; i < kCount; ++i) {
        Floats(arrays[1])[i] = 2 * Floats(arrays[0])[i];
        Floats(arrays[2])[i] += 1;
      }
      if (wrong != nullptr) wrong(arrays);
    });
    ASSERT_TRUE(problem_->EnqueueCheck().ok());
    ASSERT_TRUE(device_.Wait().ok());
  }

  Verdict Judged(const Kernel& wrong = nullptr) {
    Launch(wrong);
    absl::StatusOr<Verdict> verdict = problem_->ReadVerdict();
    EXPECT_TRUE(verdict.ok()) << verdict.status();
    return verdict.ok() ? *verdict : Verdict();
  }

  const BufferPlan x_ = Buffer("x", Role::kInput);
  const BufferPlan y_ = Buffer("y", Role::kOutput);
  const BufferPlan z_ = Buffer("z", Role::kInOut);
  ProblemPlan plan_;
  QueuingDevice device_;
  Arrays addresses_;  // of the reference's last run
  std::unique_ptr<PreparedProblem> problem_;
};

TEST_F(PreparedProblemTest, ARightLaunchIsJudgedWithoutAWait) {
  ASSERT_TRUE(Prepare().ok());
  for (int launch = 0; launch < 3; ++launch) {
    const int waits = device_.waits;
    const Verdict verdict = Judged();
    EXPECT_TRUE(verdict.right) << verdict.message;
    EXPECT_EQ(device_.waits, waits + 1) << "the test's own";
  }
}

TEST_F(PreparedProblemTest, DamageIsReportedAndRepaired) {
  const std::vector<std::pair<Kernel, std::string>> cases = {
      {[](const Arrays& a) { Floats(a[1])[5] = 99; }, "y[5] is 99"},
      {[](const Arrays& a) { Floats(a[2])[6] = 99; }, "z[6] is 99"},
      {[](const Arrays& a) { Floats(a[1])[kCount] = 0; }, "wrote outside buffer 'y': its guards"},
      {[](const Arrays& a) { Floats(a[0])[-1] = 0; }, "wrote outside buffer 'x': its guards"},
      {[](const Arrays& a) { Floats(a[0])[3] = 42; }, "wrote to its input 'x'"}};
  for (const bool checked : {false, true}) {
    if (checked) UseChecker();
    ASSERT_TRUE(Prepare().ok());
    for (const auto& [wrong, message] : cases) {
      if (checked && message[0] == 'z') continue;  // the checker does not look at it
      const Verdict verdict = Judged(wrong);
      EXPECT_FALSE(verdict.right) << message;
      EXPECT_FALSE(verdict.harness_damaged);
      EXPECT_THAT(verdict.message,
                  HasSubstr(checked && message[0] == 'y' ? "the checker finds 1 fault" : message));
      const Verdict next = Judged();
      EXPECT_TRUE(next.right) << message << ", then " << next.message;
    }
  }
}

TEST_F(PreparedProblemTest, ResultsOfTheReferenceThatChangeAreDamageOfTheHarness) {
  for (const size_t output : {1, 2}) {
    ASSERT_TRUE(Prepare().ok());
    const Verdict verdict =
        Judged([&](const Arrays&) { static_cast<double*>(addresses_[output].data())[7] = 1e6; });
    EXPECT_TRUE(verdict.harness_damaged) << verdict.message;
    EXPECT_THAT(verdict.message, HasSubstr("were overwritten"));
  }
}

TEST_F(PreparedProblemTest, AReferenceIsHeldToTheRulesOfAVariant) {
  const Kernel right = device_.kernels["reference"];
  const std::vector<std::pair<Kernel, std::string>> cases = {
      {[](const Arrays& a) { Floats(a[0])[3] = 42; }, "the reference wrote to its input 'x'"},
      {[](const Arrays& a) { Floats(a[0])[kCount] = 0; },
       "the reference wrote outside buffer 'x': its guards"},
      {[](const Arrays& a) { std::memset(a[1].data(), 0xff, 16); },
       "the reference leaves 2 of 100 elements of 'y' unwritten or NaN, the first of them at 0"}};
  for (const auto& [wrong, message] : cases) {
    device_.kernels["reference"] = [&right, wrong = wrong](const Arrays& arrays) {
      right(arrays);
      wrong(arrays);
    };
    const absl::Status prepared = Prepare();
    EXPECT_TRUE(absl::IsInvalidArgument(prepared)) << prepared;
    EXPECT_THAT(std::string(prepared.message()), HasSubstr(message));
  }
}

TEST_F(PreparedProblemTest, ACheckerIsTriedBeforeItJudges) {
  UseChecker();
  const Kernel right = device_.kernels["checker"];
  const std::vector<std::pair<Kernel, std::string>> cases = {
      {[](const Arrays&) {}, "the checker finds no fault in outputs that nobody wrote"},
      {[&](const Arrays& a) { right(a), Floats(a[0])[3] = 42; },
       "the checker wrote to its input 'x'"},
      {[&](const Arrays& a) { right(a), static_cast<TuneFaults*>(a[2].data())[1].count = 1; },
       "the checker wrote outside buffer 'tune.faults': its guards"}};
  for (const auto& [checker, message] : cases) {
    device_.kernels["checker"] = checker;
    const absl::Status prepared = Prepare();
    EXPECT_TRUE(absl::IsInvalidArgument(prepared)) << prepared;
    EXPECT_THAT(std::string(prepared.message()), HasSubstr(message));
  }
}

TEST_F(PreparedProblemTest, ScratchOfAnotherSizeIsMemoryOfItsOwnGuards) {
  ASSERT_TRUE(Prepare().ok());
  BufferPlan scratch = Buffer("scratch", Role::kScratch);
  ASSERT_TRUE(problem_->Resolve(scratch).ok());
  scratch.count = 10;
  const absl::StatusOr<DeviceArray> smaller = problem_->Resolve(scratch);
  ASSERT_TRUE(smaller.ok());
  EXPECT_EQ(smaller->count, 10);
  EXPECT_EQ(problem_->Resolve(scratch)->address, smaller->address);
  EXPECT_TRUE(Judged().right);
  EXPECT_THAT(Judged([&](const Arrays&) { Floats(*smaller)[10] = 0; }).message,
              HasSubstr("wrote outside buffer 'scratch'"));
  scratch.count = 1 << 20;
  EXPECT_TRUE(absl::IsResourceExhausted(problem_->Resolve(scratch).status()));
  EXPECT_TRUE(Judged().right);
  scratch.count = 10;
  const absl::StatusOr<DeviceArray> again = problem_->Resolve(scratch);
  ASSERT_TRUE(again.ok());
  EXPECT_THAT(Judged([&](const Arrays&) { Floats(*again)[10] = 0; }).message,
              HasSubstr("wrote outside buffer 'scratch'"));
}

TEST_F(PreparedProblemTest, ExpectedElementsOfAFileTakePrecedence) {
  plan_.files = {{"y", DType::kF32, std::string(kCount * sizeof(float), '\0'), /*expected=*/true}};
  ASSERT_TRUE(Prepare().ok());
  EXPECT_FALSE(Judged().right);
  EXPECT_TRUE(Judged([](const Arrays& a) { std::memset(a[1].data(), 0, a[1].bytes()); }).right);
}

TEST_F(PreparedProblemTest, JudgesResultsOfAnotherProgram) {
  plan_.reference.steps.clear();
  plan_.buffers = {x_, y_};
  std::vector<float> expected(kCount);
  std::iota(expected.begin(), expected.end(), 1.0f);
  const std::string elements(reinterpret_cast<char*>(expected.data()), kCount * sizeof(float));
  plan_.files = {{"y", DType::kF32, elements, /*expected=*/true}};
  ASSERT_TRUE(Prepare().ok());
  EXPECT_TRUE(problem_->Judge({{"y", DType::kF32, elements}})->right);
  EXPECT_THAT(problem_->Judge({})->message, HasSubstr("never written"));
  EXPECT_THAT(std::string(problem_->Judge({{"x", DType::kF32, elements}}).status().message()),
              AllOf(HasSubstr("the problem has no output 'x'"), HasSubstr("400 bytes")));
}

TEST_F(PreparedProblemTest, HashesOfEqualOutputsAreEqual) {
  ASSERT_TRUE(Prepare().ok());
  Launch();
  const absl::StatusOr<uint64_t> hash = problem_->HashOutputs();
  ASSERT_TRUE(hash.ok());
  Launch();
  EXPECT_EQ(*problem_->HashOutputs(), *hash);
  Launch([](const Arrays& a) { Floats(a[2])[9] += 1; });
  EXPECT_NE(*problem_->HashOutputs(), *hash);
}

TEST_F(PreparedProblemTest, AProblemThatDoesNotFitIsNotAllocated) {
  device_.bytes_max = 100;
  EXPECT_TRUE(absl::IsResourceExhausted(Prepare()));
}

}  // namespace
}  // namespace tune
