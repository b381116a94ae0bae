// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/tensor_map.h"

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune::cuda {
namespace {

constexpr size_t kRankMax = 5;

CUtensorMapDataType DataTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    case DType::kF32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case DType::kF16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::kBF16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::kI8:
    case DType::kU8:
    case DType::kE4M3:
    case DType::kBool:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case DType::kI16:
    case DType::kU16:
      return CU_TENSOR_MAP_DATA_TYPE_UINT16;
    case DType::kI32:
      return CU_TENSOR_MAP_DATA_TYPE_INT32;
    case DType::kU32:
      return CU_TENSOR_MAP_DATA_TYPE_UINT32;
    case DType::kI64:
      return CU_TENSOR_MAP_DATA_TYPE_INT64;
    case DType::kU64:
      return CU_TENSOR_MAP_DATA_TYPE_UINT64;
  }
  return CU_TENSOR_MAP_DATA_TYPE_UINT8;
}

std::optional<CUtensorMapSwizzle> SwizzleOf(int bytes) {
  switch (bytes) {
    case 0:
      return CU_TENSOR_MAP_SWIZZLE_NONE;
    case 32:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case 64:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case 128:
      return CU_TENSOR_MAP_SWIZZLE_128B;
    default:
      return std::nullopt;
  }
}

std::optional<CUtensorMapL2promotion> PromotionOf(int bytes) {
  switch (bytes) {
    case 0:
      return CU_TENSOR_MAP_L2_PROMOTION_NONE;
    case 64:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_64B;
    case 128:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
    case 256:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
    default:
      return std::nullopt;
  }
}

// The driver answers every broken rule with INVALID_VALUE; these words say which it was.
absl::Status CheckPlan(const TensorMapPlan& plan, DType dtype, int64_t count) {
  auto error = [&plan](auto... words) {
    return absl::InvalidArgumentError(absl::StrCat("tensor map '", plan.name, "': ", words...));
  };
  const size_t rank = plan.dims.size();
  if (rank == 0 || rank > kRankMax) return error("has ", rank, " dims; 1 to 5 are possible");
  if (plan.box.size() != rank) return error("has ", rank, " dims but ", plan.box.size(), " in box");
  if (plan.strides_bytes.size() + 1 != rank) {
    return error("needs one stride fewer than dims, has ", plan.strides_bytes.size());
  }
  const int64_t bytes = count * SizeInBytes(dtype);
  int64_t last_byte = SizeInBytes(dtype);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t stride = i == 0 ? SizeInBytes(dtype) : plan.strides_bytes[i - 1];
    if (plan.dims[i] < 1 || plan.dims[i] > (int64_t{1} << 32)) {
      return error("dims[", i, "] is ", plan.dims[i], "; 1 to 2^32 are possible");
    }
    if (plan.box[i] < 1 || plan.box[i] > 256) {
      return error("box[", i, "] is ", plan.box[i], "; 1 to 256 are possible");
    }
    if (i > 0 && (stride < 16 || stride % 16 != 0 || stride >= (int64_t{1} << 40))) {
      return error("strides[", i - 1, "] is ", stride,
                   " bytes; multiples of 16 below 2^40 are possible");
    }
    if (last_byte > bytes || plan.dims[i] - 1 > (bytes - last_byte) / stride) {
      return error("dims[", i, "] reaches past the end of '", plan.buffer.name, "', which has ",
                   bytes, " bytes");
    }
    last_byte += (plan.dims[i] - 1) * stride;
  }
  const int64_t inner_bytes = plan.box[0] * SizeInBytes(dtype);
  if (inner_bytes % 16 != 0) {
    return error("box[0] is ", inner_bytes, " bytes; multiples of 16 are possible");
  }
  if (plan.swizzle_bytes != 0 && inner_bytes > plan.swizzle_bytes) {
    return error("box[0] is ", inner_bytes, " bytes, more than its swizzle of ",
                 plan.swizzle_bytes);
  }
  if (!SwizzleOf(plan.swizzle_bytes)) return error("swizzle_bytes must be 0, 32, 64 or 128");
  if (!PromotionOf(plan.l2_promotion_bytes)) {
    return error("l2_promotion_bytes must be 0, 64, 128 or 256");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CUtensorMap> EncodeTensorMap(const DriverApi& driver, const TensorMapPlan& plan,
                                            DType dtype, CUdeviceptr address, int64_t count) {
  RETURN_IF_ERROR(CheckPlan(plan, dtype, count));
  const size_t rank = plan.dims.size();
  cuuint64_t dims[kRankMax] = {};
  cuuint64_t strides[kRankMax] = {};
  cuuint32_t box[kRankMax] = {};
  cuuint32_t element_strides[kRankMax] = {1, 1, 1, 1, 1};
  for (size_t i = 0; i < rank; ++i) {
    dims[i] = static_cast<cuuint64_t>(plan.dims[i]);
    box[i] = static_cast<cuuint32_t>(plan.box[i]);
    if (i > 0) strides[i - 1] = static_cast<cuuint64_t>(plan.strides_bytes[i - 1]);
  }
  CUtensorMap map = {};
  const CUresult result = driver.cuTensorMapEncodeTiled(
      &map, DataTypeOf(dtype), static_cast<cuuint32_t>(rank), reinterpret_cast<void*>(address),
      dims, strides, box, element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE,
      *SwizzleOf(plan.swizzle_bytes), *PromotionOf(plan.l2_promotion_bytes),
      plan.nan_padding ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
                       : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor map '", plan.name, "': cuTensorMapEncodeTiled: ", driver.ErrorText(result)));
  }
  return map;
}

}  // namespace tune::cuda
