// SPDX-License-Identifier: Apache-2.0
// As much of libnvidia-ml.so.1 as telling GPUs takes, on a host without one: an H200 and an A100, or
// two H200s if FAKE_NVML_ALIKE is 1. A handle is the GPU's number plus 1; one of a slice is 100 more.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int IsH200(void* handle) {
  return (intptr_t)handle == 1 || strcmp(getenv("FAKE_NVML_ALIKE"), "1") == 0;
}

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char* version, unsigned bytes) {
  return strcpy(version, "580.65.06"), 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) { return *count = 2, 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  return *handle = (void*)(intptr_t)(index + 1), 0;
}
int nvmlDeviceGetName(void* handle, char* name, unsigned bytes) {
  strcpy(name, IsH200(handle) ? "NVIDIA H200" : "NVIDIA A100");
  return 0;
}
int nvmlDeviceGetUUID(void* handle, char* uuid, unsigned bytes) {
  strcpy(uuid, (intptr_t)handle == 1 ? "GPU-00000000-aaaa" : "GPU-11111111-bbbb");
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void* handle, int* major, int* minor) {
  *major = IsH200(handle) ? 9 : 8, *minor = 0;
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** handle) {
  if (strncmp(uuid, "MIG-of-", 7) != 0) return 6;
  return *handle = (void*)(intptr_t)(101 + atoi(uuid + 7)), 0;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void* slice, void** handle) {
  return *handle = (void*)((intptr_t)slice - 100), 0;
}
