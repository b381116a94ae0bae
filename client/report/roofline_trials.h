// SPDX-License-Identifier: Apache-2.0
// All trials of a roofline as a table of the report's page, with the evidence behind each.
#pragma once

#include <string>

#include "tune/v1/report.pb.h"

namespace tune::client {

// Rows have the attributes that page.js filters and sorts by: data-trial, data-config (a JSON list
// of "PARAM=value") and, in cells, data-sort.
std::string TrialsTable(const v1::Roofline& roofline);

}  // namespace tune::client
