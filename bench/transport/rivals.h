// SPDX-License-Identifier: Apache-2.0
//
// Rival stores that fetch scattered units from another process: Redis and Mooncake Store. The
// benchmark starts each in a directory of its own, fills it, reads, and stops it. Units are
// numbered from 0, and the first 8 bytes of unit i are i (little endian), so that reads can be
// checked. Thread-safety: none.
#ifndef QUIRE_BENCH_TRANSPORT_RIVALS_H_
#define QUIRE_BENCH_TRANSPORT_RIVALS_H_

#include <cstddef>
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

/// A unit to read, and its place in the caller's memory. Redis's client library leaves it in a
/// reply of its own, from where the reader copies it.
struct PlacedUnit {
  uint64_t unit = 0;
  std::byte* place = nullptr;
};

/// Debian's redis-server with I/O threads, read by pipelined MGETs of its C client.
class Redis {
 public:
  /// Connection: a Unix socket, or TCP on loopback.
  enum class Wire { kUnix, kTcp };
  /// Most connections. Redis suspends its I/O threads while fewer clients than twice their number
  /// have pending replies.
  static constexpr size_t kMostConnections = 4;
  /// Use of Redis's I/O threads during a read.
  struct ThreadUse {
    /// State in the middle of the read, as INFO reports it (io_threads_active).
    bool active = false;
    double threaded_writes_share = 0;  ///< Share of socket writes by I/O threads.
  };

  /// Starts it in `directory` and stores `num_units` units. Its TCP connections are not paced where
  /// permitted. UNAVAILABLE, with the reason, if it cannot be started or this program was built
  /// without its client.
  static StatusOr<std::unique_ptr<Redis>> Start(const std::string& directory, uint64_t unit_bytes,
                                                uint64_t num_units);
  ~Redis();

  pid_t pid() const { return server_->pid(); }
  /// Reads `units` to their places, in this order, by MGETs of `kBatchBytes`, or of one unit. The
  /// MGETs alternate over `connections` (1..kMostConnections), with `kPipeline` in flight on each.
  Status Read(Wire wire, size_t connections, std::span<const PlacedUnit> units);
  /// Stores the units numbered from `first` on, over one connection, with kPipeline SETs in flight.
  Status Put(Wire wire, uint64_t first, uint64_t count);
  /// Removes them.
  Status Remove(uint64_t first, uint64_t count);
  /// Reads `units` by one MGET over one connection.
  Status Get(Wire wire, std::span<const PlacedUnit> units);
  /// As Read, over all connections.
  StatusOr<ThreadUse> ReadWatched(Wire wire, std::span<const PlacedUnit> units);

 private:
  /// The most that Redis writes to a socket at once. I/O threads never write the rest of a longer
  /// reply. MGETs of 8 MiB take more than twice as long.
  static constexpr uint64_t kBatchBytes = 64 << 10;
  static constexpr size_t kPipeline = 4;
  /// Fields of INFO, by name.
  using Info = std::map<std::string, std::string>;

  explicit Redis(uint64_t unit_bytes) : unit_bytes_(unit_bytes), unit_(unit_bytes, 'x') {}
  Status Connect(const std::string& socket, int port);
  Status Fill(uint64_t num_units);
  Status SendPut(redisContext* context, uint64_t number);
  Status Send(redisContext* context, std::span<const PlacedUnit> units);
  Status Receive(redisContext* context, std::span<const PlacedUnit> units) const;
  StatusOr<Info> AskInfo();
  /// `midway` is called once half of the units have arrived.
  Status Read(Wire wire, size_t connections, std::span<const PlacedUnit> units,
              const std::function<Status()>& midway);

  const uint64_t unit_bytes_;
  std::vector<char> unit_;  ///< A unit to put.
  std::unique_ptr<Process> server_;
  std::vector<redisContext*> unix_;
  std::vector<redisContext*> tcp_;
  redisContext* control_ = nullptr;  ///< For all commands other than reads.
};

struct MooncakeUnits {
  uint64_t unit_bytes = 0;
  uint64_t num_units = 0;       ///< Units stored.
  uint64_t units_per_read = 0;  ///< Units of one read.
};

/// Mooncake Store over its TCP transport: a master, a store and a reader, which also puts
/// (mooncake_rival.py), each a process.
class Mooncake {
 public:
  /// Starts them in `directory` and stores the units. Their TCP connections are not paced where
  /// permitted. `environment` holds the Python environment. If missing, it is created with the
  /// package from PyPI. UNAVAILABLE, with the error, if that fails.
  static StatusOr<std::unique_ptr<Mooncake>> Start(const std::string& environment,
                                                   const std::string& directory,
                                                   const MooncakeUnits& units);

  const std::string& version() const { return version_; }
  pid_t store_pid() const { return store_->pid(); }
  /// Process ids of the master, the store and the reader.
  std::vector<pid_t> pids() const { return {master_->pid(), store_->pid(), reader_->pid()}; }
  /// Reads `units` random units (at most units_per_read) to random places, `count` times. Returns
  /// the time of each read.
  StatusOr<std::vector<Duration>> Read(uint64_t units, uint32_t count);
  /// Reads units_per_read once.
  StatusOr<Duration> Read();
  /// Stores units (at most units_per_read), numbered from `first` on and not stored. Returns its
  /// time.
  StatusOr<Duration> Put(uint64_t first, uint64_t units);
  /// Removes those that are stored.
  Status Remove(uint64_t first, uint64_t units);

 private:
  Mooncake(std::string environment, std::string directory, const MooncakeUnits& units)
      : environment_(std::move(environment)), directory_(std::move(directory)), units_(units) {}
  Status StartStore();
  Status StartReader();
  StatusOr<std::vector<std::string>> Side(const std::string& role) const;
  /// Has the reader do something (mooncake_rival.py). Returns the times that it says.
  StatusOr<std::vector<Duration>> Ask(const std::string& word, uint64_t first, uint64_t second);
  /// Waits for the reader's next line for `key`, among the log lines of its library.
  StatusOr<nlohmann::json> Await(const std::string& key, Duration timeout);

  const std::string environment_;
  const std::string directory_;
  const MooncakeUnits units_;
  std::vector<std::string> unpaced_;  ///< Environment of its processes.
  int master_port_ = 0;
  std::unique_ptr<Process> master_;
  std::unique_ptr<Process> store_;
  std::unique_ptr<Process> reader_;
  UniqueFd turns_;   ///< The reader reads once for each line.
  size_t read_ = 0;  ///< Bytes of the reader's output already parsed.
  std::string version_;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_RIVALS_H_
