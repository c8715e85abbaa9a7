// SPDX-License-Identifier: Apache-2.0
//
// CallLanding: memory of a client that the replies to its calls may be written into, as the server
// has it. It is opened for a connection (docs/design/0014-ucx.md); who answers calls makes it a
// session's, and takes it back when that ends.
#ifndef QUIRE_COMMON_BASE_CALL_LANDING_H_
#define QUIRE_COMMON_BASE_CALL_LANDING_H_

namespace quire {

/// Thread-safe.
class CallLanding {
 public:
  virtual ~CallLanding() = default;
  /// Makes it `owner`'s, unless it is somebody's. True when it is `owner`'s.
  virtual bool Claim(const void* owner) = 0;
  /// From now on nothing is written there for any call, and its key opens nothing. Waits for what
  /// is being written: not from a pipe's thread. Idempotent.
  virtual void Revoke() = 0;
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_CALL_LANDING_H_
