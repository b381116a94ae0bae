// SPDX-License-Identifier: Apache-2.0
#include "tuner/device/cpu/block_scheduler.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tuner/device/cpu/warp_operation.h"

namespace tune::cpu {
namespace {

using tune_cpu::BarrierKind;
using tune_cpu::kWarpSize;
using tune_cpu::State;
using tune_cpu::WarpKind;

thread_local State thread_state;
thread_local BlockScheduler* thread_scheduler = nullptr;

// Ahead of the dynamic shared memory and behind it.
constexpr size_t kZoneBytes = 65536;
// Memory outside of the zones may neither be written nor read.
constexpr size_t kNoMansBytes = size_t{1} << 20;

std::string ToText(const tune_cpu::Index& index) {
  return absl::StrCat("(", index.x, ",", index.y, ",", index.z, ")");
}

int BarrierResult(BarrierKind kind, unsigned true_count, unsigned arrived_count) {
  switch (kind) {
    case BarrierKind::kPlain:
      return 0;
    case BarrierKind::kCount:
      return static_cast<int>(true_count);
    case BarrierKind::kAnd:
      return true_count == arrived_count;
    case BarrierKind::kOr:
      return true_count != 0;
  }
  return 0;
}

}  // namespace

const tune_cpu::Services BlockScheduler::kServices = {&Barrier, &Warp, &Yield, &ThreadExited,
                                                      &AssertFailed};

void Launch::Fail(absl::Status why) {
  MutexLock lock(mutex);
  if (failure.ok()) failure = std::move(why);
  failed.store(true, std::memory_order_relaxed);
}

State& BlockScheduler::ThreadState() { return thread_state; }

long BlockScheduler::StateOffset() {
  char* pointer;
#if defined(__x86_64__)
  __asm__("movq %%fs:0, %0" : "=r"(pointer));
#else
  __asm__("mrs %0, tpidr_el0" : "=r"(pointer));
#endif
  return reinterpret_cast<char*>(&thread_state) - pointer;
}

BlockScheduler::BlockScheduler(uint64_t shared_bytes_max) : shared_bytes_max_(shared_bytes_max) {
  const size_t bytes = 2 * kZoneBytes + shared_bytes_max;
  mapping_ = mmap(nullptr, bytes + 2 * kNoMansBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) std::abort();  // as where a small object finds no memory
  unsigned char* front = static_cast<unsigned char*>(mapping_) + kNoMansBytes;
  if (mprotect(front, bytes, PROT_READ | PROT_WRITE) != 0) std::abort();
  // Touched here, by the OS thread that uses it, and not within the first timed launch.
  std::memset(front, 0, bytes);
  shared_ = front + kZoneBytes;
}

BlockScheduler::~BlockScheduler() {
  fibers_.clear();
  munmap(mapping_, 2 * kZoneBytes + shared_bytes_max_ + 2 * kNoMansBytes);
}

SharedMemory BlockScheduler::shared_memory() const {
  return {.data = shared_, .front_bytes = kZoneBytes, .bytes_max = shared_bytes_max_ + kZoneBytes};
}

void BlockScheduler::Run(Launch& launch) {
  if (host_ == nullptr) host_ = MakeHostFiber();
  launch_ = &launch;
  thread_scheduler = this;
  thread_state.block_dim = launch.block;
  thread_state.grid_dim = launch.grid;
  thread_state.thread_count = launch.block.x * launch.block.y * launch.block.z;
  thread_state.shared = shared_;
  thread_state.shared_bytes = launch.shared_bytes;
  thread_state.services = &kServices;
  thread_state.reversed = launch.reversed ? 1 : 0;
  take_next_ = take_end_ = 0;
  if (!NextBlock()) return;
  running_ = TakeIdle();
  if (running_ == nullptr) return;
  SwitchFiber(*host_, *running_);
  if (launch.failed.load(std::memory_order_relaxed)) {
    // Some threads were left where they stood.
    idle_.clear();
    for (const std::unique_ptr<Fiber>& fiber : fibers_) {
      ResetFiber(*fiber, &RunFiber);
      idle_.push_back(fiber.get());
    }
  }
}

bool BlockScheduler::NextBlock() {
  if (take_next_ == take_end_) {
    if (launch_->failed.load(std::memory_order_relaxed)) return false;
    take_next_ = launch_->next_block.fetch_add(launch_->blocks_per_take, std::memory_order_relaxed);
    if (take_next_ >= launch_->block_count) {
      take_next_ = take_end_ = 0;
      return false;
    }
    take_end_ = std::min(take_next_ + launch_->blocks_per_take, launch_->block_count);
  }
  BeginBlock(take_next_++);
  return true;
}

void BlockScheduler::BeginBlock(uint64_t index) {
  State& state = thread_state;
  const tune_cpu::Index& grid = launch_->grid;
  state.block.x = static_cast<unsigned>(index % grid.x);
  state.block.y = static_cast<unsigned>(index / grid.x % grid.y);
  state.block.z = static_cast<unsigned>(index / grid.x / grid.y);
  state.next_thread = 0;
  state.next_index = {0, 0, 0};
  state.exited_count = 0;
  state.suspended_count = 0;
  const unsigned warps = (state.thread_count + kWarpSize - 1) / kWarpSize;
  for (unsigned warp = 0; warp < warps; ++warp) {
    state.exited_lanes[warp] = 0;
    warps_[warp].meeting_count = 0;
  }
  // Lanes that the block does not have are as good as returned.
  const unsigned rest = state.thread_count % kWarpSize;
  if (rest != 0) state.exited_lanes[warps - 1] = ~0u << rest;
  ready_first_ = ready_end_ = 0;
  at_barrier_count_ = 0;
  barrier_true_count_ = 0;
}

void BlockScheduler::RunFiber(Fiber& self) {
  BlockScheduler& scheduler = *thread_scheduler;
  State& state = thread_state;
  for (;;) {
    scheduler.running_ = &self;
    scheduler.launch_->threads(scheduler.launch_->args);
    if (state.suspended_count == 0) {
      if (scheduler.NextBlock()) continue;
      scheduler.idle_.push_back(&self);
      SwitchFiber(self, *scheduler.host_);
      continue;
    }
    Fiber* next = scheduler.TakeReady();
    if (next == nullptr) scheduler.FailLaunch(scheduler.DescribeDeadlock());
    scheduler.idle_.push_back(&self);
    SwitchFiber(self, *next);
  }
}

void BlockScheduler::Suspend(const Wait& wait) {
  State& state = thread_state;
  Fiber& self = *running_;
  self.thread = state.thread;
  self.linear_thread = state.linear_thread;
  self.wait = wait;
  ++state.suspended_count;
  Fiber* next = nullptr;
  // A fiber that yields lets others start first: it may be waiting for them.
  if (wait.kind != Wait::Kind::kYield) next = TakeReady();
  if (next == nullptr && state.next_thread < state.thread_count) {
    next = TakeIdle();
    if (next == nullptr) FailLaunch("no stack for another thread");
  }
  if (next == nullptr) next = TakeReady();
  if (next == nullptr) FailLaunch(DescribeDeadlock());
  if (next != &self) SwitchFiber(self, *next);
  running_ = &self;
  --state.suspended_count;
  state.thread = self.thread;
  state.linear_thread = self.linear_thread;
  self.wait.kind = Wait::Kind::kNone;
}

Fiber* BlockScheduler::TakeReady() {
  if (ready_first_ == ready_end_) return nullptr;
  return ready_[ready_first_++ % ready_.size()];
}

Fiber* BlockScheduler::TakeIdle() {
  if (idle_.empty()) {
    auto fiber = MakeFiber(static_cast<unsigned short>(fibers_.size()), &RunFiber);
    if (!fiber.ok()) {
      launch_->Fail(absl::FailedPreconditionError(fiber.status().message()));
      return nullptr;
    }
    fibers_.push_back(*std::move(fiber));
    return fibers_.back().get();
  }
  Fiber* fiber = idle_.back();
  idle_.pop_back();
  return fiber;
}

void BlockScheduler::FailLaunch(absl::Status why) {
  launch_->Fail(std::move(why));
  AbandonFiber(*running_, *host_);
}

void BlockScheduler::FailLaunch(std::string message) {
  FailLaunch(absl::FailedPreconditionError(message));
}

void BlockScheduler::AssertFailed(const char* expression, const char* file, int line) {
  thread_scheduler->FailLaunch(absl::AbortedError(
      absl::StrCat(file, ":", line, ": assertion failed: ", expression, ", in block ",
                   ToText(thread_state.block), ", thread ", ToText(thread_state.thread))));
}

int BlockScheduler::Barrier(BarrierKind kind, int predicate, int line) {
  BlockScheduler& self = *thread_scheduler;
  if (self.at_barrier_count_ == 0) {
    self.barrier_true_count_ = 0;
    self.barrier_kind_ = kind;
  } else if (self.barrier_kind_ != kind) {
    self.FailLaunch(absl::StrCat("line ", line, ": threads of block ", ToText(thread_state.block),
                                 " are at different kinds of __syncthreads"));
  }
  self.barrier_true_count_ += predicate != 0 ? 1 : 0;
  const unsigned arrived = self.at_barrier_count_ + 1;
  if (arrived + thread_state.exited_count == thread_state.thread_count) {
    self.barrier_arrived_count_ = arrived;
    self.ReleaseBarrier();
    return self.barrier_result_;
  }
  self.at_barrier_[self.at_barrier_count_++] = self.running_;
  self.Suspend({Wait::Kind::kBarrier, 0, line});
  // The next barrier cannot end before this thread gets there, so the result still stands.
  return self.barrier_result_;
}

void BlockScheduler::ReleaseBarrier() {
  barrier_result_ = BarrierResult(barrier_kind_, barrier_true_count_, barrier_arrived_count_);
  for (unsigned i = 0; i < at_barrier_count_; ++i) {
    ready_[ready_end_++ % ready_.size()] = at_barrier_[i];
  }
  at_barrier_count_ = 0;
}

unsigned long long BlockScheduler::Warp(WarpKind kind, unsigned mask, unsigned long long value,
                                        unsigned source, int line) {
  BlockScheduler& self = *thread_scheduler;
  const unsigned linear = thread_state.linear_thread;
  const unsigned warp = linear / kWarpSize;
  const unsigned lane_bit = 1u << (linear % kWarpSize);
  if ((mask & lane_bit) == 0) {
    self.FailLaunch(
        absl::StrFormat("line %d: thread %s calls a warp operation with the mask %#x, "
                        "in which its own lane %d is missing",
                        line, ToText(thread_state.thread), mask, linear % kWarpSize));
  }
  self.lanes_[linear] = {value, 0, source, self.running_};
  WarpState& state = self.warps_[warp];
  unsigned index = 0;
  while (index < state.meeting_count && state.meetings[index].mask != mask) ++index;
  if (index == state.meeting_count) {
    state.meetings[index] = {mask, 0, kind};
    ++state.meeting_count;
  }
  Meeting& meeting = state.meetings[index];
  if (meeting.kind != kind) {
    self.FailLaunch(
        absl::StrFormat("line %d: lanes of one warp call different operations with the "
                        "same mask %#x",
                        line, mask));
  }
  meeting.arrived |= lane_bit;
  if (self.IsComplete(meeting, warp)) {
    self.lanes_[linear].fiber = nullptr;  // It goes on by itself.
    self.Conclude(warp, index);
  } else {
    self.Suspend({Wait::Kind::kWarp, mask, line});
  }
  return self.lanes_[linear].result;
}

bool BlockScheduler::IsComplete(const Meeting& meeting, unsigned warp) const {
  const unsigned here = meeting.arrived | thread_state.exited_lanes[warp];
  return (here & meeting.mask) == meeting.mask;
}

void BlockScheduler::Conclude(unsigned warp, unsigned meeting_index) {
  WarpState& state = warps_[warp];
  const Meeting meeting = state.meetings[meeting_index];
  state.meetings[meeting_index] = state.meetings[--state.meeting_count];
  Lane* lanes = &lanes_[warp * kWarpSize];
  WarpValues values;
  for (unsigned lane = 0; lane < kWarpSize; ++lane) {
    values.value[lane] = lanes[lane].value;
    values.source[lane] = lanes[lane].source;
  }
  Resolve(meeting.kind, meeting.arrived, values);
  for (unsigned left = meeting.arrived; left != 0; left &= left - 1) {
    Lane& lane = lanes[__builtin_ctz(left)];
    lane.result = values.result[__builtin_ctz(left)];
    if (lane.fiber != nullptr) ready_[ready_end_++ % ready_.size()] = lane.fiber;
  }
}

void BlockScheduler::ConcludeWhatExitCompletes(unsigned warp) {
  for (unsigned i = 0; i < warps_[warp].meeting_count;) {
    if (IsComplete(warps_[warp].meetings[i], warp)) {
      Conclude(warp, i);  // Moves another meeting to this place.
    } else {
      ++i;
    }
  }
}

void BlockScheduler::Yield() {
  BlockScheduler& self = *thread_scheduler;
  self.ready_[self.ready_end_++ % self.ready_.size()] = self.running_;
  self.Suspend({Wait::Kind::kYield, 0, 0});
}

void BlockScheduler::ThreadExited() {
  BlockScheduler& self = *thread_scheduler;
  const unsigned waiting = self.at_barrier_count_;
  if (waiting != 0 && waiting + thread_state.exited_count == thread_state.thread_count) {
    self.barrier_arrived_count_ = waiting;
    self.ReleaseBarrier();
  }
  self.ConcludeWhatExitCompletes(thread_state.linear_thread / kWarpSize);
}

std::string BlockScheduler::DescribeDeadlock() const {
  const State& state = thread_state;
  std::string text =
      absl::StrCat("deadlock in block ", ToText(state.block), ": ", state.exited_count, " of ",
                   state.thread_count, " threads have returned");
  // An example of each kind of wait, up to four.
  std::vector<Wait> seen;
  for (const std::unique_ptr<Fiber>& fiber : fibers_) {
    const Wait& wait = fiber->wait;
    if (wait.kind == Wait::Kind::kNone) continue;
    const bool known = std::any_of(seen.begin(), seen.end(), [&wait](const Wait& other) {
      return other.kind == wait.kind && other.line == wait.line && other.mask == wait.mask;
    });
    if (known || seen.size() == 4) continue;
    seen.push_back(wait);
    absl::StrAppend(&text, "; thread ", ToText(fiber->thread), " waits at line ", wait.line);
    if (wait.kind == Wait::Kind::kBarrier) absl::StrAppend(&text, " for __syncthreads");
    if (wait.kind == Wait::Kind::kWarp) {
      absl::StrAppend(&text, absl::StrFormat(" for the lanes %#x of its warp", wait.mask));
    }
  }
  return text;
}

}  // namespace tune::cpu
