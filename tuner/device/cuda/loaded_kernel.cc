// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/loaded_kernel.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "tuner/device/cuda/tensor_map.h"
#include "tuner/status_macros.h"

namespace tune::cuda {
namespace {

// Blocks of a cluster that every device with clusters can run; more needs the kernel's consent.
constexpr int64_t kClusterPortable = 8;

int64_t Product(const std::array<int64_t, 3>& extent) { return extent[0] * extent[1] * extent[2]; }

std::string Text(const std::array<int64_t, 3>& extent) {
  return absl::StrCat(extent[0], " x ", extent[1], " x ", extent[2]);
}

// A scalar's bytes as the kernel sees them. A value of another kind is converted as C++ does.
template <typename T>
size_t Store(const Value& value, unsigned char* bytes) {
  T converted = 0;
  if (const auto* boolean = std::get_if<bool>(&value)) converted = static_cast<T>(*boolean);
  if (const auto* integer = std::get_if<int64_t>(&value)) converted = static_cast<T>(*integer);
  if (const auto* real = std::get_if<double>(&value)) converted = static_cast<T>(*real);
  std::memcpy(bytes, &converted, sizeof(converted));
  return sizeof(converted);
}

absl::StatusOr<size_t> StoreScalar(const ScalarPlan& scalar, unsigned char* bytes) {
  if (!std::holds_alternative<std::string>(scalar.value)) {
    switch (scalar.dtype) {
      case DType::kF64:
        return Store<double>(scalar.value, bytes);
      case DType::kF32:
        return Store<float>(scalar.value, bytes);
      case DType::kI8:
        return Store<int8_t>(scalar.value, bytes);
      case DType::kU8:
        return Store<uint8_t>(scalar.value, bytes);
      case DType::kI32:
        return Store<int32_t>(scalar.value, bytes);
      case DType::kU32:
        return Store<uint32_t>(scalar.value, bytes);
      case DType::kI64:
        return Store<int64_t>(scalar.value, bytes);
      case DType::kF16:
      case DType::kBF16:
        break;
    }
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "scalar '", scalar.name, "' cannot be ", ToText(scalar.dtype), " ", ToText(scalar.value)));
}

const BufferPlan* FindBuffer(const std::vector<ArgPlan>& args, const std::string& name) {
  for (const ArgPlan& arg : args) {
    const auto* buffer = std::get_if<BufferPlan>(&arg);
    if (buffer != nullptr && buffer->name == name) return buffer;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<LoadedKernel> LoadedKernel::Load(const DeviceContext& context,
                                                const std::string& binary, const LaunchPlan& launch,
                                                const std::vector<ArgPlan>& args,
                                                const BufferResolver& resolve) {
  LoadedKernel kernel(context);
  RETURN_IF_ERROR(kernel.LoadModule(binary, launch.entry));
  RETURN_IF_ERROR(kernel.SetArguments(args, resolve));
  RETURN_IF_ERROR(kernel.CheckParameters());
  RETURN_IF_ERROR(kernel.SetLaunch(launch));
  return kernel;
}

LoadedKernel::LoadedKernel(LoadedKernel&& other) noexcept
    : context_(other.context_),
      module_(std::exchange(other.module_, nullptr)),
      function_(other.function_),
      launch_(std::move(other.launch_)),
      parameters_(std::move(other.parameters_)),
      resources_(std::move(other.resources_)) {}

LoadedKernel::~LoadedKernel() {
  if (module_ != nullptr) context_->driver.cuModuleUnload(module_);
}

absl::Status LoadedKernel::LoadModule(const std::string& binary, const std::string& entry) {
  const DriverApi& driver = context_->driver;
  absl::Status status =
      context_->Check(driver.cuModuleLoadData(&module_, binary.data()), "cuModuleLoadData");
  if (absl::IsInternal(status)) return absl::FailedPreconditionError(status.message());
  RETURN_IF_ERROR(status);
  status = context_->Check(driver.cuModuleGetFunction(&function_, module_, entry.c_str()),
                           absl::StrCat("cuModuleGetFunction of '", entry, "'"));
  if (absl::IsInternal(status)) return absl::FailedPreconditionError(status.message());
  return status;
}

absl::StatusOr<int> LoadedKernel::Attribute(CUfunction_attribute attribute) const {
  int value = 0;
  RETURN_IF_ERROR(context_->Check(context_->driver.cuFuncGetAttribute(&value, attribute, function_),
                                  "cuFuncGetAttribute"));
  return value;
}

absl::Status LoadedKernel::SetLaunch(const LaunchPlan& launch) {
  launch_ = launch;
  ASSIGN_OR_RETURN(int registers, Attribute(CU_FUNC_ATTRIBUTE_NUM_REGS));
  ASSIGN_OR_RETURN(int static_shared, Attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  ASSIGN_OR_RETURN(int local_bytes, Attribute(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
  ASSIGN_OR_RETURN(int threads_max, Attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  resources_.registers = registers;
  resources_.stack_bytes = local_bytes;
  resources_.static_shared_bytes = static_shared;
  resources_.dynamic_shared_bytes = launch.shared_bytes;

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
                                      function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                      static_cast<int>(launch.shared_bytes)),
                                  "cuFuncSetAttribute of the dynamic shared memory"));
  return CheckCluster(launch);
}

absl::Status LoadedKernel::CheckCluster(const LaunchPlan& launch) const {
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
                            function_, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
                        "cuFuncSetAttribute of the cluster size"));
  }
  CUlaunchAttribute cluster = {};
  const CUlaunchConfig config = Config(&cluster);
  int active = 0;
  const CUresult result = driver.cuOccupancyMaxActiveClusters(&active, function_, &config);
  if (result == CUDA_SUCCESS && active > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "no cluster of ", Text(launch.cluster), " blocks of ", Text(launch.block), " threads with ",
      launch.shared_bytes, " bytes of shared memory fits", result == CUDA_SUCCESS ? "" : ": ",
      result == CUDA_SUCCESS ? "" : driver.ErrorText(result)));
}

absl::Status LoadedKernel::SetArguments(const std::vector<ArgPlan>& args,
                                        const BufferResolver& resolve) {
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
    parameters_.push_back(parameter);
  }
  return absl::OkStatus();
}

// The driver reads as many arguments as the kernel declares, of the sizes it declares: a spec that
// disagrees with its source must be caught here, before the driver reads past our arrays.
absl::Status LoadedKernel::CheckParameters() const {
  for (size_t i = 0; i <= parameters_.size(); ++i) {
    size_t offset = 0;
    size_t size = 0;
    const bool declared =
        context_->driver.cuFuncGetParamInfo(function_, i, &offset, &size) == CUDA_SUCCESS;
    if (declared != (i < parameters_.size())) {
      return absl::FailedPreconditionError(
          absl::StrCat("the kernel takes ", declared ? "more" : "fewer", " parameters than the ",
                       parameters_.size(), " args of its spec"));
    }
    if (declared && size != parameters_[i].size) {
      return absl::FailedPreconditionError(absl::StrCat("parameter ", i, " of the kernel has ",
                                                        size, " bytes; arg ", i,
                                                        " of its spec has ", parameters_[i].size));
    }
  }
  return absl::OkStatus();
}

CUlaunchConfig LoadedKernel::Config(CUlaunchAttribute* cluster) const {
  CUlaunchConfig config = {};
  config.gridDimX = static_cast<unsigned>(launch_.grid[0]);
  config.gridDimY = static_cast<unsigned>(launch_.grid[1]);
  config.gridDimZ = static_cast<unsigned>(launch_.grid[2]);
  config.blockDimX = static_cast<unsigned>(launch_.block[0]);
  config.blockDimY = static_cast<unsigned>(launch_.block[1]);
  config.blockDimZ = static_cast<unsigned>(launch_.block[2]);
  config.sharedMemBytes = static_cast<unsigned>(launch_.shared_bytes);
  config.hStream = context_->stream;
  if (Product(launch_.cluster) == 1) return config;
  cluster->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster->value.clusterDim.x = static_cast<unsigned>(launch_.cluster[0]);
  cluster->value.clusterDim.y = static_cast<unsigned>(launch_.cluster[1]);
  cluster->value.clusterDim.z = static_cast<unsigned>(launch_.cluster[2]);
  config.attrs = cluster;
  config.numAttrs = 1;
  return config;
}

absl::Status LoadedKernel::Launch() const {
  std::vector<void*> pointers;
  pointers.reserve(parameters_.size());
  for (const Parameter& parameter : parameters_) {
    pointers.push_back(const_cast<unsigned char*>(parameter.bytes));
  }
  CUlaunchAttribute cluster = {};
  const CUlaunchConfig config = Config(&cluster);
  absl::Status status = context_->Check(
      context_->driver.cuLaunchKernelEx(&config, function_, pointers.data(), nullptr),
      "cuLaunchKernelEx");
  // Whatever is neither a fault nor the hardware is a launch that this device does not do.
  if (absl::IsInternal(status)) return absl::InvalidArgumentError(status.message());
  return status;
}

}  // namespace tune::cuda
