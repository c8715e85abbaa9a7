// SPDX-License-Identifier: Apache-2.0
//
// DigestResidency: the digests that open sessions select from, kept in memory while a session holds
// them. A selection then touches neither the store nor its caches. Sessions over the same segments
// share digests, and one waits while another reads. Memory is bounded, in total and per tenant.
// Without room digests are not held, and the session reads through the store's digest cache
// (ReadDigestBlocks). Ownership: bytes are shared with handles and their blocks. Thread-safety: all
// methods may be called concurrently. The store is read outside the lock.
#ifndef QUIRE_KVSERVER_SELECT_DIGEST_RESIDENCY_H_
#define QUIRE_KVSERVER_SELECT_DIGEST_RESIDENCY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/observe/counters.h"
#include "common/base/observe/metrics.h"
#include "kvserver/select/digest_blocks.h"
#include "kvserver/select/digest_table.h"
#include "kvserver/store/page_store.h"
#include "kvserver/store/repair/scrub.h"
#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::kvserver {

/// Digests of one kind of a chain's segments at some layers, held until destruction. Immutable,
/// except for blocks marked as damaged.
class ResidentDigests {
 public:
  ~ResidentDigests();
  ResidentDigests(const ResidentDigests&) = delete;
  ResidentDigests& operator=(const ResidentDigests&) = delete;

  /// Number of held pages of the chain, from its first on.
  uint32_t num_pages() const { return num_pages_; }
  /// Digests at `layer`, which is held, covering [first_page, end_page) of num_pages(). nullopt
  /// when some were found damaged since they were read.
  std::optional<DigestBlocks> Blocks(uint32_t layer, uint32_t first_page, uint32_t end_page) const;

 private:
  friend class DigestResidency;

  /// REQUIRES: `ids` are held.
  ResidentDigests(std::shared_ptr<DigestTable> table, std::string_view tenant, const KvSpec& spec,
                  DigestKind kind, std::vector<ResidentId> ids);

  const std::shared_ptr<DigestTable> table_;
  const std::string tenant_;
  const KvSpec spec_;
  const DigestKind kind_;
  const std::vector<ResidentId> ids_;  ///< [layers][segments]
  uint32_t num_pages_ = 0;
  uint32_t num_segments_ = 0;
  std::vector<ResidentBytes> blocks_;  ///< [layers][segments]
};

/// Digests to hold. `keys` are the first stored segments of a chain in order; only the last may be
/// short. `layers` are distinct.
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

  /// Holds digests. Shares those of other handles and reads the rest. Null when they do not fit;
  /// nothing is read then. For a grown context, hold all its keys again; held ones are not read
  /// again. NOT_FOUND when a segment is gone, DATA_LOSS when its digests are damaged,
  /// RESOURCE_EXHAUSTED of the store.
  [[nodiscard]] StatusOr<std::shared_ptr<const ResidentDigests>> Hold(const Caller& caller,
                                                                      const KvSpec& spec,
                                                                      const HoldArgs& args);
  /// Verifies held digests; may outlive this.
  std::unique_ptr<ScrubWork> Scrub() const;
  /// Changes when room is freed, so that a refused hold may be retried.
  uint64_t frees() const { return table_->frees(); }

  /// digest_bytes_resident, digest_holds, digest_holds_refused, digest_extents_loaded,
  /// digest_extents_shared.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  /// Bytes of a held entry. Reads them unless they are there or being read.
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
