// SPDX-License-Identifier: Apache-2.0
//
// DigestResidency: the digests that open sessions select from, kept in memory for as long as a
// session holds them, so that a selection touches neither the store nor its caches. Sessions over
// the same segments share what is kept, and what one of them is reading the others wait for.
// Bounded, for all tenants and for each: what does not fit is not held, and its session reads
// through the store's digest cache instead (ReadDigestBlocks) until there is room.
// Ownership: bytes are shared with handles, and with the blocks they gave out.
// Thread-safety: all methods may be called concurrently. The store is read outside the lock.
#ifndef QUIRE_KVSERVER_SELECT_DIGEST_RESIDENCY_H_
#define QUIRE_KVSERVER_SELECT_DIGEST_RESIDENCY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/counters.h"
#include "common/base/metrics.h"
#include "kvserver/select/digest_blocks.h"
#include "kvserver/select/digest_table.h"
#include "kvserver/store/page_store.h"
#include "kvserver/store/repair/scrub.h"
#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::kvserver {

/// Digests of one kind of the segments of a chain at some layers, held until the handle goes.
/// Immutable, but for what is found damaged.
class ResidentDigests {
 public:
  ~ResidentDigests();
  ResidentDigests(const ResidentDigests&) = delete;
  ResidentDigests& operator=(const ResidentDigests&) = delete;

  /// Pages of the chain that are held, from its first on.
  uint32_t num_pages() const { return num_pages_; }
  /// Digests at `layer`, which is held, of at least pages [first_page, end_page) of num_pages();
  /// nullopt when some of them were found damaged since they were read.
  std::optional<DigestBlocks> Blocks(uint32_t layer, uint32_t first_page, uint32_t end_page) const;

 private:
  friend class DigestResidency;

  /// `ids` are held.
  ResidentDigests(std::shared_ptr<DigestTable> table, std::string_view tenant, const KvSpec& spec,
                  DigestKind kind, std::vector<ResidentId> ids);

  const std::shared_ptr<DigestTable> table_;
  const std::string tenant_;
  const KvSpec spec_;
  const DigestKind kind_;
  const std::vector<ResidentId> ids_;  ///< [layers][segments]
  uint32_t num_pages_ = 0;
  uint32_t num_segments_ = 0;
  std::vector<ResidentBytes> blocks_;  ///< As ids_.
};

/// What to hold: digests of the stored segments `keys`, the first of a chain in order, of which
/// only the last may be short, at `layers`, which are distinct.
struct HoldArgs {
  std::span<const SegmentKey> keys;
  std::span<const uint32_t> layers;
  DigestKind kind = DigestKind::kMinMax;
};

class DigestResidency {
 public:
  static constexpr DigestTable::Limits kDefaultLimits = {.max_bytes = uint64_t{1} << 30,
                                                         .max_bytes_per_tenant = uint64_t{1} << 30};

  /// `store` outlives this; handles may live longer.
  explicit DigestResidency(PageStore* store, const DigestTable::Limits& limits = kDefaultLimits);
  ~DigestResidency();

  /// Holds digests. What another handle holds is shared, the rest is read now. Null when it does
  /// not fit; nothing is read then. A context that has grown is held anew, with all its keys: what
  /// was held is not read again. NOT_FOUND when a segment is gone, DATA_LOSS when its digests are
  /// damaged, RESOURCE_EXHAUSTED of the store.
  [[nodiscard]] StatusOr<std::shared_ptr<const ResidentDigests>> Hold(const Caller& caller,
                                                                      const KvSpec& spec,
                                                                      const HoldArgs& args);
  /// Verifies what is held; may outlive this.
  std::unique_ptr<ScrubWork> Scrub() const;
  /// Changes when room is given back: what did not fit may fit then.
  uint64_t frees() const { return table_->frees(); }

  /// digest_bytes_resident, digest_holds, digest_holds_refused, digest_extents_loaded,
  /// digest_extents_shared.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  /// The bytes of an entry that is held: read now, unless they are there or somebody reads them.
  StatusOr<ResidentBytes> Bytes(const Caller& caller, const KvSpec& spec, const ResidentId& id,
                                bool last);
  StatusOr<ResidentBytes> Read(const Caller& caller, const KvSpec& spec, const ResidentId& resident,
                               bool last);

  PageStore* const store_;
  const std::shared_ptr<DigestTable> table_;
  Counter holds_, refused_, loaded_, shared_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SELECT_DIGEST_RESIDENCY_H_
