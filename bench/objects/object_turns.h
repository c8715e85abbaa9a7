// SPDX-License-Identifier: Apache-2.0
//
// ObjectTurns: one contender of `quire bench objects` and what it does in its turns: it gets some
// objects, or puts some that were never stored. Objects are numbered, and the first 8 bytes of
// object i are i (little endian), so that reads can be checked. Thread-safety: none.
#ifndef QUIRE_BENCH_OBJECTS_OBJECT_TURNS_H_
#define QUIRE_BENCH_OBJECTS_OBJECT_TURNS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/transport/rivals.h"
#include "quire/client.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::bench {

class ObjectTurns {
 public:
  virtual ~ObjectTurns() = default;
  /// Gets objects, some of those stored, in as few calls as it likes. Returns its time.
  virtual StatusOr<Duration> Get(std::span<const uint64_t> numbers) = 0;
  /// Puts the objects numbered from `first` on, which are not stored. Returns its time.
  virtual StatusOr<Duration> Put(uint64_t first, uint64_t count) = 0;
  /// Removes them.
  virtual Status Remove(uint64_t first, uint64_t count) = 0;
};

/// Result of a get of Quire.
enum class Arrival : uint8_t {
  kCopied,  ///< The bytes, verified, in memory of the caller.
  kInPlace  ///< Verified bytes where they came: over shared memory in the server's memory.
};

/// Objects of `object_bytes` of a server of Quire. `client` outlives it.
std::unique_ptr<ObjectTurns> TurnsOfQuire(Client* client, uint64_t object_bytes, Arrival arrival);

/// Objects of Redis, over one connection; gets over `get_connections`. `redis` outlives it.
std::unique_ptr<ObjectTurns> TurnsOfRedis(Redis* redis, uint64_t object_bytes, Redis::Wire wire,
                                          size_t get_connections);

/// Objects of Mooncake, over TCP. It draws as many objects as a get asks for by itself. `mooncake`
/// outlives it.
std::unique_ptr<ObjectTurns> TurnsOfMooncake(Mooncake* mooncake);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_OBJECTS_OBJECT_TURNS_H_
