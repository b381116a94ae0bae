// SPDX-License-Identifier: Apache-2.0
// A spec with a bit of everything, for the tests of kernels and sweeps.
#pragma once

#include <map>
#include <string>

namespace tune {

inline std::string TestSpecText() {
  return R"spec(name: "scale"
summary: "y = a * x, row by row"
source: "scale.cu"
headers: "vec.h"
entry: "scale"
dims { name: "rows" default_value: 8192 min: 1 on { target: "cpu" default_value: 64 } }
dims { name: "cols" default_value: 4096 min: 1 max: 262144 }
dims { name: "mode" default_value: 0 values: [0, 1] match: DIM_MATCH_EXACT }
dtypes: ["bf16", "f32"]
params {
  name: "THREADS"
  values: "pow2(32, 1024)"
  default_value: "256"
  on { target: "cpu" values: "[1, 4]" default_value: "1" }
}
params { name: "VEC" values: "[1, 2, 4, 8]" default_value: "16 // dtype_bytes // 2" }
params { name: "PATH" values: "['regs', 'smem']" default_value: "'regs'" }
params { name: "CLUSTER" values: "[1, 2] if sm >= 90 else [1]" default_value: "1" }
lets { name: "vec_bytes" value: "VEC * dtype_bytes" }
lets { name: "chunks" value: "ceil_div(cols, THREADS * VEC)" }
lets { name: "elements" value: "rows * cols" }
constraints { expression: "vec_bytes <= 16" doc: "widest load" }
constraints { expression: "cols % VEC == 0 and (PATH == 'smem' or chunks <= 64)" }
defines { name: "CHUNKS" value: "chunks" }
defines { name: "VEC_T" value: "'uint4' if vec_bytes == 16 else 'char'" }
args { name: "x" buffer { dtype: "dtype" shape: ["rows", "cols"] role: ROLE_INPUT } }
args { name: "y" buffer { dtype: "dtype" shape: ["elements"] role: ROLE_OUTPUT } }
args { name: "count" buffer { dtype: "i32" shape: "rows" role: ROLE_INOUT
                              fill { kind: CONSTANT low: 3 } } }
args { name: "a" scalar { dtype: "f32" value: "1 / cols" } }
args { name: "n" scalar { dtype: "i32" value: "cols" } }
args { name: "x_map" tensor_map {
  buffer: "x" dims: ["cols", "rows"] strides: "cols * dtype_bytes" box: ["THREADS", "1"]
  swizzle_bytes: 128
} }
launch {
  grid: "rows * CLUSTER"
  block: "THREADS"
  cluster: "CLUSTER"
  shared_bytes: "THREADS * vec_bytes * 16 if PATH == 'smem' else 0"
}
work { flops: "elements" bytes: "2 * elements * dtype_bytes"
       peak: "'tensor_' + dtype if mode else 'f32'" }
reference {
  entry: "scale_reference"
  launch { grid: "min(rows, sm_count * 8)" block: "128" }
}
tolerances { dtype: "bf16" rtol: 0.01 atol: 0.001 }
targets: ["cpu", "sm_*"]
nvrtc_options: "--use_fast_math"
)spec";
}

inline std::map<std::string, std::string> TestFiles() {
  return {{"scale.cu", "extern \"C\" __global__ void scale() {}"}, {"vec.h", "#pragma once"}};
}

}  // namespace tune
