// SPDX-License-Identifier: Apache-2.0
#include "client/web/job_stream.h"

#include <utility>

#include "client/web/daemon_calls.h"

namespace tune::client {

std::shared_ptr<JobStream> JobStream::Open(const std::shared_ptr<grpc::Channel>& channel,
                                           int64_t job_id, const std::string& token,
                                           Handlers handlers) {
  std::shared_ptr<JobStream> stream(new JobStream(std::move(handlers)));
  {
    MutexLock lock(stream->mutex_);
    stream->self_ = stream;
  }
  SetReader(token, stream->context_);
  stream->request_.set_job_id(job_id);
  stream->stub_ = v1::JobService::NewStub(channel);
  stream->stub_->async()->WatchJob(&stream->context_, &stream->request_, stream.get());
  stream->StartRead(&stream->event_);
  stream->AddHold();  // reads start outside of gRPC's calls
  stream->StartCall();
  return stream;
}

void JobStream::Next() {
  {
    MutexLock lock(mutex_);
    if (reading_) return;
    reading_ = true;
  }
  StartRead(&event_);
}

void JobStream::Cancel() {
  context_.TryCancel();
  Next();  // fails, which ends the call
}

void JobStream::OnReadDone(bool ok) {
  if (!ok) {
    RemoveHold();
    return;
  }
  {
    MutexLock lock(mutex_);
    reading_ = false;
  }
  handlers_.event(event_);
}

void JobStream::OnDone(const grpc::Status& status) {
  handlers_.end(status);
  std::shared_ptr<JobStream> self;
  MutexLock lock(mutex_);
  self = std::move(self_);
}

}  // namespace tune::client
