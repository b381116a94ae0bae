// SPDX-License-Identifier: Apache-2.0
// must: leave nothing
#pragma GCC optimize ("dump-tree-all=@OUTSIDE@/dump")
__attribute__((optimize("-fdump-rtl-all=@OUTSIDE@/dump"))) void dumped() {}
__attribute__((optimize("-fplugin=@OUTSIDE@/plugin.so"))) void plugged() {}
