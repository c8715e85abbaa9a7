// SPDX-License-Identifier: Apache-2.0
//
// A server about itself. Value types. The wire's admin.proto says what the fields mean;
// docs/metrics.md has every name.
#ifndef QUIRE_SERVER_STATS_H_
#define QUIRE_SERVER_STATS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "quire/clock.h"
#include "quire/status.h"

namespace quire {

/// A trouble that lasts: the server is degraded until its cause is gone.
struct Degradation {
  std::string reason;  ///< "disk_full", ...; docs/metrics.md has them all.
  std::string detail;  ///< Cause and remedy.
  int64_t since_unix_micros = 0;
};

/// A histogram of times since the server started.
struct LatencyCounts {
  struct Bucket {
    uint64_t bound_nanos = 0;  ///< Times in it are above the bound before, and at most this.
    uint64_t count = 0;
  };
  std::vector<Bucket> buckets;  ///< In order of their bounds; none is empty.
  uint64_t sum_nanos = 0;
};

struct ServerStats {
  std::string version;
  int64_t uptime_seconds = 0;
  std::vector<std::pair<std::string, uint64_t>> counters;              ///< Sorted by name.
  std::vector<Degradation> degradations;                               ///< None of a sound server.
  std::vector<std::pair<std::string, LatencyCounts>> histograms = {};  ///< Sorted by name.
};

/// A call that took long. The server computed for the rest of its time.
struct SlowCall {
  std::string method;  ///< "quire.v1.Session/Recall"
  StatusCode code = StatusCode::kOk;
  int64_t ended_unix_micros = 0;
  Duration time{0};       ///< From its arrival to the end of its reply.
  Duration queue{0};      ///< Waiting to run.
  Duration gate{0};       ///< Waiting to read from SSD.
  Duration dram{0};       ///< Reads that DRAM answered.
  Duration ssd{0};        ///< Reads from SSD, and puts.
  Duration selection{0};  ///< Scoring of pages.
  Duration network{0};    ///< Waiting for the client to take the reply.
  uint64_t request_bytes = 0;
  uint64_t reply_bytes = 0;
};

}  // namespace quire

#endif  // QUIRE_SERVER_STATS_H_
