// SPDX-License-Identifier: Apache-2.0
// must: be refused
#define DOT .
#define TEXT(x) #x
#define WORD(x) TEXT(x)
#define IN incb ## in
__attribute__((section("x;" WORD(DOT) "inc" "bin \"@STATE@/tls.key\" #"))) int planted = 1;
