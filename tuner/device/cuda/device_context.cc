// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/device_context.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace tune::cuda {
namespace {

std::string UuidText(const CUuuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    absl::StrAppendFormat(&text, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

absl::StatusOr<CUdevice> FindDevice(const DriverApi& driver, int ordinal) {
  int count = 0;
  RETURN_IF_ERROR(driver.Check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount"));
  if (ordinal < 0 || ordinal >= count) {
    return absl::NotFoundError(absl::StrCat("no CUDA device ", ordinal, "; this host has ", count));
  }
  CUdevice device = 0;
  RETURN_IF_ERROR(driver.Check(driver.cuDeviceGet(&device, ordinal), "cuDeviceGet"));
  return device;
}

}  // namespace

std::string TargetOf(int sm) { return absl::StrCat("sm_", sm, sm >= 90 ? "a" : ""); }

absl::StatusOr<int> DeviceContext::ReadSm(const DriverApi& driver, int ordinal) {
  ASSIGN_OR_RETURN(CUdevice device, FindDevice(driver, ordinal));
  int major = 0;
  int minor = 0;
  RETURN_IF_ERROR(driver.Check(
      driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
      "cuDeviceGetAttribute"));
  RETURN_IF_ERROR(driver.Check(
      driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
      "cuDeviceGetAttribute"));
  return major * 10 + minor;
}

absl::StatusOr<std::unique_ptr<DeviceContext>> DeviceContext::Open(const DriverApi& driver,
                                                                   int ordinal) {
  std::unique_ptr<DeviceContext> context(new DeviceContext(driver));
  ASSIGN_OR_RETURN(context->device, FindDevice(driver, ordinal));
  ASSIGN_OR_RETURN(context->sm, ReadSm(driver, ordinal));
  RETURN_IF_ERROR(context->ReadLimits());
  RETURN_IF_ERROR(driver.Check(driver.cuDevicePrimaryCtxRetain(&context->handle, context->device),
                               "cuDevicePrimaryCtxRetain"));
  RETURN_IF_ERROR(driver.Check(driver.cuCtxSetCurrent(context->handle), "cuCtxSetCurrent"));
  RETURN_IF_ERROR(driver.Check(driver.cuStreamCreate(&context->stream, CU_STREAM_NON_BLOCKING),
                               "cuStreamCreate"));
  return context;
}

absl::Status DeviceContext::ReadLimits() {
  const std::pair<CUdevice_attribute, int*> attributes[] = {
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &sm_count},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &max_threads_per_block},
      {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, &max_registers_per_block},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &max_shared_bytes},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &l2_bytes},
  };
  for (const auto& [attribute, value] : attributes) {
    RETURN_IF_ERROR(
        Check(driver.cuDeviceGetAttribute(value, attribute, device), "cuDeviceGetAttribute"));
  }
  char text[256] = {};
  RETURN_IF_ERROR(Check(driver.cuDeviceGetName(text, sizeof(text), device), "cuDeviceGetName"));
  name = text;
  RETURN_IF_ERROR(
      Check(driver.cuDeviceGetPCIBusId(text, sizeof(text), device), "cuDeviceGetPCIBusId"));
  pci_bus_id = text;
  CUuuid raw = {};
  RETURN_IF_ERROR(Check(driver.cuDeviceGetUuid(&raw, device), "cuDeviceGetUuid"));
  uuid = UuidText(raw);
  size_t bytes = 0;
  RETURN_IF_ERROR(Check(driver.cuDeviceTotalMem(&bytes, device), "cuDeviceTotalMem"));
  memory_bytes = static_cast<int64_t>(bytes);
  return Check(driver.cuDriverGetVersion(&driver_version), "cuDriverGetVersion");
}

absl::Status DeviceContext::Synchronize() const {
  return Check(driver.cuStreamSynchronize(stream), "cuStreamSynchronize");
}

absl::StatusOr<DeviceMemory> DeviceMemory::Allocate(const DeviceContext& context, size_t bytes) {
  DeviceMemory memory;
  RETURN_IF_ERROR(context.Check(context.driver.cuMemAlloc(&memory.address_, bytes),
                                absl::StrCat("cuMemAlloc of ", bytes, " bytes")));
  memory.context_ = &context;
  memory.bytes_ = bytes;
  return memory;
}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  if (this == &other) return *this;
  Free();
  context_ = std::exchange(other.context_, nullptr);
  address_ = std::exchange(other.address_, 0);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void DeviceMemory::Free() {
  // An error here is one that an earlier call has already reported.
  if (context_ != nullptr) context_->driver.cuMemFree(address_);
  context_ = nullptr;
}

}  // namespace tune::cuda
