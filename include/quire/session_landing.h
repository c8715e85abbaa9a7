// SPDX-License-Identifier: Apache-2.0
//
// SessionLanding: memory that the server writes the units of a session's recalls into, where the
// connection lets it. ClientSession::MakeLanding makes one; RecallOptions::landing names it. Landed
// units are handed out as payload in place, until the next recall of their lane is started.
// Thread-safety: none; it belongs to the thread of its session. Ownership: the session outlives it;
// it outlives every recall that names it.
#ifndef QUIRE_SESSION_LANDING_H_
#define QUIRE_SESSION_LANDING_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace quire {

class SessionLanding {
 public:
  virtual ~SessionLanding() = default;
  SessionLanding(const SessionLanding&) = delete;
  SessionLanding& operator=(const SessionLanding&) = delete;

  /// Sequences with lower numbers have a place here.
  virtual uint32_t num_sequences() const = 0;
  /// True when the server writes here; false once the session is closed.
  virtual bool direct() const = 0;
  /// [sequences][managed layers][n_kv][slots_per_head] units.
  virtual std::span<std::byte> bytes() const = 0;
  /// The place of a slot of a managed layer.
  virtual std::span<std::byte> Unit(uint32_t sequence, uint32_t layer, uint32_t head,
                                    uint32_t slot) const = 0;

 protected:
  SessionLanding() = default;
};

}  // namespace quire

#endif  // QUIRE_SESSION_LANDING_H_
