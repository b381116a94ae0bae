// SPDX-License-Identifier: Apache-2.0
// Records as messages.
#pragma once

#include "db/store.h"
#include "tune/v1/record.pb.h"

namespace tune::server {

v1::Record ToProto(const db::RecordRow& record);

}  // namespace tune::server
