// SPDX-License-Identifier: Apache-2.0
//
// PageStoreImpl: PageStore over one DramTier and one SsdTier. Everything is written through to SSD;
// the durability only decides on a sync. An extent can therefore leave DRAM at any time, and a put
// never fails for want of DRAM.
//
// Put, delete and promotion of one segment exclude each other (`writers_`). Readers take no lock
// over I/O. Only a read that failed waits for `writers_`. Lock order: a KeyedLock guard, then any
// one of the short internal locks (DramTier, Arena below it, BoundedCache, promotion, damaged set).
// None of these is held over I/O.
#ifndef QUIRE_KVSERVER_STORE_PAGE_STORE_IMPL_H_
#define QUIRE_KVSERVER_STORE_PAGE_STORE_IMPL_H_

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "kvserver/store/dram/dram_tier.h"
#include "kvserver/store/events/segment_event_log.h"
#include "kvserver/store/keyed_lock.h"
#include "kvserver/store/metadata/data_directory.h"
#include "kvserver/store/metadata/database.h"
#include "kvserver/store/metadata/digest_store.h"
#include "kvserver/store/metadata/rocksdb_metadata_store.h"
#include "kvserver/store/metadata/segment_catalog.h"
#include "kvserver/store/metadata/tenant_directory.h"
#include "kvserver/store/page_store.h"
#include "kvserver/store/policy/pin_table.h"
#include "kvserver/store/policy/ssd_budget.h"
#include "kvserver/store/read/digest_deriver.h"
#include "kvserver/store/read/io_gate.h"
#include "kvserver/store/read/unit_reader.h"
#include "kvserver/store/repair/scrubber.h"
#include "kvserver/store/space/hint_keeper.h"
#include "kvserver/store/space/segment_keeper.h"
#include "kvserver/store/space/space_accounts.h"
#include "kvserver/store/ssd/ssd_tier.h"
#include "kvserver/store/ssd/timed_engine.h"
#include "kvserver/store/stall_watch.h"
#include "kvserver/store/store_latencies.h"
#include "kvserver/store/write/segment_writer.h"

namespace quire::kvserver {

class PageStoreImpl final : public PageStore {
 public:
  /// Substitutes of tests for parts of the machine; null: the machine's own.
  struct Machine {
    rocksdb::Env* env = nullptr;  ///< Files of the database.
    IoEngine* engine = nullptr;   ///< Bytes of the payload volumes.
    FaultPoints* faults = nullptr;
    Disk* disk = nullptr;  ///< The data directory, and the volumes' names and sizes.
  };
  /// As PageStore::Open, on the files of `machine`, which outlives the store.
  static StatusOr<std::unique_ptr<PageStoreImpl>> Open(const Options& options,
                                                       const Machine& machine);
  /// Makes everything acknowledged durable.
  ~PageStoreImpl() override;

  StatusOr<PutSegmentResult> PutSegment(std::string_view tenant,
                                        const PutSegmentArgs& args) override;
  StatusOr<StoredObjectStat> FindObject(std::string_view tenant, std::string_view object_key,
                                        SegmentHold* hold) override;
  StatusOr<std::vector<SegmentKey>> Lookup(std::string_view tenant, const KvSpec& spec,
                                           std::span<const TokenId> tokens) override;
  StatusOr<ChainPtr> ResolveChain(std::string_view tenant, const SegmentKey& tip) override;
  StatusOr<std::vector<TokenId>> Tokens(std::string_view tenant, const SegmentKey& key) override;
  using PageStore::ReadUnits;
  Status ReadUnits(const Caller& caller, std::span<const UnitAddress> units, const CodecSet& codecs,
                   std::vector<UnitBytes>* out) override;
  StatusOr<CodecParams> StoredCodec(std::string_view tenant, const SegmentKey& key) override;
  Status ReadVerified(const Caller& caller, std::span<const UnitAddress> units,
                      std::vector<VerifiedBytes>* out) override;
  Status Recheck(const Caller& caller, std::span<const ReportedUnit> units) override;
  using PageStore::ReadDigests;
  StatusOr<SegmentDigests> ReadDigests(const Caller& caller, const SegmentKey& key, uint32_t layer,
                                       kernels::DigestKind kind) override;
  StatusOr<bool> PutRepresentatives(std::string_view tenant, const SegmentKey& key,
                                    std::span<const std::byte> digests) override;
  StatusOr<std::vector<std::byte>> ReadRepresentatives(const Caller& caller,
                                                       const SegmentKey& key) override;
  StatusOr<ChainStat> StatChain(std::string_view tenant, const Chain& chain) override;
  Status DeleteSegment(std::string_view tenant, const SegmentKey& key) override;
  uint32_t LostSegments(std::string_view tenant, const SegmentKey& tip) override;
  uint64_t num_damaged() const override { return catalog_.NumDamaged(); }
  void CheckDevice() override;
  StatusOr<SegmentHold> HoldSegments(std::string_view tenant,
                                     std::span<const SegmentKey> keys) override;
  Status NameSegments(std::string_view tenant, std::span<const SegmentKey> keys) override;
  void UnnameSegments(std::string_view, std::span<const SegmentKey> keys) override {
    keeper_.Unname(keys);
  }
  void RestoreNames(const SegmentNames& names) override { keeper_.RestoreNames(names); }
  uint64_t CountNames(const SegmentKey& key) const override { return keeper_.CountNames(key); }
  std::vector<uint64_t> MarkForDeletion(std::string_view tenant,
                                        std::span<const SegmentKey> keys) override {
    return keeper_.Mark(tenant, keys);
  }
  void UnmarkForDeletion(std::string_view tenant, std::span<const SegmentKey> keys) override {
    keeper_.Unmark(tenant, keys);
  }
  Status RemoveMarked(std::string_view tenant, const SegmentKey& key,
                      uint64_t incarnation) override;
  std::vector<uint64_t> Incarnations(std::span<const SegmentKey> keys) const override {
    return keeper_.Incarnations(keys);
  }
  std::vector<uint64_t> WrittenAs(std::span<const SegmentKey> keys) const override {
    return keeper_.WrittenAs(keys);
  }
  uint64_t num_replaced() const override { return keeper_.num_replaced(); }
  StatusOr<uint64_t> Sweep() override {
    hints_.Expire();
    return keeper_.Sweep();
  }
  void NoteHints(std::string_view tenant, const Hints& hints,
                 std::span<const SegmentKey> segments) override {
    hints_.Note(tenant, hints, segments);
  }
  StatusOr<uint64_t> ReleaseConversation(std::string_view tenant,
                                         std::string_view conversation) override {
    return hints_.Release(tenant, conversation);
  }
  StatusOr<HeldChain> HoldConversation(std::string_view tenant,
                                       std::string_view conversation) override;
  SegmentEventLog* events() override { return events_.get(); }
  std::vector<ListedSegment> ListSegments(std::string_view tenant, const SegmentKey& after,
                                          size_t limit) const override;
  Status BringToDram(std::string_view tenant, const SegmentKey& key) override {
    return reader_.BringToDram(tenant, key);
  }
  Status PinSegments(std::string_view tenant, std::span<const SegmentKey> keys) override;
  Status UnpinSegments(std::string_view tenant, std::span<const SegmentKey> keys) override;
  TenantUse UseOf(std::string_view tenant) const override {
    return {.dram_bytes = dram_->used_bytes(tenant), .ssd_bytes = space_.used_bytes(tenant)};
  }
  Status CheckTenant(std::string_view tenant) const override;
  MetadataStore& metadata() override { return metadata_; }
  void VisitMetrics(MetricsVisitor& visit) const override;
  std::string ssd_mode() const override {
    return std::string(payload_->engine_name()) + ", " + std::string(payload_->mode());
  }
  std::string dram_mode() const override { return dram_->mode(); }
  std::optional<SharedMemoryView> shared_memory() const override { return dram_->shared_memory(); }

  /// Access for tests that damage or inspect stored data, and for benchmarks of the parts.
  DramTier& dram() { return *dram_; }
  Database& database() { return *database_; }
  PayloadStore& payload() { return *payload_; }
  SegmentCatalog& catalog() { return catalog_; }
  /// Scrubber of one kind of stored bytes. REQUIRES: there is one.
  Scrubber& scrubber(std::string_view kind) {
    return **std::ranges::find(scrubbers_, kind, [](const auto& scrub) { return scrub->kind(); });
  }

 private:
  struct Parts {
    std::unique_ptr<EvictionPolicy> cached_eviction;
    SsdBudget budget;
    std::unique_ptr<Health> own_health;  ///< Null when the caller provides it.
    Health* health = nullptr;
    std::unique_ptr<StallWatch> watch;
    std::unique_ptr<RecurringTrouble> reads;
    std::unique_ptr<StoreLatencies> latencies;
    std::unique_ptr<DataDirectory> directory;
    std::unique_ptr<Database> database;
    std::unique_ptr<IoEngine> engine;  ///< Null when the caller provides it.
    std::unique_ptr<TimedEngine> timed_engine;
    std::unique_ptr<PayloadStore> payload;
    std::unique_ptr<SegmentEventLog> events;
    std::unique_ptr<DramTier> dram;
    TenantDirectory tenants;
  };
  static Status OpenPayload(const Machine& machine, Parts* parts);
  PageStoreImpl(const Options& options, const Machine& machine, Parts parts,
                const SegmentCatalog::Totals& stored, const SsdTier::Recovered& recovered);

  /// Reports losses since the store was last open.
  void TellWhatIsLost(const SegmentCatalog::Totals& stored, const SsdTier::Recovered& recovered);
  /// Makes a scrubber of each kind. Those with a rate run in the background.
  void StartScrubbing(const Options& options);
  Status PinSegment(std::string_view tenant, const SegmentKey& key);
  Status UnpinSegment(const SegmentKey& key);
  Status CheckMayRemove(std::string_view tenant, const SegmentKey& key);

  // Constant after construction; each provides its own synchronisation.
  const std::unique_ptr<Health> own_health_;
  Health& health_;
  const std::unique_ptr<StallWatch> watch_;
  const std::unique_ptr<RecurringTrouble> reads_;
  const std::unique_ptr<StoreLatencies> latencies_;
  const std::unique_ptr<DataDirectory> directory_;
  const std::unique_ptr<Database> database_;
  const std::unique_ptr<IoEngine> engine_;
  const std::unique_ptr<TimedEngine> timed_engine_;
  const std::unique_ptr<PayloadStore> payload_;
  const std::unique_ptr<SegmentEventLog> events_;
  const std::unique_ptr<DramTier> dram_;
  const TenantDirectory tenants_;
  const SsdBudget budget_;
  RocksDbMetadataStore metadata_;
  SsdTier ssd_;
  SegmentCatalog catalog_;
  DramDamage damage_;
  IoGate gate_;
  DigestStore digests_;
  KeyedLock writers_;
  UnitReader reader_;
  DigestDeriver deriver_;
  SpaceAccounts space_;
  SegmentKeeper keeper_;
  HintKeeper hints_;
  Counter dropped_, torn_, lost_bytes_, lost_segments_;
  SegmentWriter writer_;
  std::vector<std::unique_ptr<Scrubber>>
      scrubbers_;  ///< Destroyed first: scrubbers read the other parts.
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAGE_STORE_IMPL_H_
