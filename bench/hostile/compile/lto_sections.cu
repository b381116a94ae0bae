// SPDX-License-Identifier: Apache-2.0
// must: leave nothing
// The linker hands these to a plugin, with options of the source's choice.
__attribute__((section(".gnu.lto_.opts,\"e\",@progbits#"))) const char options[] =
    "'-fplugin=@OUTSIDE@/plugin.so' '-fdump-ipa-all=@OUTSIDE@/dump'";
__attribute__((section(".gnu.lto_.symtab.1,\"e\",@progbits#"))) const char symbols[] = "main\0\0\0";
extern "C" __attribute__((visibility("default"))) const char __gnu_lto_slim = 1;
