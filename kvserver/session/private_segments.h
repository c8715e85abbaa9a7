// SPDX-License-Identifier: Apache-2.0
//
// PrivateSegments: the stored segments of a private context, whose pages come of approximate
// attention and are nobody else's. Their keys are made with a random salt instead of the tenant's,
// so that no lookup finds them; they are deleted when the last view of the context is gone. What a
// server that was killed left of them, the store drops when it is opened.
//
// Thread-safety: Add by one thread at a time, the rest is constant. Ownership: shared by the views
// of the context and by the contexts that continue it; the store outlives it.
#ifndef QUIRE_KVSERVER_SESSION_PRIVATE_SEGMENTS_H_
#define QUIRE_KVSERVER_SESSION_PRIVATE_SEGMENTS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "kvserver/store/page_store.h"

namespace quire::kvserver {

class PrivateSegments {
 public:
  /// Contexts that continue one another at most: each keeps the pages of those before it.
  static constexpr uint32_t kMaxDepth = 64;

  /// `continued`: those of the context that this one continues, or null. They stay as long.
  /// REQUIRES: their depth() is below kMaxDepth.
  PrivateSegments(PageStore* store, std::string tenant,
                  std::shared_ptr<const PrivateSegments> continued)
      : store_(store), tenant_(std::move(tenant)), continued_(std::move(continued)) {
    SystemRandom().Fill(salt_);
  }
  ~PrivateSegments() {
    // One that cannot be deleted now, on a full disk say, is dropped when the store is opened
    // again.
    for (auto key = keys_.rbegin(); key != keys_.rend(); ++key) {
      (void)store_->DeleteSegment(tenant_, *key);
    }
  }
  PrivateSegments(const PrivateSegments&) = delete;
  PrivateSegments& operator=(const PrivateSegments&) = delete;

  const TenantSalt& salt() const { return salt_; }
  /// Contexts that this one continues, one after the other, and itself.
  uint32_t depth() const { return continued_ == nullptr ? 1 : continued_->depth() + 1; }
  /// A segment that was stored with the salt.
  void Add(const SegmentKey& key) { keys_.push_back(key); }

 private:
  PageStore* const store_;
  const std::string tenant_;
  const std::shared_ptr<const PrivateSegments> continued_;
  TenantSalt salt_{};
  std::vector<SegmentKey> keys_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_PRIVATE_SEGMENTS_H_
