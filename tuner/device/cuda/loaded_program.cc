// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/loaded_program.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tuner/artifact.h"
#include "tuner/device/cuda/tensor_map.h"
#include "tuner/device/scalar_bytes.h"
#include "tuner/status_macros.h"

namespace tune::cuda {
namespace {

// Blocks of a cluster that every device with clusters can run; more needs the kernel's consent.
constexpr int64_t kClusterPortable = 8;

int64_t Product(const std::array<int64_t, 3>& extent) { return extent[0] * extent[1] * extent[2]; }

std::string Text(const std::array<int64_t, 3>& extent) {
  return absl::StrCat(extent[0], " x ", extent[1], " x ", extent[2]);
}

const BufferPlan* FindBuffer(const std::vector<ArgPlan>& args, const std::string& name) {
  for (const ArgPlan& arg : args) {
    const auto* buffer = std::get_if<BufferPlan>(&arg);
    if (buffer != nullptr && buffer->name == name) return buffer;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<LoadedProgram> LoadedProgram::Load(const DeviceContext& context,
                                                  const Program& program,
                                                  const BufferResolver& resolve) {
  if (program.steps.empty()) return absl::InvalidArgumentError("a program without steps");
  LoadedProgram loaded(context);
  RETURN_IF_ERROR(loaded.LoadModule(program.binary));
  for (const StepPlan& plan : program.steps) {
    int64_t shared_bytes_max = 0;
    for (const StepPlan& other : program.steps) {
      if (other.launch.entry != plan.launch.entry) continue;
      shared_bytes_max = std::max(shared_bytes_max, other.launch.shared_bytes);
    }
    ASSIGN_OR_RETURN(Step step, loaded.LoadStep(plan, shared_bytes_max, resolve));
    loaded.steps_.push_back(std::move(step));
  }
  return loaded;
}

LoadedProgram::LoadedProgram(LoadedProgram&& other) noexcept
    : context_(other.context_),
      module_(std::exchange(other.module_, nullptr)),
      steps_(std::move(other.steps_)),
      resources_(std::move(other.resources_)) {}

LoadedProgram::~LoadedProgram() {
  if (module_ != nullptr) context_->driver.cuModuleUnload(module_);
}

absl::Status LoadedProgram::LoadModule(const std::string& binary) {
  const bool text = !absl::StartsWith(binary, "\x7f" "ELF");
  absl::Status status = text ? CompileText(binary)
                             : context_->Check(
                                   context_->driver.cuModuleLoadData(&module_, binary.data()),
                                   "cuModuleLoadData");
  if (absl::IsInternal(status)) return absl::FailedPreconditionError(status.message());
  return status;
}

// PTX that no compile worker could make a cubin of.
absl::Status LoadedProgram::CompileText(const std::string& text) {
  char log[4096] = {};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof(log))};
  const absl::Status status = context_->Check(
      context_->driver.cuModuleLoadDataEx(&module_, text.c_str(), std::size(options), options,
                                          values),
      "cuModuleLoadDataEx");
  if (status.ok() || log[0] == '\0') return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), ": ", log));
}

absl::StatusOr<LoadedProgram::Step> LoadedProgram::LoadStep(const StepPlan& plan,
                                                            int64_t shared_bytes_max,
                                                            const BufferResolver& resolve) {
  Step step;
  step.launch = plan.launch;
  const std::string& entry = plan.launch.entry;
  const absl::Status status = context_->Check(
      context_->driver.cuModuleGetFunction(&step.function, module_, entry.c_str()),
      absl::StrCat("cuModuleGetFunction of '", entry, "'"));
  if (absl::IsInternal(status)) return absl::FailedPreconditionError(status.message());
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(SetArguments(plan.args, resolve, step));
  RETURN_IF_ERROR(CheckParameters(step));
  for (const BufferPlan& buffer : plan.zero) {
    ASSIGN_OR_RETURN(Harness::Array array, resolve(buffer));
    if (array.bytes() > 0) step.zero.push_back(array);
  }
  RETURN_IF_ERROR(CheckLaunch(step, shared_bytes_max));
  return step;
}

absl::StatusOr<int> LoadedProgram::Attribute(const Step& step,
                                             CUfunction_attribute attribute) const {
  int value = 0;
  RETURN_IF_ERROR(
      context_->Check(context_->driver.cuFuncGetAttribute(&value, attribute, step.function),
                      "cuFuncGetAttribute"));
  return value;
}

absl::Status LoadedProgram::CheckLaunch(const Step& step, int64_t shared_bytes_max) {
  const LaunchPlan& launch = step.launch;
  ASSIGN_OR_RETURN(int registers, Attribute(step, CU_FUNC_ATTRIBUTE_NUM_REGS));
  ASSIGN_OR_RETURN(int static_shared, Attribute(step, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  ASSIGN_OR_RETURN(int local_bytes, Attribute(step, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
  ASSIGN_OR_RETURN(int threads_max, Attribute(step, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  AddResources({.registers = registers,
                .stack_bytes = local_bytes,
                .static_shared_bytes = static_shared,
                .dynamic_shared_bytes = launch.shared_bytes},
               resources_);

  for (const auto* extent : {&launch.grid, &launch.block, &launch.cluster}) {
    for (int64_t length : *extent) {
      if (length < 1 || length > std::numeric_limits<int32_t>::max()) {
        return absl::InvalidArgumentError(
            absl::StrCat("grid ", Text(launch.grid), ", block ", Text(launch.block), ", cluster ",
                         Text(launch.cluster), ": every length must be 1 to 2^31 - 1"));
      }
    }
  }
  // Each length alone first: their product may not fit in 64 bits.
  bool fits = true;
  for (int64_t length : launch.block) fits = fits && length <= context_->max_threads_per_block;
  if (!fits || Product(launch.block) > threads_max) {
    return absl::InvalidArgumentError(
        absl::StrCat("block of ", Text(launch.block), " threads; this kernel of ", registers,
                     " registers a thread can run ", threads_max, " on ", context_->name));
  }
  if (launch.shared_bytes < 0 || launch.shared_bytes + static_shared > context_->max_shared_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        launch.shared_bytes, " bytes of dynamic and ", static_shared, " of static shared memory; ",
        context_->name, " has ", context_->max_shared_bytes, " for a block"));
  }
  RETURN_IF_ERROR(context_->Check(context_->driver.cuFuncSetAttribute(
                                      step.function,
                                      CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                      static_cast<int>(shared_bytes_max)),
                                  "cuFuncSetAttribute of the dynamic shared memory"));
  return CheckCluster(step);
}

absl::Status LoadedProgram::CheckCluster(const Step& step) const {
  const LaunchPlan& launch = step.launch;
  for (int64_t length : launch.cluster) {
    if (length > 64) {
      return absl::InvalidArgumentError(
          absl::StrCat("cluster of ", Text(launch.cluster), " blocks is too large"));
    }
  }
  const int64_t blocks = Product(launch.cluster);
  if (blocks == 1) return absl::OkStatus();
  if (context_->sm < 90) {
    return absl::InvalidArgumentError(
        absl::StrCat("clusters need sm_90 or later; ", context_->name, " is sm_", context_->sm));
  }
  for (int i = 0; i < 3; ++i) {
    if (launch.grid[i] % launch.cluster[i] != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "grid ", Text(launch.grid), " is no multiple of the cluster ", Text(launch.cluster)));
    }
  }
  const DriverApi& driver = context_->driver;
  if (blocks > kClusterPortable) {
    RETURN_IF_ERROR(
        context_->Check(driver.cuFuncSetAttribute(
                            step.function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
                        "cuFuncSetAttribute of the cluster size"));
  }
  CUlaunchAttribute cluster = {};
  const CUlaunchConfig config = Config(launch, &cluster);
  int active = 0;
  const CUresult result = driver.cuOccupancyMaxActiveClusters(&active, step.function, &config);
  if (result == CUDA_SUCCESS && active > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "no cluster of ", Text(launch.cluster), " blocks of ", Text(launch.block), " threads with ",
      launch.shared_bytes, " bytes of shared memory fits", result == CUDA_SUCCESS ? "" : ": ",
      result == CUDA_SUCCESS ? "" : driver.ErrorText(result)));
}

absl::Status LoadedProgram::SetArguments(const std::vector<ArgPlan>& args,
                                         const BufferResolver& resolve, Step& step) const {
  for (const ArgPlan& arg : args) {
    Parameter parameter;
    if (const auto* buffer = std::get_if<BufferPlan>(&arg)) {
      ASSIGN_OR_RETURN(Harness::Array array, resolve(*buffer));
      std::memcpy(parameter.bytes, &array.address, sizeof(array.address));
      parameter.size = sizeof(array.address);
    } else if (const auto* scalar = std::get_if<ScalarPlan>(&arg)) {
      ASSIGN_OR_RETURN(parameter.size, StoreScalar(*scalar, parameter.bytes));
    } else {
      const auto& plan = std::get<TensorMapPlan>(arg);
      const BufferPlan* buffer = FindBuffer(args, plan.buffer);
      if (context_->sm < 90 || buffer == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat(
            "tensor map '", plan.name, "': ",
            buffer == nullptr ? absl::StrCat("no buffer argument '", plan.buffer, "'")
                              : absl::StrCat("needs sm_90 or later, not sm_", context_->sm)));
      }
      ASSIGN_OR_RETURN(Harness::Array array, resolve(*buffer));
      ASSIGN_OR_RETURN(CUtensorMap map, EncodeTensorMap(context_->driver, plan, array.dtype,
                                                        array.address, array.count));
      std::memcpy(parameter.bytes, &map, sizeof(map));
      parameter.size = sizeof(map);
    }
    step.parameters.push_back(parameter);
  }
  return absl::OkStatus();
}

// The driver reads as many arguments as the kernel declares, of the sizes it declares: a spec that
// disagrees with its source must be caught here, before the driver reads past our arrays.
absl::Status LoadedProgram::CheckParameters(const Step& step) const {
  const std::vector<Parameter>& parameters = step.parameters;
  for (size_t i = 0; i <= parameters.size(); ++i) {
    size_t offset = 0;
    size_t size = 0;
    const bool declared =
        context_->driver.cuFuncGetParamInfo(step.function, i, &offset, &size) == CUDA_SUCCESS;
    if (declared != (i < parameters.size())) {
      return absl::FailedPreconditionError(
          absl::StrCat("the kernel takes ", declared ? "more" : "fewer", " parameters than the ",
                       parameters.size(), " args of its spec"));
    }
    if (declared && size != parameters[i].size) {
      return absl::FailedPreconditionError(absl::StrCat("parameter ", i, " of the kernel has ",
                                                        size, " bytes; arg ", i,
                                                        " of its spec has ", parameters[i].size));
    }
  }
  return absl::OkStatus();
}

CUlaunchConfig LoadedProgram::Config(const LaunchPlan& launch,
                                     CUlaunchAttribute* cluster) const {
  CUlaunchConfig config = {};
  config.gridDimX = static_cast<unsigned>(launch.grid[0]);
  config.gridDimY = static_cast<unsigned>(launch.grid[1]);
  config.gridDimZ = static_cast<unsigned>(launch.grid[2]);
  config.blockDimX = static_cast<unsigned>(launch.block[0]);
  config.blockDimY = static_cast<unsigned>(launch.block[1]);
  config.blockDimZ = static_cast<unsigned>(launch.block[2]);
  config.sharedMemBytes = static_cast<unsigned>(launch.shared_bytes);
  config.hStream = context_->stream;
  if (Product(launch.cluster) == 1) return config;
  cluster->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster->value.clusterDim.x = static_cast<unsigned>(launch.cluster[0]);
  cluster->value.clusterDim.y = static_cast<unsigned>(launch.cluster[1]);
  cluster->value.clusterDim.z = static_cast<unsigned>(launch.cluster[2]);
  config.attrs = cluster;
  config.numAttrs = 1;
  return config;
}

absl::Status LoadedProgram::Launch(const Step& step) const {
  const DriverApi& driver = context_->driver;
  for (const Harness::Array& array : step.zero) {
    RETURN_IF_ERROR(context_->Check(
        driver.cuMemsetD8Async(array.address, 0, array.bytes(), context_->stream),
        "cuMemsetD8Async"));
  }
  std::vector<void*> pointers;
  pointers.reserve(step.parameters.size());
  for (const Parameter& parameter : step.parameters) {
    pointers.push_back(const_cast<unsigned char*>(parameter.bytes));
  }
  CUlaunchAttribute cluster = {};
  const CUlaunchConfig config = Config(step.launch, &cluster);
  absl::Status status = context_->Check(
      driver.cuLaunchKernelEx(&config, step.function, pointers.data(), nullptr),
      "cuLaunchKernelEx");
  // Whatever is neither a fault nor the hardware is a launch that this device does not do.
  if (absl::IsInternal(status)) return absl::InvalidArgumentError(status.message());
  return status;
}

absl::Status LoadedProgram::Launch() const {
  for (const Step& step : steps_) RETURN_IF_ERROR(Launch(step));
  return absl::OkStatus();
}

}  // namespace tune::cuda
