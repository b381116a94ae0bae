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

// Whether the caller sees the words about kernels of a name space. Everybody sees those of the
// shared one.
bool SeesWordsOf(absl::string_view name_space);
// Whether the caller is this principal, or an operator.
bool IsCaller(absl::string_view principal);

// Replaces each text in `message` that compilers, kernels or checks wrote by one sentence, at any
// depth. The message of a job that has not failed stays.
void HideWords(absl::string_view whose, google::protobuf::Message& message);
// HideWords, unless the caller sees words of the name space.
void HideUnlessSeen(absl::string_view name_space, google::protobuf::Message& message);

}  // namespace tune::server
