// SPDX-License-Identifier: Apache-2.0
// must: be refused
#error ]0;hostile[2J[31mall is well[0m
