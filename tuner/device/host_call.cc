// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/host_call.h"

#include "absl/strings/str_cat.h"
#include "tuner/device/elements.h"
#include "tuner/device/fill.h"
#include "tuner/device/problem_checks.h"
#include "tuner/device/structured_fill.h"

namespace tune {

std::string ElementsOf(const BufferPlan& buffer, const HostCall& call) {
  for (const BufferFile& file : call.files) {
    if (file.buffer == buffer.name && !file.expected) return file.elements;
  }
  const uint64_t key = FillKey(call.seed, KeyNameOf(buffer).c_str());
  if (IsStructured(buffer.fill.kind)) return StructuredElements(buffer, key);
  std::string elements(DataBytes(buffer), '\0');
  FillElements(buffer.dtype, buffer.fill, key, 0, buffer.count, elements.data());
  return elements;
}

DType ResultDType(const BufferPlan& buffer, const HostCall& call) {
  return IsFloat(buffer.dtype) ? call.wide : buffer.dtype;
}

absl::Status TakeResults(const HostCall& call, const std::string& results,
                         std::vector<BufferFile>& files) {
  const auto wrong = [&] {
    return absl::DataLossError(
        absl::StrCat("the reference gave ", results.size(), " bytes, which are not its outputs"));
  };
  size_t at = 0;
  for (const BufferPlan& buffer : call.buffers) {
    if (!IsChecked(buffer.role)) continue;
    const DType dtype = ResultDType(buffer, call);
    const size_t bytes =
        static_cast<size_t>(buffer.count) * static_cast<size_t>(SizeInBytes(dtype));
    if (bytes > results.size() - at) return wrong();
    files.push_back({buffer.name, dtype, results.substr(at, bytes), /*expected=*/true});
    at += bytes;
  }
  return at == results.size() ? absl::OkStatus() : wrong();
}

}  // namespace tune
