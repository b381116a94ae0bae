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
#include "base/status_macros.h"
#include "tuner/artifact.h"
#include "tuner/bundle.h"
#include "tuner/device/cuda/tensor_map.h"
#include "tuner/device/scalar_bytes.h"

namespace tune::cuda {
namespace {

// Blocks of a cluster that every device with clusters can run; more needs the kernel's consent.
constexpr int64_t kClusterPortable = 8;

int64_t Product(const std::array<int64_t, 3>& extent) { return extent[0] * extent[1] * extent[2]; }

std::string Text(const std::array<int64_t, 3>& extent) {
  return absl::StrCat(extent[0], " x ", extent[1], " x ", extent[2]);
}

}  // namespace

absl::StatusOr<LoadedProgram> LoadedProgram::Load(const DeviceContext& context,
                                                  const Program& program,
                                                  const BufferResolver& resolve) {
  if (program.steps.empty()) return absl::InvalidArgumentError("a program without steps");
  LoadedProgram loaded(context);
  ASSIGN_OR_RETURN(const std::vector<absl::string_view> units, Unbundle(program.binary));
  for (const absl::string_view unit : units) {
    RETURN_IF_ERROR(loaded.LoadModule(std::string(unit)));
  }
  for (const StepPlan& plan : program.steps) {
    int64_t shared_bytes_max = 0;
    for (const StepPlan& other : program.steps) {
      const bool same =
          other.launch.entry == plan.launch.entry && other.launch.unit == plan.launch.unit;
      if (same) shared_bytes_max = std::max(shared_bytes_max, other.launch.shared_bytes);
    }
    ASSIGN_OR_RETURN(Step step, loaded.LoadStep(plan, shared_bytes_max, resolve));
    loaded.steps_.push_back(std::move(step));
  }
  for (const SymbolPlan& plan : program.symbols) {
    ASSIGN_OR_RETURN(const Symbol symbol, loaded.LoadSymbol(plan, resolve));
    loaded.symbols_.push_back(symbol);
  }
  return loaded;
}

LoadedProgram::LoadedProgram(LoadedProgram&& other) noexcept
    : context_(other.context_),
      modules_(std::exchange(other.modules_, {})),
      steps_(std::move(other.steps_)),
      symbols_(std::move(other.symbols_)),
      resources_(std::move(other.resources_)) {}

LoadedProgram::~LoadedProgram() {
  for (CUmodule module : modules_) context_->driver.cuModuleUnload(module);
}

absl::Status LoadedProgram::LoadModule(const std::string& binary) {
  const bool text = !absl::StartsWith(binary,
                                      "\x7f"
                                      "ELF");
  CUmodule module = nullptr;
  absl::Status status =
      text ? CompileText(binary, module)
           : context_->Check(context_->driver.cuModuleLoadData(&module, binary.data()),
                             "cuModuleLoadData");
  if (absl::IsInternal(status)) return absl::FailedPreconditionError(status.message());
  if (status.ok()) modules_.push_back(module);
  return status;
}

// PTX that no compile worker could make a cubin of.
absl::Status LoadedProgram::CompileText(const std::string& text, CUmodule& module) const {
  char log[4096] = {};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof(log))};
  const absl::Status status =
      context_->Check(context_->driver.cuModuleLoadDataEx(&module, text.c_str(), std::size(options),
                                                          options, values),
                      "cuModuleLoadDataEx");
  if (status.ok() || log[0] == '\0') return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), ": ", log));
}

absl::StatusOr<CUmodule> LoadedProgram::ModuleOf(int unit) const {
  if (unit >= 0 && static_cast<size_t>(unit) < modules_.size()) {
    return modules_[static_cast<size_t>(unit)];
  }
  return absl::FailedPreconditionError(absl::StrCat("the artifact has no unit ", unit));
}

absl::StatusOr<LoadedProgram::Symbol> LoadedProgram::LoadSymbol(
    const SymbolPlan& plan, const BufferResolver& resolve) const {
  ASSIGN_OR_RETURN(CUmodule module, ModuleOf(plan.unit));
  Symbol symbol;
  size_t bytes = 0;
  const absl::Status status = context_->Check(
      context_->driver.cuModuleGetGlobal(&symbol.variable, &bytes, module, plan.variable.c_str()),
      absl::StrCat("cuModuleGetGlobal of '", plan.variable, "'"));
  if (absl::IsInternal(status)) return absl::FailedPreconditionError(status.message());
  RETURN_IF_ERROR(status);
  ASSIGN_OR_RETURN(symbol.elements, resolve(plan.buffer));
  if (symbol.elements.bytes() == bytes) return symbol;
  return absl::FailedPreconditionError(absl::StrCat("symbol '", plan.buffer.name, "' has ",
                                                    symbol.elements.bytes(),
                                                    " bytes; the variable has ", bytes));
}

absl::Status LoadedProgram::SetSymbols() const {
  for (const Symbol& symbol : symbols_) {
    RETURN_IF_ERROR(context_->Check(
        context_->driver.cuMemcpyDtoDAsync(symbol.variable, symbol.elements.address,
                                           symbol.elements.bytes(), context_->stream),
        "cuMemcpyDtoDAsync to a symbol"));
  }
  return absl::OkStatus();
}

absl::StatusOr<LoadedProgram::Step> LoadedProgram::LoadStep(const StepPlan& plan,
                                                            int64_t shared_bytes_max,
                                                            const BufferResolver& resolve) {
  Step step;
  step.launch = plan.launch;
  const std::string& entry = plan.launch.entry;
  ASSIGN_OR_RETURN(CUmodule module, ModuleOf(plan.launch.unit));
  const absl::Status status =
      context_->Check(context_->driver.cuModuleGetFunction(&step.function, module, entry.c_str()),
                      absl::StrCat("cuModuleGetFunction of '", entry, "'"));
  if (absl::IsInternal(status)) return absl::FailedPreconditionError(status.message());
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(SetArguments(plan.args, resolve, step));
  RETURN_IF_ERROR(CheckParameters(step));
  for (const BufferPlan& buffer : plan.zero) {
    ASSIGN_OR_RETURN(DeviceArray array, resolve(buffer));
    if (array.bytes() > 0) step.zero.push_back(array);
  }
  RETURN_IF_ERROR(CheckLaunch(step, shared_bytes_max));
  if (plan.launch.resident) {
    ASSIGN_OR_RETURN(const int64_t at_once, BlocksAtOnce(step));
    step.launch.grid[0] = std::min(step.launch.grid[0], std::max(at_once, step.launch.cluster[0]));
  }
  RETURN_IF_ERROR(CheckCooperative(step));
  return step;
}

absl::StatusOr<int> LoadedProgram::Attribute(const Step& step,
                                             CUfunction_attribute attribute) const {
  int value = 0;
  RETURN_IF_ERROR(context_->Check(
      context_->driver.cuFuncGetAttribute(&value, attribute, step.function), "cuFuncGetAttribute"));
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
  RETURN_IF_ERROR(context_->Check(
      context_->driver.cuFuncSetAttribute(step.function,
                                          CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                          static_cast<int>(shared_bytes_max)),
      "cuFuncSetAttribute of the dynamic shared memory"));
  RETURN_IF_ERROR(CheckCluster(step));
  if (launch.programmatic_dependent_launch && context_->sm < 90) {
    return absl::InvalidArgumentError(
        absl::StrCat("programmatic dependent launch needs sm_90 or later; ", context_->name,
                     " is sm_", context_->sm));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> LoadedProgram::BlocksAtOnce(const Step& step) const {
  const LaunchPlan& launch = step.launch;
  const DriverApi& driver = context_->driver;
  int active = 0;
  if (const int64_t in_cluster = Product(launch.cluster); in_cluster > 1) {
    Attributes attributes = {};
    const CUlaunchConfig config = Config(launch, attributes);
    RETURN_IF_ERROR(
        context_->Check(driver.cuOccupancyMaxActiveClusters(&active, step.function, &config),
                        "cuOccupancyMaxActiveClusters"));
    return active * in_cluster;
  }
  RETURN_IF_ERROR(context_->Check(
      driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(&active, step.function,
                                                         static_cast<int>(Product(launch.block)),
                                                         static_cast<size_t>(launch.shared_bytes)),
      "cuOccupancyMaxActiveBlocksPerMultiprocessor"));
  return active * context_->sm_count;
}

absl::Status LoadedProgram::CheckCooperative(const Step& step) const {
  const LaunchPlan& launch = step.launch;
  if (!launch.cooperative) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t at_once, BlocksAtOnce(step));
  double blocks = 1;  // of three lengths, each below 2^31
  for (const int64_t length : launch.grid) blocks *= static_cast<double>(length);
  if (blocks <= static_cast<double>(at_once)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a cooperative grid of ", Text(launch.grid), " blocks; ", context_->name, " runs ", at_once,
      " blocks of ", Text(launch.block), " threads with ", launch.shared_bytes,
      " bytes of dynamic shared memory at once: let the grid use sm_count"));
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
  Attributes attributes = {};
  const CUlaunchConfig config = Config(launch, attributes);
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
      ASSIGN_OR_RETURN(DeviceArray array, resolve(*buffer));
      std::memcpy(parameter.bytes, &array.address, sizeof(array.address));
      parameter.size = sizeof(array.address);
    } else if (const auto* scalar = std::get_if<ScalarPlan>(&arg)) {
      ASSIGN_OR_RETURN(parameter.size, StoreScalar(*scalar, parameter.bytes));
    } else {
      const auto& plan = std::get<TensorMapPlan>(arg);
      if (context_->sm < 90) {
        return absl::InvalidArgumentError(absl::StrCat(
            "tensor map '", plan.name, "': needs sm_90 or later, not sm_", context_->sm));
      }
      ASSIGN_OR_RETURN(DeviceArray array, resolve(plan.buffer));
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

CUlaunchConfig LoadedProgram::Config(const LaunchPlan& launch, Attributes& attributes) const {
  CUlaunchConfig config = {};
  config.gridDimX = static_cast<unsigned>(launch.grid[0]);
  config.gridDimY = static_cast<unsigned>(launch.grid[1]);
  config.gridDimZ = static_cast<unsigned>(launch.grid[2]);
  config.blockDimX = static_cast<unsigned>(launch.block[0]);
  config.blockDimY = static_cast<unsigned>(launch.block[1]);
  config.blockDimZ = static_cast<unsigned>(launch.block[2]);
  config.sharedMemBytes = static_cast<unsigned>(launch.shared_bytes);
  config.hStream = context_->stream;
  config.attrs = attributes.data();
  if (Product(launch.cluster) > 1) {
    CUlaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = static_cast<unsigned>(launch.cluster[0]);
    attribute.value.clusterDim.y = static_cast<unsigned>(launch.cluster[1]);
    attribute.value.clusterDim.z = static_cast<unsigned>(launch.cluster[2]);
  }
  if (launch.cooperative) {
    CUlaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attribute.value.cooperative = 1;
  }
  if (launch.programmatic_dependent_launch) {
    CUlaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
  }
  return config;
}

absl::Status LoadedProgram::Launch(const Step& step) const {
  const DriverApi& driver = context_->driver;
  for (const DeviceArray& array : step.zero) {
    RETURN_IF_ERROR(
        context_->Check(driver.cuMemsetD8Async(array.address, 0, array.bytes(), context_->stream),
                        "cuMemsetD8Async"));
  }
  std::vector<void*> pointers;
  pointers.reserve(step.parameters.size());
  for (const Parameter& parameter : step.parameters) {
    pointers.push_back(const_cast<unsigned char*>(parameter.bytes));
  }
  Attributes attributes = {};
  const CUlaunchConfig config = Config(step.launch, attributes);
  absl::Status status =
      context_->Check(driver.cuLaunchKernelEx(&config, step.function, pointers.data(), nullptr),
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
