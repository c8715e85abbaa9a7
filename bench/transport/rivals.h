// SPDX-License-Identifier: Apache-2.0
//
// What people use today to fetch scattered units from another process: Redis and Mooncake Store.
// Each is started by the benchmark in a directory of its own, filled, read, and stopped. Units are
// numbered from 0, and the first 8 bytes of unit i are i (little endian), so that what was read is
// checked. Thread-safety: none.
#ifndef QUIRE_BENCH_TRANSPORT_RIVALS_H_
#define QUIRE_BENCH_TRANSPORT_RIVALS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "bench/transport/process.h"
#include "common/base/status.h"

struct redisContext;

namespace quire::bench {

/// Debian's redis-server with I/O threads, read by pipelined MGETs of its C client.
class Redis {
 public:
  /// Over a Unix socket, or over TCP on loopback.
  enum class Wire { kUnix, kTcp };
  /// Starts it in `directory` and stores `num_units` units. UNAVAILABLE, saying why, when it cannot
  /// be started or this program was built without its client.
  static StatusOr<std::unique_ptr<Redis>> Start(const std::string& directory, uint64_t unit_bytes,
                                                uint64_t num_units);
  ~Redis();

  /// Reads `units` in this order: MGETs of `kBatch` units, `kPipeline` of them under way.
  Status Read(Wire wire, std::span<const uint64_t> units);

 private:
  static constexpr size_t kBatch = 64;
  static constexpr size_t kPipeline = 4;

  Redis(uint64_t unit_bytes) : unit_bytes_(unit_bytes) {}
  Status Connect(const std::string& socket, int port);
  Status Fill(uint64_t num_units);
  Status Send(redisContext* context, std::span<const uint64_t> units);
  Status Receive(redisContext* context, std::span<const uint64_t> units) const;

  const uint64_t unit_bytes_;
  std::unique_ptr<Process> server_;
  redisContext* unix_ = nullptr;
  redisContext* tcp_ = nullptr;
};

/// What Mooncake Store reached over its TCP transport.
struct MooncakeSpeed {
  double bytes_per_second = 0;  ///< The median of its rounds.
  std::string version;
};
/// Runs a master, a store and a reader (mooncake_rival.py), each a process, with the Python
/// environment in `environment`, which is made, with the package from PyPI, when it is not there:
/// UNAVAILABLE with the error when that fails.
StatusOr<MooncakeSpeed> RunMooncake(const std::string& environment, const std::string& directory,
                                    uint64_t unit_bytes, uint64_t num_units, uint32_t rounds);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_RIVALS_H_
