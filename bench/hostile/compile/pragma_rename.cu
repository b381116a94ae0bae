// SPDX-License-Identifier: Apache-2.0
// must: be refused
#pragma redefine_extname planted x;.incbin
