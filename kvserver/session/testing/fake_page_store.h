// SPDX-License-Identifier: Apache-2.0
//
// FakePageStore: a PageStore in a map, for tests of its users. It keeps the promises that they rely
// on (content addressing, the first bytes stand, chains) and fails on request. Thread-safe. Only
// tests link it.
#ifndef QUIRE_KVSERVER_SESSION_TESTING_FAKE_PAGE_STORE_H_
#define QUIRE_KVSERVER_SESSION_TESTING_FAKE_PAGE_STORE_H_

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/memory/checksum.h"
#include "common/base/threads/mutex.h"
#include "kernels/api/page_digest.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kvserver/store/page_store.h"
#include "kvserver/store/policy/eviction/lru.h"
#include "kvserver/store/policy/segment_lives.h"
#include "kvserver/store/testing/memory_metadata_store.h"
#include "kvserver/store/unit_digests.h"
#include "quire/layout.h"

namespace quire::kvserver::testing {

class FakePageStore : public PageStore, public SegmentHold::Owner {
 public:
  /// Makes puts and reads return this status until it is OK again.
  void FailPuts(Status status) { Set(&put_failure_, std::move(status)); }
  void FailReads(Status status) { Set(&read_failure_, std::move(status)); }
  /// Priority of the last read.
  Priority last_priority() const {
    MutexLock lock(mutex_);
    return last_priority_;
  }
  size_t num_segments() const {
    MutexLock lock(mutex_);
    return segments_.size();
  }
  /// Number of successful calls of ReadDigests.
  uint64_t digest_reads() const {
    MutexLock lock(mutex_);
    return digest_reads_;
  }

  StatusOr<PutSegmentResult> PutSegment(std::string_view tenant,
                                        const PutSegmentArgs& args) override {
    MutexLock lock(mutex_);
    QUIRE_RETURN_IF_ERROR(put_failure_);
    const KvSpec& spec = *args.spec;
    Segment segment{spec, args.parent, {args.tokens.begin(), args.tokens.end()}, nullptr};
    std::vector<std::byte> kept(args.payload.begin(), args.payload.end());
    for (const auto row : args.payload_rows) kept.insert(kept.end(), row.begin(), row.end());
    if (kept.size() != SegmentBytes(spec, PageCount(spec, args.tokens.size()))) {
      return InvalidArgument("the payload has the wrong size");
    }
    if (args.codec.id != CodecId::kRaw) {  // Lossy: clears the lowest byte of each float.
      for (size_t i = 0; i < kept.size(); i += sizeof(float)) kept[i] = std::byte{0};
    }
    segment.payload = std::make_shared<const std::vector<std::byte>>(std::move(kept));
    const TenantSalt salt = args.private_salt != nullptr ? *args.private_salt : Salt(tenant);
    const SegmentKey key = ComputeKey(salt, Fingerprint(spec), args.parent, args.tokens);
    const auto [it, added] = segments_.emplace(key, segment);
    if (added) {
      lives_.Add({.key = key,
                  .tenant = tenant,
                  .parent = args.parent,
                  .incarnation = lives_.NextIncarnation(0),
                  .is_private = args.private_salt != nullptr},
                 {});
    }
    const bool differs = !added && *it->second.payload != *segment.payload;
    if (differs && args.strict) return AlreadyExists("other bytes");
    if (args.hold != nullptr && lives_.Hold(key, {})) args.hold->Add(SegmentHold(this, {key}));
    return PutSegmentResult{.key = key, .existed = !added, .differs = differs};
  }

  StatusOr<std::vector<SegmentKey>> Lookup(std::string_view tenant, const KvSpec& spec,
                                           std::span<const TokenId> tokens) override {
    MutexLock lock(mutex_);
    std::vector<SegmentKey> found;
    for (const SegmentKey& key : ChainKeys(Salt(tenant), spec, tokens)) {
      if (!segments_.contains(key)) break;
      found.push_back(key);
    }
    return found;
  }

  StatusOr<ChainPtr> ResolveChain(std::string_view, const SegmentKey& tip) override {
    MutexLock lock(mutex_);
    auto chain = std::make_shared<Chain>();
    for (SegmentKey key = tip; key != kRootKey;) {
      QUIRE_ASSIGN_OR_RETURN(const Segment* segment, Find(key));
      chain->spec = segment->spec;
      chain->num_tokens += segment->tokens.size();
      chain->keys.insert(chain->keys.begin(), key);
      key = segment->parent;
    }
    return ChainPtr(std::move(chain));
  }

  StatusOr<std::vector<TokenId>> Tokens(std::string_view, const SegmentKey& key) override {
    MutexLock lock(mutex_);
    QUIRE_ASSIGN_OR_RETURN(const Segment* segment, Find(key));
    return segment->tokens;
  }

  using PageStore::ReadUnits;
  Status ReadUnits(const Caller& caller, std::span<const UnitAddress> units, const CodecSet&,
                   std::vector<UnitBytes>* out) override {
    MutexLock lock(mutex_);
    last_priority_ = caller.priority;
    QUIRE_RETURN_IF_ERROR(read_failure_);
    std::vector<UnitBytes> read;
    for (const UnitAddress& address : units) {
      QUIRE_ASSIGN_OR_RETURN(const Segment* segment, Find(address.segment));
      const uint64_t bytes = quire::UnitBytes(segment->spec);
      const uint64_t extent =
          ExtentBytes(segment->spec, PageCount(segment->spec, segment->tokens.size()));
      const auto unit = std::span(*segment->payload)
                            .subspan(address.layer * extent + address.unit * bytes, bytes);
      read.push_back({Slice{unit, segment->payload}, Crc32c(unit)});
    }
    *out = std::move(read);
    return OkStatus();
  }

  Status ReadVerified(const Caller& caller, std::span<const UnitAddress> units,
                      std::vector<VerifiedBytes>* out) override {
    std::vector<UnitBytes> read;
    QUIRE_RETURN_IF_ERROR(ReadUnits(caller, units, &read));
    out->clear();
    for (const UnitBytes& unit : read) out->push_back(unit.Verify().value());
    return OkStatus();
  }
  Status Recheck(const Caller&, std::span<const ReportedUnit>) override { return OkStatus(); }

  using PageStore::ReadDigests;
  StatusOr<SegmentDigests> ReadDigests(const Caller& caller, const SegmentKey& key, uint32_t layer,
                                       kernels::DigestKind kind) override {
    MutexLock lock(mutex_);
    last_priority_ = caller.priority;
    QUIRE_RETURN_IF_ERROR(read_failure_);
    ++digest_reads_;
    QUIRE_ASSIGN_OR_RETURN(const Segment* segment, Find(key));
    const KvSpec& spec = segment->spec;
    const uint32_t pages = PageCount(spec, segment->tokens.size());
    std::vector<int32_t> rows;
    for (uint32_t unit = 0; unit < pages * spec.num_kv_heads; ++unit) {
      rows.push_back(static_cast<int32_t>(
          TokensInPage(spec, segment->tokens.size(), unit / spec.num_kv_heads)));
    }
    auto digests =
        std::make_shared<std::vector<std::byte>>(pages * kernels::PageDigestBytes(spec, kind));
    QUIRE_RETURN_IF_ERROR(
        ComputeDigests(spec, kind,
                       {.units = segment->payload->data() + layer * ExtentBytes(spec, pages),
                        .valid_rows = rows,
                        .first_token = FirstToken(*segment)},
                       digests->data()));
    const uint32_t crc32c = Crc32c(*digests);
    return SegmentDigests{std::move(digests), pages, crc32c};
  }

  StatusOr<bool> PutRepresentatives(std::string_view, const SegmentKey&,
                                    std::span<const std::byte>) override {
    return Unimplemented("representatives");
  }
  StatusOr<ChainStat> StatChain(std::string_view, const Chain& chain) override {
    return ChainStat{SegmentBytes(chain.spec, PageCount(chain.spec, chain.num_tokens)),
                     static_cast<uint32_t>(chain.keys.size()), 0};
  }
  Status DeleteSegment(std::string_view, const SegmentKey& key) override {
    MutexLock lock(mutex_);
    pins_.erase(key);
    if (!lives_.Mark(key)) return NotFound("no segment ", key.Hex());
    Drop(key);
    return OkStatus();
  }
  StatusOr<SegmentHold> HoldSegments(std::string_view, std::span<const SegmentKey> keys) override {
    MutexLock lock(mutex_);
    for (const SegmentKey& key : keys) QUIRE_RETURN_IF_ERROR(Find(key).status());
    for (const SegmentKey& key : keys) (void)lives_.Hold(key, {});
    return SegmentHold(this, {keys.begin(), keys.end()});
  }
  void ReleaseSegments(std::span<const SegmentKey> keys) override {
    MutexLock lock(mutex_);
    for (const SegmentKey& key : keys) {
      if (lives_.Release(key, {})) Drop(key);
    }
  }
  Status NameSegments(std::string_view, std::span<const SegmentKey> keys) override {
    MutexLock lock(mutex_);
    for (const SegmentKey& key : keys) (void)lives_.Name(key);
    return OkStatus();
  }
  void UnnameSegments(std::string_view, std::span<const SegmentKey> keys) override {
    MutexLock lock(mutex_);
    for (const SegmentKey& key : keys) lives_.Unname(key, {});
  }
  void RestoreNames(const SegmentNames& names) override {
    MutexLock lock(mutex_);
    lives_.RestoreNames(names, {});
  }
  uint64_t CountNames(const SegmentKey& key) const override {
    MutexLock lock(mutex_);
    return lives_.CountNames(key);
  }
  std::vector<uint64_t> MarkForDeletion(std::string_view,
                                        std::span<const SegmentKey> keys) override {
    MutexLock lock(mutex_);
    std::vector<uint64_t> incarnations;
    for (const SegmentKey& key : keys) incarnations.push_back(lives_.Mark(key).value_or(0));
    return incarnations;
  }
  void UnmarkForDeletion(std::string_view, std::span<const SegmentKey> keys) override {
    MutexLock lock(mutex_);
    for (const SegmentKey& key : keys) lives_.Unmark(key);
  }
  Status RemoveMarked(std::string_view, const SegmentKey& key, uint64_t incarnation) override {
    MutexLock lock(mutex_);
    if (lives_.IncarnationOf(key) != incarnation) return NotFound("no segment ", key.Hex());
    (void)lives_.Mark(key);
    return Drop(key) ? OkStatus() : FailedPrecondition("it is held");
  }
  std::vector<uint64_t> Incarnations(std::span<const SegmentKey> keys) const override {
    MutexLock lock(mutex_);
    std::vector<uint64_t> incarnations;
    for (const SegmentKey& key : keys) {
      incarnations.push_back(lives_.IncarnationOf(key).value_or(0));
    }
    return incarnations;
  }
  std::vector<uint64_t> WrittenAs(std::span<const SegmentKey> keys) const override {
    MutexLock lock(mutex_);
    std::vector<uint64_t> written_as;
    for (const SegmentKey& key : keys) written_as.push_back(lives_.WrittenAs(key).value_or(0));
    return written_as;
  }
  uint64_t num_replaced() const override {
    MutexLock lock(mutex_);
    return lives_.num_replaced();
  }
  /// Simulates damage and a new put, with this byte everywhere.
  void Replace(const SegmentKey& key, std::byte byte) {
    MutexLock lock(mutex_);
    Segment& segment = segments_.at(key);
    segment.payload = std::make_shared<const std::vector<std::byte>>(segment.payload->size(), byte);
    lives_.Add({.key = key, .parent = segment.parent, .incarnation = lives_.NextIncarnation(0)},
               {});
  }
  StatusOr<uint64_t> Sweep() override { return uint64_t{0}; }
  Status PinSegments(std::string_view, std::span<const SegmentKey> keys) override {
    MutexLock lock(mutex_);
    for (const SegmentKey& key : keys) QUIRE_RETURN_IF_ERROR(Find(key).status());
    for (const SegmentKey& key : keys) ++pins_[key];
    return OkStatus();
  }
  Status UnpinSegments(std::string_view, std::span<const SegmentKey> keys) override {
    MutexLock lock(mutex_);
    for (const SegmentKey& key : keys) {
      const auto it = pins_.find(key);
      if (it == pins_.end()) return NotFound("segment ", key.Hex(), " is not pinned");
      if (--it->second == 0) pins_.erase(it);
    }
    return OkStatus();
  }
  Status CheckTenant(std::string_view) const override { return OkStatus(); }
  MetadataStore& metadata() override { return metadata_; }
  void VisitMetrics(MetricsVisitor&) const override {}
  std::string ssd_mode() const override { return "none"; }
  std::string dram_mode() const override { return "none"; }

 private:
  struct Segment {
    KvSpec spec;
    SegmentKey parent;
    std::vector<TokenId> tokens;
    std::shared_ptr<const std::vector<std::byte>> payload;
  };
  static TenantSalt Salt(std::string_view tenant) {
    TenantSalt salt{};
    std::copy_n(tenant.begin(), std::min(tenant.size(), salt.size()), salt.begin());
    return salt;
  }
  uint64_t FirstToken(const Segment& segment) const QUIRE_REQUIRES(mutex_) {
    uint64_t tokens = 0;
    for (SegmentKey at = segment.parent; at != kRootKey; at = segments_.at(at).parent) {
      tokens += segment.spec.segment_tokens();
    }
    return tokens;
  }
  StatusOr<const Segment*> Find(const SegmentKey& key) const QUIRE_REQUIRES(mutex_) {
    const auto it = segments_.find(key);
    if (it == segments_.end()) return NotFound("no segment ", key.Hex());
    return &it->second;
  }
  /// Removes a marked segment that may leave.
  bool Drop(const SegmentKey& key) QUIRE_REQUIRES(mutex_) {
    if (!lives_.BeginRemoval(key, RemovalReason::kMarked)) return false;
    lives_.Remove(key);
    return segments_.erase(key) > 0;
  }
  void Set(Status* target, Status status) {
    MutexLock lock(mutex_);
    *target = std::move(status);
  }

  MemoryMetadataStore metadata_;
  mutable Mutex mutex_;
  std::map<SegmentKey, Segment> segments_ QUIRE_GUARDED_BY(mutex_);
  std::map<SegmentKey, int> pins_ QUIRE_GUARDED_BY(mutex_);
  SegmentLives lives_ QUIRE_GUARDED_BY(mutex_){std::make_unique<Lru>()};
  Priority last_priority_ QUIRE_GUARDED_BY(mutex_) = Priority::kNormal;
  Status put_failure_ QUIRE_GUARDED_BY(mutex_);
  Status read_failure_ QUIRE_GUARDED_BY(mutex_);
  uint64_t digest_reads_ QUIRE_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_SESSION_TESTING_FAKE_PAGE_STORE_H_
