// SPDX-License-Identifier: Apache-2.0
//
// What people use today to fetch scattered units from another process: Redis and Mooncake Store.
// Each is started by the benchmark in a directory of its own, filled, read, and stopped. Units are
// numbered from 0, and the first 8 bytes of unit i are i (little endian), so that what was read is
// checked. Thread-safety: none.
#ifndef QUIRE_BENCH_TRANSPORT_RIVALS_H_
#define QUIRE_BENCH_TRANSPORT_RIVALS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/transport/process.h"
#include "common/base/unique_fd.h"
#include "quire/clock.h"
#include "quire/status.h"

struct redisContext;

namespace quire::bench {

/// Debian's redis-server with I/O threads, read by pipelined MGETs of its C client.
class Redis {
 public:
  /// Over a Unix socket, or over TCP on loopback.
  enum class Wire { kUnix, kTcp };
  /// Over how many connections at most. Redis rests its I/O threads while fewer clients than twice
  /// their number have something to be sent to them.
  static constexpr size_t kMostConnections = 4;
  /// How much of a read Redis leaves to its I/O threads.
  struct ThreadUse {
    bool active = false;  ///< In the midst of the read, as INFO says (io_threads_active).
    double threaded_writes_share = 0;  ///< Of its writes to sockets, those of I/O threads.
  };

  /// Starts it in `directory` and stores `num_units` units. Its TCP connections are not paced where
  /// that is permitted. UNAVAILABLE, saying why, when it cannot be started or this program was
  /// built without its client.
  static StatusOr<std::unique_ptr<Redis>> Start(const std::string& directory, uint64_t unit_bytes,
                                                uint64_t num_units);
  ~Redis();

  pid_t pid() const { return server_->pid(); }
  /// Reads `units` in this order: MGETs of `kBatchBytes`, or of one unit, in turns over so many
  /// connections (1..kMostConnections), `kPipeline` of them under way on each.
  Status Read(Wire wire, size_t connections, std::span<const uint64_t> units);
  /// Reads `units` by one MGET over one connection.
  Status Get(Wire wire, std::span<const uint64_t> units);
  /// The same as Read, over all connections.
  StatusOr<ThreadUse> ReadWatched(Wire wire, std::span<const uint64_t> units);

 private:
  /// As much as Redis writes to a socket in one go; what a reply has beyond that is never written
  /// by an I/O thread. MGETs of 8 MiB take more than twice as long.
  static constexpr uint64_t kBatchBytes = 64 << 10;
  static constexpr size_t kPipeline = 4;
  /// What INFO says, by name.
  using Info = std::map<std::string, std::string>;

  Redis(uint64_t unit_bytes) : unit_bytes_(unit_bytes) {}
  Status Connect(const std::string& socket, int port);
  Status Fill(uint64_t num_units);
  Status Send(redisContext* context, std::span<const uint64_t> units);
  Status Receive(redisContext* context, std::span<const uint64_t> units) const;
  StatusOr<Info> AskInfo();
  /// `midway` is called when half of the units have come.
  Status Read(Wire wire, size_t connections, std::span<const uint64_t> units,
              const std::function<Status()>& midway);

  const uint64_t unit_bytes_;
  std::unique_ptr<Process> server_;
  std::vector<redisContext*> unix_;
  std::vector<redisContext*> tcp_;
  redisContext* control_ = nullptr;  ///< For what is no reading.
};

struct MooncakeUnits {
  uint64_t unit_bytes = 0;
  uint64_t num_units = 0;       ///< That are stored.
  uint64_t units_per_read = 0;  ///< Of them.
};

/// Mooncake Store over its TCP transport: a master, a store and a reader (mooncake_rival.py), each
/// a process.
class Mooncake {
 public:
  /// Starts them in `directory` and stores the units. Their TCP connections are not paced where
  /// that is permitted. The Python environment is the one in `environment`, which is made, with the
  /// package from PyPI, when it is not there: UNAVAILABLE with the error when that fails.
  static StatusOr<std::unique_ptr<Mooncake>> Start(const std::string& environment,
                                                   const std::string& directory,
                                                   const MooncakeUnits& units);

  const std::string& version() const { return version_; }
  pid_t store_pid() const { return store_->pid(); }
  /// Process ids of the master, the store and the reader.
  std::vector<pid_t> pids() const { return {master_->pid(), store_->pid(), reader_->pid()}; }
  /// Reads `units` random units (at most units_per_read) to random places, `count` times; how long
  /// each took.
  StatusOr<std::vector<Duration>> Read(uint64_t units, uint32_t count);
  /// Reads units_per_read once.
  StatusOr<Duration> Read();

 private:
  Mooncake(std::string environment, std::string directory, const MooncakeUnits& units)
      : environment_(std::move(environment)), directory_(std::move(directory)), units_(units) {}
  Status StartStore();
  Status StartReader();
  StatusOr<std::vector<std::string>> Side(const std::string& role) const;
  /// What the reader prints next as `key`, among what its library logs.
  StatusOr<nlohmann::json> Await(const std::string& key, Duration timeout);

  const std::string environment_;
  const std::string directory_;
  const MooncakeUnits units_;
  std::vector<std::string> unpaced_;  ///< Their environment.
  int master_port_ = 0;
  std::unique_ptr<Process> master_;
  std::unique_ptr<Process> store_;
  std::unique_ptr<Process> reader_;
  UniqueFd turns_;   ///< A line tells the reader to read.
  size_t read_ = 0;  ///< Of what the reader has printed.
  std::string version_;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_RIVALS_H_
