// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cuda/range_profiler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tune::cuda {
namespace {

constexpr char kRangeName[] = "variant";
// More passes than CUPTI announced are a loop without end.
constexpr int kPassesSlack = 2;

// A part of a device's support that is in the way, or null.
const char* Unsupported(const CUpti_Profiler_DeviceSupported_Params& support) {
  const auto bad = [](CUpti_Profiler_Support_Level level) {
    return level == CUPTI_PROFILER_CONFIGURATION_UNSUPPORTED ||
           level == CUPTI_PROFILER_CONFIGURATION_DISABLED;
  };
  if (bad(support.architecture)) return "the GPU is older than compute capability 7.5";
  if (support.vGpu == CUPTI_PROFILER_CONFIGURATION_DISABLED) {
    return "profiling of this virtual GPU is switched off: ask the hypervisor's administrator";
  }
  if (bad(support.vGpu)) return "counters of a virtual GPU cannot be read";
  if (bad(support.confidentialCompute)) return "confidential computing does not allow profiling";
  if (bad(support.cmp)) return "a mining processor has no counters to read";
  if (bad(support.wsl)) return "counters cannot be read under WSL";
  if (bad(support.sli)) return "counters cannot be read under SLI";
  return nullptr;
}

CounterReading Summary(const std::string& name, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {name, values[values.size() / 2], values.front(), values.back()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<RangeProfiler>> RangeProfiler::Open(const DeviceContext& context,
                                                                   const Toolkit& toolkit) {
  ASSIGN_OR_RETURN(CuptiProfilerApi cupti, CuptiProfilerApi::Load(toolkit));
  std::unique_ptr<RangeProfiler> profiler(new RangeProfiler(context, cupti));
  RETURN_IF_ERROR(profiler->Initialise());
  RETURN_IF_ERROR(profiler->CheckSupported());
  ASSIGN_OR_RETURN(std::string chip, profiler->ChipName());
  ASSIGN_OR_RETURN(std::vector<uint8_t> availability, profiler->Availability());
  ASSIGN_OR_RETURN(ProfilerHost host,
                   ProfilerHost::Create(cupti, std::move(chip), std::move(availability)));
  profiler->host_ = std::make_unique<ProfilerHost>(std::move(host));
  // Whether counting is allowed shows here.
  RETURN_IF_ERROR(profiler->Enable());
  profiler->Disable();
  return profiler;
}

RangeProfiler::~RangeProfiler() {
  Disable();
  if (initialised_) {
    TUNE_CUPTI_PARAMS(CUpti_Profiler_DeInitialize_Params, params);
    cupti_.cuptiProfilerDeInitialize(&params);
  }
}

absl::Status RangeProfiler::Initialise() {
  TUNE_CUPTI_PARAMS(CUpti_Profiler_Initialize_Params, params);
  RETURN_IF_ERROR(cupti_.Check(cupti_.cuptiProfilerInitialize(&params), "cuptiProfilerInitialize"));
  initialised_ = true;
  return absl::OkStatus();
}

absl::Status RangeProfiler::CheckSupported() {
  TUNE_CUPTI_PARAMS(CUpti_Profiler_DeviceSupported_Params, params);
  params.cuDevice = context_.device;
  params.api = CUPTI_PROFILER_RANGE_PROFILING;
  RETURN_IF_ERROR(
      cupti_.Check(cupti_.cuptiProfilerDeviceSupported(&params), "cuptiProfilerDeviceSupported"));
  if (params.isSupported == CUPTI_PROFILER_CONFIGURATION_SUPPORTED) return absl::OkStatus();
  const char* reason = Unsupported(params);
  // "Unknown" is for the calls that follow to find out.
  if (reason == nullptr && params.isSupported == CUPTI_PROFILER_CONFIGURATION_UNKNOWN) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(reason == nullptr ? "CUPTI does not support this GPU"
                                                         : reason);
}

absl::StatusOr<std::string> RangeProfiler::ChipName() {
  TUNE_CUPTI_PARAMS(CUpti_Device_GetChipName_Params, params);
  params.deviceIndex = static_cast<size_t>(context_.device);
  RETURN_IF_ERROR(cupti_.Check(cupti_.cuptiDeviceGetChipName(&params), "cuptiDeviceGetChipName"));
  return std::string(params.pChipName);
}

absl::StatusOr<std::vector<uint8_t>> RangeProfiler::Availability() {
  TUNE_CUPTI_PARAMS(CUpti_Profiler_GetCounterAvailability_Params, params);
  params.ctx = context_.handle;
  RETURN_IF_ERROR(cupti_.Check(cupti_.cuptiProfilerGetCounterAvailability(&params),
                               "cuptiProfilerGetCounterAvailability"));
  std::vector<uint8_t> image(params.counterAvailabilityImageSize);
  params.pCounterAvailabilityImage = image.data();
  RETURN_IF_ERROR(cupti_.Check(cupti_.cuptiProfilerGetCounterAvailability(&params),
                               "cuptiProfilerGetCounterAvailability"));
  image.resize(params.counterAvailabilityImageSize);
  return image;
}

absl::Status RangeProfiler::Enable() {
  TUNE_CUPTI_PARAMS(CUpti_RangeProfiler_Enable_Params, params);
  params.ctx = context_.handle;
  RETURN_IF_ERROR(
      cupti_.Check(cupti_.cuptiRangeProfilerEnable(&params), "cuptiRangeProfilerEnable"));
  range_profiler_ = params.pRangeProfilerObject;
  return absl::OkStatus();
}

void RangeProfiler::Disable() {
  if (range_profiler_ == nullptr) return;
  TUNE_CUPTI_PARAMS(CUpti_RangeProfiler_Disable_Params, params);
  params.pRangeProfilerObject = std::exchange(range_profiler_, nullptr);
  cupti_.cuptiRangeProfilerDisable(&params);
}

absl::StatusOr<std::vector<uint8_t>> RangeProfiler::NewCounterData(const CounterConfig& config) {
  std::vector<const char*> names = config.Names();
  TUNE_CUPTI_PARAMS(CUpti_RangeProfiler_GetCounterDataSize_Params, size);
  size.pRangeProfilerObject = range_profiler_;
  size.pMetricNames = names.data();
  size.numMetrics = names.size();
  size.maxNumOfRanges = 1;
  size.maxNumRangeTreeNodes = 1;
  RETURN_IF_ERROR(cupti_.Check(cupti_.cuptiRangeProfilerGetCounterDataSize(&size),
                               "cuptiRangeProfilerGetCounterDataSize"));
  std::vector<uint8_t> data(size.counterDataSize);
  TUNE_CUPTI_PARAMS(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, initialise);
  initialise.pRangeProfilerObject = range_profiler_;
  initialise.counterDataSize = data.size();
  initialise.pCounterData = data.data();
  RETURN_IF_ERROR(cupti_.Check(cupti_.cuptiRangeProfilerCounterDataImageInitialize(&initialise),
                               "cuptiRangeProfilerCounterDataImageInitialize"));
  return data;
}

absl::Status RangeProfiler::SetConfig(const CounterConfig& config,
                                      std::vector<uint8_t>& counter_data) {
  TUNE_CUPTI_PARAMS(CUpti_RangeProfiler_SetConfig_Params, params);
  params.pRangeProfilerObject = range_profiler_;
  params.configSize = config.image().size();
  params.pConfig = config.image().data();
  params.counterDataImageSize = counter_data.size();
  params.pCounterDataImage = counter_data.data();
  params.range = CUPTI_UserRange;
  params.replayMode = CUPTI_UserReplay;
  params.maxRangesPerPass = 1;
  params.numNestingLevels = 1;
  params.minNestingLevel = 1;
  params.passIndex = 0;
  params.targetNestingLevel = 1;
  return cupti_.Check(cupti_.cuptiRangeProfilerSetConfig(&params), "cuptiRangeProfilerSetConfig");
}

absl::StatusOr<bool> RangeProfiler::RunPass(const Work& work) {
  RETURN_IF_ERROR(work.prepare());
  RETURN_IF_ERROR(context_.Synchronize());
  TUNE_CUPTI_PARAMS(CUpti_RangeProfiler_Start_Params, start);
  start.pRangeProfilerObject = range_profiler_;
  RETURN_IF_ERROR(cupti_.Check(cupti_.cuptiRangeProfilerStart(&start), "cuptiRangeProfilerStart"));
  TUNE_CUPTI_PARAMS(CUpti_RangeProfiler_PushRange_Params, push);
  push.pRangeProfilerObject = range_profiler_;
  push.pRangeName = kRangeName;
  RETURN_IF_ERROR(
      cupti_.Check(cupti_.cuptiRangeProfilerPushRange(&push), "cuptiRangeProfilerPushRange"));
  RETURN_IF_ERROR(work.launch());
  // The range ends with the kernel, not with its launch.
  RETURN_IF_ERROR(context_.Synchronize());
  TUNE_CUPTI_PARAMS(CUpti_RangeProfiler_PopRange_Params, pop);
  pop.pRangeProfilerObject = range_profiler_;
  RETURN_IF_ERROR(
      cupti_.Check(cupti_.cuptiRangeProfilerPopRange(&pop), "cuptiRangeProfilerPopRange"));
  TUNE_CUPTI_PARAMS(CUpti_RangeProfiler_Stop_Params, stop);
  stop.pRangeProfilerObject = range_profiler_;
  RETURN_IF_ERROR(cupti_.Check(cupti_.cuptiRangeProfilerStop(&stop), "cuptiRangeProfilerStop"));
  return stop.isAllPassSubmitted != 0;
}

absl::Status RangeProfiler::Decode(const std::vector<uint8_t>& counter_data) {
  TUNE_CUPTI_PARAMS(CUpti_RangeProfiler_DecodeData_Params, decode);
  decode.pRangeProfilerObject = range_profiler_;
  RETURN_IF_ERROR(
      cupti_.Check(cupti_.cuptiRangeProfilerDecodeData(&decode), "cuptiRangeProfilerDecodeData"));
  TUNE_CUPTI_PARAMS(CUpti_RangeProfiler_GetCounterDataInfo_Params, info);
  info.pCounterDataImage = counter_data.data();
  info.counterDataImageSize = counter_data.size();
  RETURN_IF_ERROR(cupti_.Check(cupti_.cuptiRangeProfilerGetCounterDataInfo(&info),
                               "cuptiRangeProfilerGetCounterDataInfo"));
  if (decode.numOfRangeDropped == 0 && info.numTotalRanges == 1) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("CUPTI gave ", info.numTotalRanges,
                                          " ranges of 1 and dropped ", decode.numOfRangeDropped));
}

absl::StatusOr<std::vector<double>> RangeProfiler::Read(const CounterConfig& config,
                                                        const Work& work) {
  // A profiler that is configured a second time crashes in its next Start.
  RETURN_IF_ERROR(Enable());
  absl::StatusOr<std::vector<double>> values = ReadEnabled(config, work);
  Disable();
  return values;
}

absl::StatusOr<std::vector<double>> RangeProfiler::ReadEnabled(const CounterConfig& config,
                                                               const Work& work) {
  ASSIGN_OR_RETURN(std::vector<uint8_t> counter_data, NewCounterData(config));
  RETURN_IF_ERROR(SetConfig(config, counter_data));
  bool is_last = false;
  for (int pass = 0; !is_last; ++pass) {
    if (pass > config.pass_count() + kPassesSlack) {
      return absl::InternalError(absl::StrCat("CUPTI wants more than the ", config.pass_count(),
                                              " passes that it announced"));
    }
    ASSIGN_OR_RETURN(is_last, RunPass(work));
  }
  RETURN_IF_ERROR(Decode(counter_data));
  return config.Evaluate(counter_data, /*range=*/0);
}

absl::StatusOr<std::vector<CounterReading>> RangeProfiler::ReadSeveral(const CounterConfig& config,
                                                                       const Work& work,
                                                                       int readings) {
  std::vector<std::vector<double>> values(config.metrics().size());
  for (int reading = 0; reading < std::max(1, readings); ++reading) {
    ASSIGN_OR_RETURN(std::vector<double> read, Read(config, work));
    for (size_t i = 0; i < read.size(); ++i) values[i].push_back(read[i]);
  }
  std::vector<CounterReading> summaries;
  for (size_t i = 0; i < values.size(); ++i) {
    summaries.push_back(Summary(config.metrics()[i], std::move(values[i])));
  }
  return summaries;
}

}  // namespace tune::cuda
