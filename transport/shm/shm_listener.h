// SPDX-License-Identifier: Apache-2.0
//
// ShmListener: where clients of the same host connect to a server whose memory they may map
// (docs/design/0013-shared-memory.md). It listens on a Unix socket that only processes of the same
// user, or of root, can open, unless told otherwise.
//
// Ownership: the shared memory must stay mapped while pipes of the listener live; pipes may outlive
// the listener. Thread-safety: all methods may be called concurrently. Locks of a connection are
// taken in this order: the lender's, those of its leases or its stream, the loop's.
#ifndef QUIRE_TRANSPORT_SHM_SHM_LISTENER_H_
#define QUIRE_TRANSPORT_SHM_SHM_LISTENER_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/health.h"
#include "common/base/shared_memory.h"
#include "quire/clock.h"
#include "quire/status.h"
#include "transport/frame_pipe.h"

namespace quire {

struct ShmUse;

class ShmListener final : public PipeListener {
 public:
  struct Options {
    std::string path;  ///< Of the socket; at most 107 bytes. Required.
    /// Memory that payload lies in, sealed (common/base/shared_memory.h).
    std::vector<SharedMemoryView> memory = {};
    /// Whether clients may map it. A memory is mapped as a whole, so only where every client may
    /// read all of it: on a server of one tenant. Otherwise payload is copied to memory of each
    /// connection's own.
    bool share_memory = false;
    uint64_t max_frame_bytes = 65 << 20;
    uint64_t max_leased_bytes = 256 << 20;  ///< Of shared memory, that one client may hold.
    uint64_t copy_out_bytes = 64 << 20;     ///< Of a connection's own memory, at most; 0: none.
    /// A client that holds payload for longer loses its connection.
    Duration max_lease = std::chrono::seconds(60);
    /// Of frames sent from inside a receiver call, which do not wait for room in the socket; a
    /// client that lets more of them pile up loses its connection.
    uint64_t max_queued_bytes = 32 << 20;
    /// A client that takes no bytes for so long loses its connection.
    Duration stall_timeout = std::chrono::seconds(10);
    uint32_t max_connections = 256;
    bool same_user_only = true;  ///< Or root.
    /// How long the thread that receives looks for more before it sleeps.
    Duration spin = Duration::zero();
    /// Told of clients that are not let in; may be null, and outlives the listener.
    Health* health = nullptr;
  };

  /// Listens. `accept` is called by the listener's thread. A file that a dead server left at the
  /// path is replaced. INVALID_ARGUMENT for options that make no sense, ALREADY_EXISTS when another
  /// server listens there or the file is no socket, PERMISSION_DENIED when it cannot be made.
  static StatusOr<std::unique_ptr<ShmListener>> Listen(const Options& options, Accept accept);
  /// Removes the socket's file. Connections go on.
  ~ShmListener() override;

  std::string_view kind() const override { return "shm"; }
  std::string address() const override { return path_; }

  uint64_t connections() const;
  /// Bytes of shared memory that clients hold, also those whose connection is over.
  uint64_t leased_bytes() const override;
  std::optional<SentPayload> sent_payload() const override;
  /// All of it (shm_leases.h), to be looked at also when the listener is gone.
  std::shared_ptr<const ShmUse> use() const;

 private:
  class Door;

  explicit ShmListener(std::string path) : path_(std::move(path)) {}

  const std::string path_;
  std::shared_ptr<Door> door_;
};

/// Whether a client of user `uid` may connect to a server that runs as `own`.
inline bool MayConnect(uint32_t uid, uint32_t own, bool same_user_only) {
  return !same_user_only || uid == own || uid == 0;
}

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_LISTENER_H_
