// SPDX-License-Identifier: Apache-2.0
//
// CallLanding: the server's view of client memory that replies may be written into.
// A connection opens it (docs/design/0014-ucx.md). A session claims it and revokes it when the
// session ends.
#ifndef QUIRE_COMMON_BASE_CALL_LANDING_H_
#define QUIRE_COMMON_BASE_CALL_LANDING_H_

namespace quire {

/// Thread-safe.
class CallLanding {
 public:
  virtual ~CallLanding() = default;
  /// Claims the landing for `owner`. Returns false when another owner has it.
  virtual bool Claim(const void* owner) = 0;
  /// Stops all writes into the landing and invalidates its key. Waits for writes in flight, so it
  /// must not be called from a pipe's thread. Idempotent.
  virtual void Revoke() = 0;
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_CALL_LANDING_H_
