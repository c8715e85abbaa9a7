// SPDX-License-Identifier: Apache-2.0
//
// PrivateSegments: what makes the stored segments of a private context its own, whose pages come of
// approximate attention. Their keys are made with a random salt instead of the tenant's, so that no
// lookup finds them; they go with the last hold of them, which is that of the context's views
// (ContextView::hold). What a server that was killed left of them, the store drops when it is
// opened.
//
// Thread-safety: immutable. Ownership: shared by the views of the context.
#ifndef QUIRE_KVSERVER_SESSION_PRIVATE_SEGMENTS_H_
#define QUIRE_KVSERVER_SESSION_PRIVATE_SEGMENTS_H_

#include <cstdint>

#include "common/base/random.h"
#include "quire/key.h"

namespace quire::kvserver {

class PrivateSegments {
 public:
  /// Contexts that continue one another at most: each keeps the pages of those before it.
  static constexpr uint32_t kMaxDepth = 64;

  /// `depth`: the private contexts that this one continues, one after the other, and itself; at
  /// most kMaxDepth.
  explicit PrivateSegments(uint32_t depth) : depth_(depth) { SystemRandom().Fill(salt_); }

  const TenantSalt& salt() const { return salt_; }
  uint32_t depth() const { return depth_; }

 private:
  const uint32_t depth_;
  TenantSalt salt_{};
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_PRIVATE_SEGMENTS_H_
