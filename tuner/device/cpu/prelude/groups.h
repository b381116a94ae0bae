// SPDX-License-Identifier: Apache-2.0
// <cooperative_groups.h> of the CPU device: the block and tiles of a warp, by the barriers and warp
// operations that the runner has. What a whole grid or cluster would do is not there, and says so.
#pragma once

namespace cooperative_groups {

class thread_block {
 public:
  TUNE_CPU_MEMBER void sync(int line = __builtin_LINE()) const { __syncthreads(line); }
  TUNE_CPU_MEMBER unsigned thread_rank() const { return tune_cpu::ThisState().linear_thread; }
  TUNE_CPU_MEMBER unsigned num_threads() const { return tune_cpu::ThisState().thread_count; }
  TUNE_CPU_MEMBER unsigned size() const { return num_threads(); }
  TUNE_CPU_MEMBER dim3 group_index() const { return dim3(blockIdx); }
  TUNE_CPU_MEMBER dim3 thread_index() const { return dim3(threadIdx); }
  TUNE_CPU_MEMBER dim3 group_dim() const { return dim3(blockDim); }
  TUNE_CPU_MEMBER dim3 dim_threads() const { return dim3(blockDim); }
};

TUNE_CPU_INLINE thread_block this_thread_block() { return {}; }

// Its threads are known; they do not all run at the same time.
class grid_group {
 public:
  template <class Never = void>
  void sync() const {
    static_assert(!std::is_void_v<Never>,
                  "grid.sync() is not there on the CPU device, whose blocks do not all run at the "
                  "same time: put it under #ifndef TUNE_CPU, or give the spec targets: \"sm_*\"");
  }
  TUNE_CPU_MEMBER unsigned long long num_blocks() const {
    return static_cast<unsigned long long>(gridDim.x) * gridDim.y * gridDim.z;
  }
  TUNE_CPU_MEMBER unsigned long long block_rank() const {
    return blockIdx.x + static_cast<unsigned long long>(gridDim.x) *
                            (blockIdx.y + static_cast<unsigned long long>(gridDim.y) * blockIdx.z);
  }
  TUNE_CPU_MEMBER unsigned long long num_threads() const {
    return num_blocks() * this_thread_block().num_threads();
  }
  TUNE_CPU_MEMBER unsigned long long size() const { return num_threads(); }
  TUNE_CPU_MEMBER unsigned long long thread_rank() const {
    return block_rank() * this_thread_block().num_threads() + this_thread_block().thread_rank();
  }
  TUNE_CPU_MEMBER dim3 group_dim() const { return dim3(gridDim); }
  TUNE_CPU_MEMBER dim3 dim_blocks() const { return dim3(gridDim); }
  TUNE_CPU_MEMBER dim3 block_index() const { return dim3(blockIdx); }
};

TUNE_CPU_INLINE grid_group this_grid() { return {}; }

// Neighbouring threads of a warp.
template <unsigned kSize, class Parent = void>
class thread_block_tile {
  static_assert(kSize >= 1 && kSize <= 32 && (kSize & (kSize - 1)) == 0,
                "a tile of the CPU device has 1, 2, 4, 8, 16 or 32 threads");

 public:
  thread_block_tile() = default;
  // A tile of any group: thread_block_tile<32> t = tiled_partition<32>(block).
  template <class Other>
  thread_block_tile(const thread_block_tile<kSize, Other>&) {}

  TUNE_CPU_MEMBER void sync(int line = __builtin_LINE()) const { __syncwarp(mask(), line); }
  TUNE_CPU_MEMBER unsigned thread_rank() const { return tune_cpu::Lane() % kSize; }
  static constexpr unsigned num_threads() { return kSize; }
  static constexpr unsigned size() { return kSize; }
  TUNE_CPU_MEMBER unsigned meta_group_rank() const {
    return tune_cpu::ThisState().linear_thread / kSize;
  }
  TUNE_CPU_MEMBER unsigned meta_group_size() const {
    return (tune_cpu::ThisState().thread_count + kSize - 1) / kSize;
  }

  template <class T>
  TUNE_CPU_MEMBER T shfl(T value, int source, int line = __builtin_LINE()) const {
    return __shfl_sync(mask(), value, source, kSize, line);
  }
  template <class T>
  TUNE_CPU_MEMBER T shfl_up(T value, unsigned delta, int line = __builtin_LINE()) const {
    return __shfl_up_sync(mask(), value, delta, kSize, line);
  }
  template <class T>
  TUNE_CPU_MEMBER T shfl_down(T value, unsigned delta, int line = __builtin_LINE()) const {
    return __shfl_down_sync(mask(), value, delta, kSize, line);
  }
  template <class T>
  TUNE_CPU_MEMBER T shfl_xor(T value, int lanes, int line = __builtin_LINE()) const {
    return __shfl_xor_sync(mask(), value, lanes, kSize, line);
  }
  TUNE_CPU_MEMBER int any(int predicate, int line = __builtin_LINE()) const {
    return ballot(predicate, line) != 0;
  }
  TUNE_CPU_MEMBER int all(int predicate, int line = __builtin_LINE()) const {
    return ballot(predicate == 0, line) == 0;
  }
  TUNE_CPU_MEMBER unsigned ballot(int predicate, int line = __builtin_LINE()) const {
    return __ballot_sync(mask(), predicate, line) >> first_lane();
  }
  template <class T>
  TUNE_CPU_MEMBER unsigned match_any(T value, int line = __builtin_LINE()) const {
    return __match_any_sync(mask(), value, line) >> first_lane();
  }
  template <class T>
  TUNE_CPU_MEMBER unsigned match_all(T value, int& equal, int line = __builtin_LINE()) const {
    return __match_all_sync(mask(), value, &equal, line) >> first_lane();
  }

 private:
  TUNE_CPU_MEMBER unsigned first_lane() const { return tune_cpu::Lane() & ~(kSize - 1); }
  TUNE_CPU_MEMBER unsigned mask() const {
    return (kSize == 32 ? 0xffffffffu : (1u << (kSize % 32)) - 1u) << first_lane();
  }
};

template <unsigned kSize, class Parent>
TUNE_CPU_INLINE thread_block_tile<kSize, Parent> tiled_partition(const Parent&) {
  return {};
}

// A block or a tile of it, told apart when the kernel runs.
class thread_group {
 public:
  explicit thread_group(unsigned lanes) : lanes_(lanes) {}
  TUNE_CPU_MEMBER thread_group(const thread_block&) {}
  template <unsigned kSize, class Parent>
  TUNE_CPU_MEMBER thread_group(const thread_block_tile<kSize, Parent>&) : lanes_(kSize) {}

  TUNE_CPU_MEMBER void sync(int line = __builtin_LINE()) const {
    if (lanes_ == 0) return __syncthreads(line);
    const unsigned all = lanes_ == 32 ? 0xffffffffu : (1u << lanes_) - 1u;
    __syncwarp(all << (tune_cpu::Lane() & ~(lanes_ - 1)), line);
  }
  TUNE_CPU_MEMBER unsigned thread_rank() const {
    return lanes_ == 0 ? this_thread_block().thread_rank() : tune_cpu::Lane() % lanes_;
  }
  TUNE_CPU_MEMBER unsigned num_threads() const {
    return lanes_ == 0 ? this_thread_block().num_threads() : lanes_;
  }
  TUNE_CPU_MEMBER unsigned size() const { return num_threads(); }

 private:
  unsigned lanes_ = 0;  // of a tile: a power of two up to 32; 0: the block
};

TUNE_CPU_INLINE thread_group tiled_partition(const thread_group&, unsigned lanes) {
  return thread_group(lanes);
}

template <class Group>
TUNE_CPU_INLINE void sync(const Group& group, int line = __builtin_LINE()) {
  group.sync(line);
}
template <class Group>
TUNE_CPU_INLINE unsigned thread_rank(const Group& group) {
  return group.thread_rank();
}
template <class Group>
TUNE_CPU_INLINE unsigned group_size(const Group& group) {
  return group.size();
}

template <class T>
struct plus {
  TUNE_CPU_MEMBER T operator()(T a, T b) const { return a + b; }
};
template <class T>
struct less {
  TUNE_CPU_MEMBER T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T>
struct greater {
  TUNE_CPU_MEMBER T operator()(T a, T b) const { return a < b ? b : a; }
};
template <class T>
struct bit_and {
  TUNE_CPU_MEMBER T operator()(T a, T b) const { return a & b; }
};
template <class T>
struct bit_or {
  TUNE_CPU_MEMBER T operator()(T a, T b) const { return a | b; }
};
template <class T>
struct bit_xor {
  TUNE_CPU_MEMBER T operator()(T a, T b) const { return a ^ b; }
};

// <cooperative_groups/reduce.h> and <cooperative_groups/scan.h>, of tiles.
template <unsigned kSize, class Parent, class T, class Op>
TUNE_CPU_INLINE T reduce(const thread_block_tile<kSize, Parent>& tile, T value, Op op,
                         int line = __builtin_LINE()) {
  for (unsigned lanes = kSize / 2; lanes > 0; lanes /= 2) {
    value = op(value, tile.shfl_xor(value, static_cast<int>(lanes), line));
  }
  return value;
}
template <unsigned kSize, class Parent, class T, class Op>
TUNE_CPU_INLINE T inclusive_scan(const thread_block_tile<kSize, Parent>& tile, T value, Op op,
                                 int line = __builtin_LINE()) {
  for (unsigned lanes = 1; lanes < kSize; lanes *= 2) {
    const T before = tile.shfl_up(value, lanes, line);
    if (tile.thread_rank() >= lanes) value = op(before, value);
  }
  return value;
}
template <unsigned kSize, class Parent, class T>
TUNE_CPU_INLINE T inclusive_scan(const thread_block_tile<kSize, Parent>& tile, T value,
                                 int line = __builtin_LINE()) {
  return inclusive_scan(tile, value, plus<T>(), line);
}
template <unsigned kSize, class Parent, class T>
TUNE_CPU_INLINE T exclusive_scan(const thread_block_tile<kSize, Parent>& tile, T value,
                                 int line = __builtin_LINE()) {
  const T before = tile.shfl_up(inclusive_scan(tile, value, plus<T>(), line), 1, line);
  return tile.thread_rank() == 0 ? T(0) : before;
}

// <cooperative_groups/memcpy_async.h>: the copy is done when `wait` returns.
template <class Group, class T>
TUNE_CPU_INLINE void memcpy_async(const Group& group, T* to, const T* from, size_t bytes) {
  char* out = reinterpret_cast<char*>(to);
  const char* in = reinterpret_cast<const char*>(from);
  for (size_t i = group.thread_rank(); i < bytes; i += group.size()) out[i] = in[i];
}
template <class Group>
TUNE_CPU_INLINE void wait(const Group& group, int line = __builtin_LINE()) {
  group.sync(line);
}

}  // namespace cooperative_groups
