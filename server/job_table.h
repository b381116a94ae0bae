// SPDX-License-Identifier: Apache-2.0
// The kinds of jobs that the daemon runs: a line each.
#pragma once

#include "db/store.h"
#include "server/jobs/job_kinds.h"

namespace tune::server {

class Catalogue;
class Devices;
class PeerLeases;
class RecordBook;
class Sweeps;
class Workers;

// The tools that kinds of jobs need. All must outlive the kinds.
struct KindTools {
  const Catalogue& catalogue;
  db::Store& store;
  Workers& workers;
  const Devices& devices;
  RecordBook& records;
  Sweeps& sweeps;
  PeerLeases& leases;
  const Principals& principals;
};

JobKinds AllKinds(const KindTools& tools);

}  // namespace tune::server
