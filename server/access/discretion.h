// SPDX-License-Identifier: Apache-2.0
// Hides the words of others' kernels from a caller. A name space is its submitter's: the messages
// of compilers, kernels and checks about a kernel there may quote its source, so only the submitter
// and operators see them. Other callers see that it failed, and how, without the words. See
// docs/access.md.
//
// The caller is whom the calling thread acts for (server/supervision/acting_for.h).
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace tune::server {

// Does the caller see the words about kernels of a name space? Everybody sees those of the one that
// all share.
bool SeesWordsOf(absl::string_view name_space);
// Is the caller this principal, or an operator?
bool IsCaller(absl::string_view principal);

// Puts one sentence in place of each text in `message` that compilers, kernels or checks wrote, at
// any depth. What a job that has not failed does or waits for stays.
void HideWords(absl::string_view whose, google::protobuf::Message& message);
// Hides them unless the caller sees words of the name space.
void HideUnlessSeen(absl::string_view name_space, google::protobuf::Message& message);

}  // namespace tune::server
