// SPDX-License-Identifier: Apache-2.0
// Compares a query with a record, field by field of the key, for explanations of an answer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/fields.h"
#include "lookup/index.h"
#include "tuner/trial_key.h"

namespace tune::lookup {

// A field: its value in the query and in the record, in the words of tune.v1.KeyField.
struct KeyField {
  std::string name;
  std::string rule;
  std::string asked;
  std::string there;  // empty: the record lacks it
  std::string verdict;

  bool differs() const { return verdict == "differs"; }
};
TUNE_FIELDS(KeyField, name, rule, asked, there, verdict);

struct KeyComparison {
  std::vector<KeyField> fields;
  double distance = 0;  // in powers of two, over all axes
};

// REQUIRES: the question has a kernel hash.
KeyComparison CompareKeys(const Query& asked, const KernelPolicy& policy, const TrialKey& there);

}  // namespace tune::lookup
