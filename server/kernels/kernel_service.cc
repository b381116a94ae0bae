// SPDX-License-Identifier: Apache-2.0
#include "server/kernels/kernel_service.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/contained.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "server/jobs/feed_reactor.h"
#include "server/kernels/kernel_check.h"
#include "server/kernels/space_query.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/unary.h"
#include "server/wire/nouns.h"
#include "tuner/device_profile.h"

namespace tune::server {
namespace {

constexpr absl::Duration kCheckCap = absl::Minutes(30);
constexpr absl::Duration kCap = absl::Minutes(2);  // other large spaces may be found before

}  // namespace

std::set<std::string> KernelService::TargetsShown() {
  // Targets that people commonly have, whether or not this host has such a device, and the host's
  // own.
  std::set<std::string> targets;
  for (const DeviceProfile* profile : DeviceProfiles()) {
    targets.insert(profile->common_targets.begin(), profile->common_targets.end());
  }
  for (const auto& supervisor : workers_.devices()) {
    const std::string target = supervisor->Status().info.target;
    if (!target.empty()) targets.insert(target);
  }
  return targets;
}

std::vector<std::string> KernelService::TargetsPreferred() {
  std::vector<std::string> targets;
  for (const auto& device : workers_.devices()) targets.push_back(device->Status().info.target);
  for (auto profile = DeviceProfiles().rbegin(); profile != DeviceProfiles().rend(); ++profile) {
    const std::vector<std::string>& common = (*profile)->common_targets;
    targets.insert(targets.end(), common.begin(), common.end());
  }
  targets.erase(std::remove(targets.begin(), targets.end(), ""), targets.end());
  return targets;
}

v1::Kernel KernelService::Describe(const Kernel& kernel, const Cancelled& cancelled) {
  const std::set<std::string> targets = TargetsShown();
  const std::string key = absl::StrCat(kernel.spec().name, " ", absl::StrJoin(targets, " "));
  {
    MutexLock lock(mutex_);
    if (auto it = described_.find(key); it != described_.end()) return it->second;
  }
  v1::Kernel described = ToProto(kernel, targets, {}, "", solver_, cancelled);
  if (cancelled()) return described;  // spaces may be missing
  MutexLock lock(mutex_);
  return described_.emplace(key, std::move(described)).first->second;
}

grpc::ServerUnaryReactor* KernelService::ListKernels(grpc::CallbackServerContext* context,
                                                     const v1::ListKernelsRequest*,
                                                     v1::ListKernelsResponse* response) {
  const auto list = [=, this](const Cancelled& cancelled) {
    for (const auto& [name, named] : catalogue_.kernels()) {
      *response->add_kernels() = Describe(*named.kernel, cancelled);
    }
    return absl::OkStatus();
  };
  return AnswerOn(executors_.waiting, context, kCap, list);
}

grpc::ServerUnaryReactor* KernelService::GetKernel(grpc::CallbackServerContext* context,
                                                   const v1::GetKernelRequest* request,
                                                   v1::Kernel* response) {
  const auto get = [=, this](const Cancelled& cancelled) -> absl::Status {
    ASSIGN_OR_RETURN(NamedKernel named, catalogue_.Find(request->name()));
    *response = Describe(*named.kernel, cancelled);
    response->set_source_text(named.kernel->files().at(named.kernel->spec().source));
    response->set_readme(named.readme);
    return absl::OkStatus();
  };
  return AnswerOn(executors_.waiting, context, kCap, get);
}

grpc::ServerWriteReactor<v1::CheckKernelEvent>* KernelService::CheckKernel(
    grpc::CallbackServerContext* context, const v1::CheckKernelRequest* request) {
  using Reactor = FeedReactor<v1::CheckKernelEvent>;
  std::shared_ptr<Reactor> reactor = Reactor::Make(ticker_);
  const auto feed = std::make_shared<Feed>();
  const absl::Time deadline = DeadlineOf(*context, kCheckCap);
  const std::string name_space =
      principals_ == nullptr ? "" : NameSpaceOf(principals_->Of(*context));
  // The request lives until the call ends, which the client may do at any time.
  const auto check = [this, reactor, feed, deadline, copy = *request, name_space] {
    const CheckHooks hooks = {
        .cancelled =
            [&] { return checks_.stopping() || reactor->over() || SteadyNow() > deadline; },
        .progress =
            [&](const v1::CheckProgress& progress) {
              feed->AddStep(std::make_shared<v1::CheckProgress>(progress));
            }};
    auto response = std::make_shared<v1::CheckKernelResponse>();
    const absl::Status status = Contained([&] {
      return server::CheckKernel(copy, name_space, catalogue_, workers_, solver_, hooks, *response);
    });
    if (status.ok()) feed->AddResult(std::move(response));
    feed->End(status);
    ticker_.Poke();
  };
  const absl::Status queued = checks_.Run(check).status();
  if (!queued.ok()) {
    reactor->End(ToGrpc(queued));
    return reactor.get();
  }
  const auto make = [](const Feed::News& news, std::deque<v1::CheckKernelEvent>& events) {
    for (const Feed::Step& progress : news.steps) {
      events.emplace_back().mutable_progress()->CopyFrom(*progress);
    }
    for (const Feed::Step& response : news.results) {
      events.emplace_back().mutable_response()->CopyFrom(*response);
    }
    return news.status;
  };
  reactor->Claim({.kind = WatchClaim::Kind::kCarrier});  // checks_ bounds them
  reactor->Follow(0, feed, make);
  return reactor.get();
}

grpc::ServerUnaryReactor* KernelService::DescribeSpace(grpc::CallbackServerContext* context,
                                                       const v1::DescribeSpaceRequest* request,
                                                       v1::DescribeSpaceResponse* response) {
  const auto describe = [=, this](const SpaceEffort& effort) {
    response->Clear();
    return server::DescribeSpace(*request, catalogue_, TargetsPreferred(), *response, effort);
  };
  return AnswerOn(executors_.spaces, context, kCap, [=, this](const Cancelled& cancelled) {
    return solver_.Run(describe, cancelled);
  });
}

grpc::ServerUnaryReactor* KernelService::SampleSpace(grpc::CallbackServerContext* context,
                                                     const v1::SampleSpaceRequest* request,
                                                     v1::SampleSpaceResponse* response) {
  const auto sample = [=, this](const SpaceEffort& effort) {
    response->Clear();
    return server::SampleSpace(*request, catalogue_, TargetsPreferred(), *response, effort);
  };
  return AnswerOn(executors_.spaces, context, kCap,
                  [=, this](const Cancelled& cancelled) { return solver_.Run(sample, cancelled); });
}

}  // namespace tune::server
