// SPDX-License-Identifier: Apache-2.0
// As much of libcuda.so.1 as a launch needs, on a host without a GPU: it writes down what it is
// called with, a line each, to the file that FAKE_DRIVER_LOG names. "Device memory" is the host's.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  int id;
  int pad;
  unsigned value[16];
} Attribute;
typedef struct {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  Attribute* attributes;
  unsigned attribute_count;
} Config;

static char variable[4096];
static void* current;

static FILE* Log(void) { return fopen(getenv("FAKE_DRIVER_LOG"), "a"); }

int cuCtxGetCurrent(void** context) { return *context = current, 0; }
int cuCtxSetCurrent(void* context) { return current = context, 0; }
int cuDevicePrimaryCtxRetain(void** context, int device) {
  return *context = (void*)(intptr_t)(device + 1), 0;
}
int cuModuleLoadData(void** module, const char* image) {
  if (strncmp(image, "cubin", 5) != 0) return 200;
  return *module = (void*)image, 0;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  return *function = strdup(name), 0;
}
int cuModuleGetGlobal_v2(uint64_t* place, size_t* bytes, void* module, const char* name) {
  return *place = (uint64_t)(uintptr_t)variable, *bytes = (size_t)atoi(name + 1), 0;
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  FILE* log = Log();
  fprintf(log, "attribute %s %d %d\n", (char*)function, attribute, value);
  return fclose(log);
}
// Three of them, whatever their size.
int cuOccupancyMaxActiveClusters(int* count, void* function, const Config* config) {
  return *count = 3, config->attributes->id != 4;
}
int cuMemsetD8Async(uint64_t place, unsigned char value, size_t bytes, void* stream) {
  memset((void*)(uintptr_t)place, value, bytes);
  FILE* log = Log();
  fprintf(log, "memset %zu\n", bytes);
  return fclose(log);
}
int cuMemcpyDtoDAsync_v2(uint64_t target, uint64_t source, size_t bytes, void* stream) {
  memcpy((void*)(uintptr_t)target, (void*)(uintptr_t)source, bytes);
  return 0;
}
int cuTensorMapEncodeTiled(char* map, int type, unsigned rank, uint64_t address,
                           const uint64_t* dims, const uint64_t* strides, const unsigned* box,
                           const unsigned* steps, int interleave, int swizzle, int promotion,
                           int fill) {
  memset(map, 0, 128);
  sprintf(map, "map %d %u %llu %llu %u %d %d", type, rank, (unsigned long long)dims[0],
          (unsigned long long)strides[0], box[1], swizzle, promotion);
  return (uintptr_t)map % 64 != 0;
}
int cuGetErrorName(int code, const char** name) {
  return *name = code == 200 ? "CUDA_ERROR_INVALID_IMAGE" : "CUDA_ERROR_LAUNCH_FAILED", 0;
}

// An event is told by its address.
int cuEventCreate(void** event, unsigned flags) { return *event = malloc(1), flags != 2; }
int cuEventDestroy_v2(void* event) { return free(event), 0; }
int cuEventRecord(void* event, void* stream) {
  FILE* log = Log();
  fprintf(log, "record %d\n", (int)(intptr_t)stream);
  return fclose(log);
}
int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  FILE* log = Log();
  fprintf(log, "wait %d\n", (int)(intptr_t)stream);
  return fclose(log);
}

// Arguments of a kernel "name_psfim": pointers to floats (their first element is told), sizes (i64),
// floats, ints, tensor maps. One that is called "bad" cannot be launched.
int cuLaunchKernelEx(const Config* config, const char* function, void** args, void** extra) {
  if (strncmp(function, "bad", 3) == 0) return 719;
  FILE* log = Log();
  fprintf(log, "launch %s grid %u %u %u block %u %u %u shared %u", function, config->grid[0],
          config->grid[1], config->grid[2], config->block[0], config->block[1], config->block[2],
          config->shared_bytes);
  if (config->stream != NULL) fprintf(log, " stream %d", (int)(intptr_t)config->stream);
  for (unsigned i = 0; i < config->attribute_count; ++i) {
    const Attribute* one = &config->attributes[i];
    fprintf(log, " attribute %d %u %u %u", one->id, one->value[0], one->value[1], one->value[2]);
  }
  for (const char* kind = strchr(function, '_'); *++kind != 0; ++args) {
    if (*kind == 'p') fprintf(log, " %g", **(float**)*args);
    if (*kind == 's') fprintf(log, " %lld", *(long long*)*args);
    if (*kind == 'f') fprintf(log, " %g", *(float*)*args);
    if (*kind == 'i') fprintf(log, " %d", *(int*)*args);
    if (*kind == 'm') fprintf(log, " [%s]", (char*)*args);
  }
  fprintf(log, " variable %g\n", *(float*)variable);
  return fclose(log);
}
