// SPDX-License-Identifier: Apache-2.0
// must: end
#include "compile.cu"
#include "compile.cu"
