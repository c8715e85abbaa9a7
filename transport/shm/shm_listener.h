// SPDX-License-Identifier: Apache-2.0
//
// ShmListener: accepts clients of the same host, which may map the server's memory
// (docs/design/0013-shared-memory.md). It listens on a Unix socket that by default only processes
// of the same user, or of root, can open.
//
// Ownership: the shared memory must stay mapped while pipes of the listener live; pipes may outlive
// the listener.
// Thread-safety: all methods may be called concurrently. Lock order within a connection: the
// lender, its leases or its stream, the loop.
#ifndef QUIRE_TRANSPORT_SHM_SHM_LISTENER_H_
#define QUIRE_TRANSPORT_SHM_SHM_LISTENER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/memory/shared_memory.h"
#include "common/base/observe/health.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/frame_pipe.h"

namespace quire {

struct ShmUse;

class ShmListener final : public PipeListener {
 public:
  struct Options {
    std::string path;  ///< Path of the socket; at most 107 bytes. Required.
    /// Memory that holds payload, sealed (common/base/memory/shared_memory.h).
    std::vector<SharedMemoryView> memory = {};
    /// True lets clients map `memory`, always as a whole. Set it only where every client may read
    /// all of it, as on a server of one tenant. Otherwise payload is copied to memory of the
    /// connection.
    bool share_memory = false;
    uint64_t max_frame_bytes = 65 << 20;
    uint64_t max_leased_bytes = 256 << 20;  ///< Most shared memory that one client may hold.
    uint64_t copy_out_bytes = 64 << 20;     ///< Most memory for copies, per connection; 0 for none.
    /// Longest time that a client may hold payload; exceeding it ends its connection.
    Duration max_lease = std::chrono::seconds(60);
    /// Most bytes queued by frames sent from inside a receiver call, which do not wait for room in
    /// the socket. A client that exceeds it loses its connection.
    uint64_t max_queued_bytes = 32 << 20;
    /// Longest time that a client may read nothing; exceeding it ends its connection.
    Duration stall_timeout = std::chrono::seconds(10);
    uint32_t max_connections = 256;
    bool same_user_only = true;  ///< Admit only the server's user and root.
    /// How long the receiving thread spins before it sleeps.
    Duration spin = Duration::zero();
    /// Receives refused clients; may be null, and outlives the listener.
    Health* health = nullptr;
  };

  /// Listens. The listener's thread calls `accept`. A file left by a dead server is replaced.
  /// Errors: INVALID_ARGUMENT for inconsistent options; ALREADY_EXISTS when another server listens
  /// there or the file is no socket; PERMISSION_DENIED when the socket cannot be created.
  static StatusOr<std::unique_ptr<ShmListener>> Listen(const Options& options, Accept accept);
  /// Removes the socket's file. Connections stay open.
  ~ShmListener() override;

  std::string_view kind() const override { return "shm"; }
  std::string address() const override { return path_; }

  uint64_t connections() const;
  /// Bytes of shared memory that clients hold, including those whose connection has ended.
  uint64_t leased_bytes() const override;
  std::optional<SentPayload> sent_payload() const override;
  /// All counts (shm_leases.h); they may be read after the listener is destroyed.
  std::shared_ptr<const ShmUse> use() const;

 private:
  class Door;

  explicit ShmListener(std::string path) : path_(std::move(path)) {}

  const std::string path_;
  std::shared_ptr<Door> door_;
};

/// True if a client of user `uid` may connect to a server that runs as `own`.
inline bool MayConnect(uint32_t uid, uint32_t own, bool same_user_only) {
  return !same_user_only || uid == own || uid == 0;
}

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_LISTENER_H_
