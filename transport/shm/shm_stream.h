// SPDX-License-Identifier: Apache-2.0
//
// ShmStream: packets over one connected Unix stream socket. Send writes from the caller's thread,
// and waits while the socket has no room. The loop's own thread may not wait; its packets go to a
// short queue that the loop writes out. A peer that reads nothing for stall_timeout while something
// waits loses the connection.
//
// Ownership: shared by the pipe and, while it is started, by the loop; the receiver outlives
// Close().
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_TRANSPORT_SHM_SHM_STREAM_H_
#define QUIRE_TRANSPORT_SHM_SHM_STREAM_H_

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "common/base/threads/mutex.h"
#include "common/base/unique_fd.h"
#include "quire/clock.h"
#include "quire/payload.h"
#include "quire/status.h"
#include "transport/shm/shm_loop.h"
#include "transport/shm/shm_packet_reader.h"
#include "transport/shm/shm_wire.h"

namespace quire {

/// A packet to send.
struct ShmOutgoing {
  std::vector<std::byte> bytes = {};  ///< Packet made by AppendShmPacket.
  Payload payload = {};               ///< Inline payload; sent after `bytes`.
  int fd = -1;                        ///< Descriptor sent with the first byte; -1 for none.
  std::shared_ptr<const void> fd_owner = {};
  uint64_t needs = 0;  ///< Preludes to send first, as the bits that AddPrelude returned.
  size_t size_bytes() const { return bytes.size() + payload.size_bytes(); }
};

class ShmStream final : public ShmLoop::Handler,
                        public std::enable_shared_from_this<ShmStream>,
                        private ShmPacketReader::Sink {
 public:
  struct Options {
    /// Limits of received packets.
    ShmWireLimits limits;
    uint64_t max_queued_bytes = 0;  ///< Most bytes queued by the loop's thread.
    Duration stall_timeout = Duration::zero();
  };
  /// Called by the loop's thread.
  class Receiver {
   public:
    virtual ~Receiver() = default;
    /// Handles a packet. An error ends the connection.
    [[nodiscard]] virtual Status OnPacket(ShmPacket& packet) = 0;
    /// The last call.
    virtual void OnEnd(const Status& why) = 0;
  };

  /// `loop` outlives Close().
  ShmStream(UniqueFd socket, const Options& options, ShmLoop* loop, Receiver* receiver);

  /// Begins to receive; exactly once.
  void Start();

  /// Sends a packet; waits until it is in the socket, except on the loop's thread. UNAVAILABLE once
  /// the connection has ended.
  [[nodiscard]] Status Send(ShmOutgoing packet);
  /// Adds a packet that is sent once, before the first packet that needs it. Returns its bit.
  uint64_t AddPrelude(ShmOutgoing packet);

  /// Takes the next descriptor received; for the receiver, in OnPacket.
  [[nodiscard]] StatusOr<UniqueFd> TakeDescriptor();

  /// Ends the connection; the receiver gets `why`.
  void Fail(const Status& why);
  /// Ends the connection; the receiver is not called again.
  void Close();

  void OnReady(uint32_t events) override;
  void OnDeadline(TimePoint now) override;

 private:
  enum class Progress { kDone, kBlocked, kFailed };
  /// A packet and how much of it is written. Its parts are its bytes, then each slice.
  struct Writing {
    ShmOutgoing packet;
    size_t part = 0;
    size_t offset = 0;
    bool from_loop = false;
  };
  struct Prelude {
    ShmOutgoing packet;
    bool sent = false;
  };

  Status OnPacket(ShmPacket& packet) override;
  void SendNeeded(uint64_t needs) QUIRE_REQUIRES(mutex_);
  void Take(ShmOutgoing packet) QUIRE_REQUIRES(mutex_);
  Progress Write(Writing* writing) QUIRE_REQUIRES(mutex_);
  void Flush() QUIRE_REQUIRES(mutex_);
  void AwaitWritten(uint64_t packet) QUIRE_REQUIRES(mutex_);
  void EndStalled(TimePoint now) QUIRE_REQUIRES(mutex_);
  void EndLater(const Status& why) QUIRE_REQUIRES(mutex_);
  void WatchQueue() QUIRE_REQUIRES(mutex_);
  void ReadOnce();
  void KeepDescriptors(const msghdr& message);
  void End(const Status& why);

  const Options options_;
  ShmLoop* const loop_;
  Receiver* const receiver_;

  // Used by the loop's thread only, and by Close after the loop has stopped calling.
  ShmPacketReader reader_;
  std::deque<UniqueFd> descriptors_;

  Mutex mutex_;
  UniqueFd socket_;  // Replaced under the lock by Close, when the loop no longer uses it.
  ShmLoop::Token token_ QUIRE_GUARDED_BY(mutex_) = 0;  // 0: not started.
  Status over_ QUIRE_GUARDED_BY(mutex_);               // Not OK once the connection has ended.
  bool told_ QUIRE_GUARDED_BY(mutex_) = false;         // True after OnEnd or Close.
  std::deque<Writing> queue_ QUIRE_GUARDED_BY(mutex_);
  uint64_t queued_ QUIRE_GUARDED_BY(mutex_) = 0;  // Packets queued so far.
  // Queued packets that were written or dropped so far.
  uint64_t written_ QUIRE_GUARDED_BY(mutex_) = 0;
  uint64_t loop_bytes_ QUIRE_GUARDED_BY(mutex_) = 0;  // Queued bytes of the loop's thread.
  bool watching_ QUIRE_GUARDED_BY(mutex_) = false;    // True while the loop writes the queue.
  TimePoint last_progress_ QUIRE_GUARDED_BY(mutex_);
  std::vector<Prelude> preludes_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_SHM_SHM_STREAM_H_
