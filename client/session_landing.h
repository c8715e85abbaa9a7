// SPDX-License-Identifier: Apache-2.0
//
// SessionLanding: the memory that a session's recalls put units into, slot by slot. Where units can
// land before anybody looks at them (the server writes there by itself, or the transport copies
// what arrives) it is registered with the transport; otherwise the session copies the units there,
// checking them on the way. It is laid out as
// [sequences][managed layers][n_kv][slots_per_head] units, sequences by number and layers in the
// order in which the session was opened; a sequence with fewer slots has the same room. Made by
// ClientSession::MakeLanding. While a recall of a lane is under way any of the lane's slots may be
// written to: nobody reads them until its part has come.
//
// Memory that this processor must not touch (LandingMemory::access) is as good: where the server's
// device writes there the units are copied back for their checksums, and everywhere else they come
// to the host, are checked, and are copied there.
//
// As a staging area (LandingUse::kStaging) it is a stop on the way: a part that landed is handed
// out as payload that lies here, and the caller treats it as any other, up to Applied. A recall
// that is given up leaves what may still arrive to the landing (direct_landing.h): its lanes are
// recalled in messages until nothing can.
//
// Ownership: keeps the transport; owns the memory unless it was given some, which must stay until
// the landing is gone. Every recall that uses it ends first. Thread-safety: that of its bytes.
#ifndef QUIRE_CLIENT_SESSION_LANDING_H_
#define QUIRE_CLIENT_SESSION_LANDING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "client/direct_landing.h"
#include "client/worker_slots.h"
#include "quire/status.h"
#include "transport/transport.h"

namespace quire {

class ClientSession;
namespace internal {
class SessionRecall;
class SessionState;
}  // namespace internal

enum class LandingUse : uint8_t {
  kSlots,    ///< Units stay: a part that has come is applied.
  kStaging,  ///< Units are taken from here by the caller, who applies them.
};

class SessionLanding {
 public:
  SessionLanding(const SessionLanding&) = delete;
  SessionLanding& operator=(const SessionLanding&) = delete;

  /// Sequences with lower numbers have their slots here.
  uint32_t num_sequences() const { return num_sequences_; }
  std::span<std::byte> bytes() const { return memory_.bytes; }
  const LandingMemory& memory() const { return memory_; }
  /// Keeps the memory; null when that is the caller's.
  const std::shared_ptr<const void>& owner() const { return owned_.owner; }
  /// Whether units land by themselves; not once the session is closed.
  bool direct() const { return direct_->get() != nullptr; }
  LandingUse use() const { return use_; }
  /// UNIMPLEMENTED, with what could be done, when the server would write there by itself but for
  /// the type of the memory; otherwise OK.
  const Status& why_not_direct() const { return why_not_direct_; }
  /// The unit in a slot that there is, of a managed layer.
  std::span<std::byte> Unit(uint32_t sequence, uint32_t layer, uint32_t head, uint32_t slot) const {
    const uint64_t unit = (LaneIndex(sequence, layer) * num_heads_ + head) * slots_per_head_ + slot;
    return memory_.bytes.subspan(unit * unit_bytes_, unit_bytes_);
  }

 private:
  friend class ClientSession;
  friend class internal::SessionState;
  friend class internal::SessionRecall;

  /// Over `memory`, of its own when that is empty. INVALID_ARGUMENT when it is too small.
  static StatusOr<std::unique_ptr<SessionLanding>> Create(const internal::SessionState* session,
                                                          std::shared_ptr<Transport> transport,
                                                          const internal::WorkerSlots& shape,
                                                          uint64_t unit_bytes,
                                                          uint32_t num_sequences,
                                                          LandingMemory memory, LandingUse use);
  SessionLanding(const internal::SessionState* session, std::shared_ptr<Transport> transport,
                 const internal::WorkerSlots& shape, uint64_t unit_bytes, uint32_t num_sequences,
                 LandingUse use);
  uint64_t LaneIndex(uint32_t sequence, uint32_t layer) const {
    return uint64_t{sequence} * layers_.size() + layers_.IndexOf(layer);
  }
  /// Has the transport put units there, if that is of use.
  Status Register();

  const internal::SessionState* const session_;  ///< Compared, not used.
  const std::shared_ptr<Transport> transport_;
  const internal::ManagedLayers layers_;
  const uint32_t num_heads_;
  const uint32_t slots_per_head_;
  const uint64_t unit_bytes_;
  const uint32_t num_sequences_;
  const LandingUse use_;
  OwnedMemory owned_;
  LandingMemory memory_;
  Status why_not_direct_;
  /// The session ends it when it is closed. Last: nothing arrives once it is gone.
  const std::shared_ptr<internal::DirectLanding> direct_ =
      std::make_shared<internal::DirectLanding>();
};

}  // namespace quire

#endif  // QUIRE_CLIENT_SESSION_LANDING_H_
