// SPDX-License-Identifier: Apache-2.0
//
// PrivateSegments: the identity of a private context's stored segments, whose pages come from
// approximate attention. Their keys use a random salt instead of the tenant's, so no lookup finds
// them. They are deleted with their last hold, that of the context's views (ContextView::hold).
// After a crash the store drops them at open.
//
// Thread-safety: immutable. Ownership: shared by the views of the context.
#ifndef QUIRE_KVSERVER_SESSION_CONTEXT_PRIVATE_SEGMENTS_H_
#define QUIRE_KVSERVER_SESSION_CONTEXT_PRIVATE_SEGMENTS_H_

#include <cstdint>

#include "common/base/random.h"
#include "quire/key.h"

namespace quire::kvserver {

class PrivateSegments {
 public:
  /// Longest chain of contexts that continue one another; each keeps the pages of earlier ones.
  static constexpr uint32_t kMaxDepth = 64;

  /// `depth` counts the private contexts of the chain, including this one; at most kMaxDepth.
  explicit PrivateSegments(uint32_t depth) : depth_(depth) { SystemRandom().Fill(salt_); }

  const TenantSalt& salt() const { return salt_; }
  uint32_t depth() const { return depth_; }

 private:
  const uint32_t depth_;
  TenantSalt salt_{};
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_CONTEXT_PRIVATE_SEGMENTS_H_
