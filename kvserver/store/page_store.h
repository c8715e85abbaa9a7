// SPDX-License-Identifier: Apache-2.0
//
// PageStore: the facade of the storage engine. It names segments, checks and digests what is put,
// writes through to SSD, serves units from DRAM or SSD, and resolves chains. Tiers move bytes,
// policies decide; this class routes. It knows nothing of sessions, documents or the wire.
//
// Promises kept here: a sealed segment never changes, the first bytes under a key stand; bytes that
// fail their checksum are never returned (DATA_LOSS); every bound answers RESOURCE_EXHAUSTED;
// tenants never share segments.
//
// Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_KVSERVER_STORE_PAGE_STORE_H_
#define QUIRE_KVSERVER_STORE_PAGE_STORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/health.h"
#include "common/base/metrics.h"
#include "common/base/shared_memory.h"
#include "kernels/api/digest.h"
#include "kvserver/store/caller.h"
#include "kvserver/store/chain.h"
#include "kvserver/store/codec/codec.h"
#include "kvserver/store/io_gate.h"
#include "kvserver/store/metadata/metadata_store.h"
#include "kvserver/store/policy/prefill_cost.h"
#include "kvserver/store/policy/quota_table.h"
#include "kvserver/store/repair/scrub.h"
#include "kvserver/store/segment_hold.h"
#include "kvserver/store/unit.h"
#include "quire/clock.h"
#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::kvserver {

enum class Durability : uint8_t { kMemory, kPersisted };

/// Digests of the pages of one segment at one layer: [pages][n_kv][DigestElements(kind, key_dim)]
/// in the KV dtype.
struct SegmentDigests {
  std::shared_ptr<const std::vector<std::byte>> bytes;
  uint32_t num_pages = 0;
  uint32_t crc32c = 0;  ///< Of the bytes when they were made, or verified.
};

struct PutSegmentArgs {
  const KvSpec* spec = nullptr;
  SegmentKey parent =
      kRootKey;  ///< kRootKey, or a stored full segment of the same tenant and spec.
  std::span<const TokenId> tokens;     ///< 1 .. p*g
  std::span<const std::byte> payload;  ///< [num_layers][pages][n_kv] units
  /// In its place: [num_layers][pages], each [n_kv] units, which lie wherever they do.
  std::span<const std::span<const std::byte>> payload_rows = {};
  /// [num_layers][pages][n_kv], of the units: those that they had when they arrived, for a payload
  /// that has been kept since. DATA_LOSS when a unit does not match. Empty for a payload that has
  /// just arrived: its checksums are made here.
  std::span<const uint32_t> unit_crc32c = {};
  std::optional<SegmentKey> expected_key;  ///< Checked when given.
  Durability durability = Durability::kPersisted;
  /// How the units are stored. Readers get what they decode to, and digests come from that. A
  /// segment that is stored already keeps its codec.
  CodecParams codec = {};
  /// Makes the key in the place of the tenant's salt. Such a segment is private to the context that
  /// has the salt: lookups and chains of others do not find it, and it is gone at the next open.
  const TenantSalt* private_salt = nullptr;
  /// Other bytes than those stored under the key are ALREADY_EXISTS, instead of taking the stored
  /// ones.
  bool strict = false;
  /// Gets a hold of the segment, from the moment at which it is stored; may be null. A private
  /// segment goes when nobody holds it.
  SegmentHold* hold = nullptr;
};
struct PutSegmentResult {
  SegmentKey key;
  bool existed = false;
  /// It existed with other bytes than those that were put, which are dropped: the first stand.
  bool differs = false;
  /// With `differs`: checksums of the units as they are stored, [layers][pages][n_kv].
  std::vector<uint32_t> stored_crc32c = {};
};

struct ChainStat {
  uint64_t bytes = 0;
  uint32_t segments_in_dram = 0;  ///< With at least one extent in DRAM.
  uint32_t segments_on_ssd = 0;   ///< All but those that are in DRAM only.
  uint32_t segments_lost = 0;     ///< Known to be lost or damaged; they count as missing.
};

/// A chain, and what keeps its segments stored.
struct HeldChain {
  ChainPtr chain;
  SegmentHold hold;
  std::vector<uint64_t> written_as;  ///< Of chain->keys, as PageStore::WrittenAs.
};

class PageStore {
 public:
  static constexpr double kSsdShare = 0.8;

  struct Options {
    std::string ssd_path;              ///< Data directory; created when missing. Required.
    uint64_t dram_bytes = 1ull << 30;  ///< Arena, reserved at open.
    int dram_numa_node = -1;           ///< Where the arena lies; -1 = on all nodes in turn.
    bool dram_prefault = false;        ///< Fill the arena at open (ArenaMemory).
    /// Shares of the arena: above the high mark extents leave DRAM until the low one is reached.
    /// With both at 1 they leave when there is no room.
    double dram_high_watermark = 1;
    double dram_low_watermark = 1;
    /// DRAM that single tenants may use; the others: all of it.
    TenantBytes tenant_dram_quota_bytes = {};
    /// Limit of all files of the data directory together. Payload has a part of it
    /// (policy/ssd_budget.h). 0: kSsdShare of what the file system has for them at open.
    uint64_t ssd_bytes = 0;
    /// How long a segment that no document refers to stays on SSD unused; zero: until its room is
    /// needed.
    Duration cached_ttl = Duration::zero();
    /// Payload bytes that single tenants may have on SSD; the others: what ssd_bytes leaves.
    TenantBytes tenant_ssd_quota_bytes = {};
    /// Budget of SSD writes for puts that need not persist: the long-term rate, and the burst. A
    /// rate of 0: no budget. Puts beyond it stay in DRAM only, and are gone when they leave it.
    uint64_t ssd_write_bytes_per_second = 0;
    uint64_t ssd_write_burst_bytes = 1ull << 30;
    uint64_t ssd_volume_bytes = 256ull << 20;  ///< Size of a new payload volume.
    std::vector<std::string> tenants = {
        "default"};  ///< Tenants of the store; 1..64 bytes of [A-Za-z0-9_.-] each.
    /// Requests that read an extent from SSD before it is brought back to DRAM; at least 1.
    uint32_t promote_after_touches = 2;
    /// Eviction policy of DRAM and of segments cached on SSD; a name of policy/eviction_factory.h.
    std::string eviction_policy = "lru";
    PrefillCost prefill_cost = {};            ///< For policies that weigh what eviction costs.
    uint64_t catalog_cache_bytes = 64 << 20;  ///< Segment records and chains kept in memory.
    uint64_t digest_cache_bytes = 64 << 20;   ///< Digests kept in memory.
    uint64_t extent_cache_bytes = 64 << 20;   ///< Records of extents on SSD kept in memory.
    ScrubRates scrub_bytes_per_second = {};   ///< Rates of verification in the background.
    ScrubObserver* scrub_observer = nullptr;  ///< May be null; outlives the store.
    /// Whether a row of the metadata is what was written, for the scrub: DATA_LOSS when it is not.
    /// Null: the database's own checksums have to do.
    Status (*check_metadata)(std::string_view key, std::string_view value) = nullptr;
    IoGate::Options ssd_gate = {};  ///< How many calls may wait for the SSD at once.
    Clock* clock = nullptr;         ///< SystemClock() when null; outlives the store.
    Health* health = nullptr;       ///< The store has one of its own when null; outlives the store.
  };
  /// Opens or creates the store and recovers to the last acknowledged state.
  /// Errors name the path and the remedy: not a directory, not writable, locked by another server,
  /// written by a newer version, DATA_LOSS.
  static StatusOr<std::unique_ptr<PageStore>> Open(const Options& options);
  virtual ~PageStore() = default;

  /// Stores a segment. The first bytes under a key stand: what is stored and not known to be
  /// damaged stays as it is, and the result says whether it is what was put. A damaged or lost
  /// segment is replaced by these bytes, whatever it was.
  virtual StatusOr<PutSegmentResult> PutSegment(std::string_view tenant,
                                                const PutSegmentArgs& args) = 0;

  /// Keys of the longest stored prefix of `tokens` made of whole segments, plus a short last
  /// segment when it ends exactly at the end of `tokens`.
  virtual StatusOr<std::vector<SegmentKey>> Lookup(std::string_view tenant, const KvSpec& spec,
                                                   std::span<const TokenId> tokens) = 0;

  /// The chain that ends with `tip`. NOT_FOUND when a segment of it is gone, or `tip` is private.
  virtual StatusOr<ChainPtr> ResolveChain(std::string_view tenant, const SegmentKey& tip) = 0;
  /// Token ids of one segment.
  virtual StatusOr<std::vector<TokenId>> Tokens(std::string_view tenant, const SegmentKey& key) = 0;

  /// Reads units, to be handed out: who receives them verifies, and calls Recheck for those that do
  /// not match. `out` has one entry per address in order, or none when it fails. Give the same
  /// vector again and again: then units that are in DRAM are handed out without allocating.
  virtual Status ReadUnits(const Caller& caller, std::span<const UnitAddress> units,
                           std::vector<UnitBytes>* out) = 0;
  /// Reads units for use on the server. Those that are damaged in DRAM are read from SSD instead,
  /// and the extent comes back to DRAM; DATA_LOSS when there is no other copy. Such a segment
  /// counts as missing from then on, for lookups and reads (NOT_FOUND), until it is put again.
  virtual Status ReadVerified(const Caller& caller, std::span<const UnitAddress> units,
                              std::vector<VerifiedBytes>* out) = 0;
  /// Somebody found these units not to match their checksums. They are verified here, and what is
  /// damaged is mended; what is intact stays, whatever was said of it, and was damaged on the way,
  /// which operators are told. OK when a read will bring
  /// the right bytes; errors as of ReadVerified.
  virtual Status Recheck(const Caller& caller, std::span<const ReportedUnit> units) = 0;
  /// Digests of one segment at one layer, from memory when a recent call read them. Puts make those
  /// of minima and maxima; other kinds are computed from the stored units when they are first asked
  /// for, and kept. INVALID_ARGUMENT for a layer or a kind that the segment cannot have.
  virtual StatusOr<SegmentDigests> ReadDigests(const Caller& caller, const SegmentKey& key,
                                               uint32_t layer, kernels::DigestKind kind) = 0;
  StatusOr<SegmentDigests> ReadDigests(const Caller& caller, const SegmentKey& key,
                                       uint32_t layer) {
    return ReadDigests(caller, key, layer, kernels::DigestKind::kMinMax);
  }

  /// Gives a segment the digests of DigestKind::kRepresentatives, which the store cannot make:
  /// [layers][pages][n_kv][key_dim] in the KV dtype. Those that are there already stay; true then.
  /// Until they are given, that kind reads as the means. Durable when it returns. NOT_FOUND when
  /// the segment is not stored, INVALID_ARGUMENT for another size, RESOURCE_EXHAUSTED when the file
  /// system is full.
  virtual StatusOr<bool> PutRepresentatives(std::string_view tenant, const SegmentKey& key,
                                            std::span<const std::byte> digests) = 0;

  virtual StatusOr<ChainStat> StatChain(std::string_view tenant, const Chain& chain) = 0;

  /// Removes a segment from every tier, whatever refers to it, damaged or not: now, or when the
  /// last SegmentHold of it goes. NOT_FOUND when it is not stored. Readers that hold its bytes keep
  /// them.
  virtual Status DeleteSegment(std::string_view tenant, const SegmentKey& key) = 0;
  /// Segments of the chain that ends with `tip` which are known to be lost or damaged; one, when
  /// the chain cannot be followed. Costs nothing while there are none in the whole store.
  virtual uint32_t LostSegments(std::string_view tenant, const SegmentKey& tip) {
    (void)tenant, (void)tip;
    return 0;
  }

  // Holds, names and deletes of segments: policy/segment_lives.h has the rules.

  /// Keeps the segments stored while the hold lives. NOT_FOUND when one is not stored.
  virtual StatusOr<SegmentHold> HoldSegments(std::string_view tenant,
                                             std::span<const SegmentKey> keys) = 0;
  /// ResolveChain and HoldSegments.
  StatusOr<HeldChain> HoldChain(std::string_view tenant, const SegmentKey& tip);
  /// One more document refers to the segments: they stay until it does not. Names are kept in
  /// memory; the registry gives them back after a restart. NOT_FOUND when one is not stored.
  virtual Status NameSegments(std::string_view tenant, std::span<const SegmentKey> keys) = 0;
  /// One document less refers to them: what none refers to is cached from now on.
  virtual void UnnameSegments(std::string_view tenant, std::span<const SegmentKey> keys) = 0;
  /// How many documents refer to each segment; to all others none does.
  using SegmentNames = std::unordered_map<SegmentKey, uint64_t, SegmentKeyHash>;
  virtual void RestoreNames(const SegmentNames& names) = 0;
  /// How many refer to one; 0 when it is not stored.
  virtual uint64_t CountNames(const SegmentKey& key) const = 0;
  /// A delete wants the segments gone, once nobody names or holds them; naming or putting one again
  /// takes that back. Their incarnations, 0 for one that is not stored.
  virtual std::vector<uint64_t> ForsakeSegments(std::string_view tenant,
                                                std::span<const SegmentKey> keys) = 0;
  /// Takes ForsakeSegments back.
  virtual void WantSegments(std::string_view tenant, std::span<const SegmentKey> keys) = 0;
  /// Finishes what ForsakeSegments began, also before a restart. NOT_FOUND when the segment is not
  /// stored, was put again since, or is named: there is nothing to do. FAILED_PRECONDITION while
  /// somebody holds it.
  virtual Status RemoveForsaken(std::string_view tenant, const SegmentKey& key,
                                uint64_t incarnation) = 0;
  /// The incarnations of stored segments, 0 for one that is not stored.
  virtual std::vector<uint64_t> Incarnations(std::span<const SegmentKey> keys) const = 0;
  /// The incarnations that the bytes of stored segments were written as, 0 for one that is not
  /// stored. Under a SegmentHold one changes only when damaged or lost bytes are replaced, maybe by
  /// others; num_replaced grows then, before anybody is handed the new bytes.
  virtual std::vector<uint64_t> WrittenAs(std::span<const SegmentKey> keys) const = 0;
  virtual uint64_t num_replaced() const = 0;
  /// Removes what nobody needs any more: forsaken segments that could not be removed at once,
  /// cached ones that nobody has used for cached_ttl, and those that continue a segment which is
  /// gone. Returns how many. Call it about once a second.
  virtual StatusOr<uint64_t> Sweep() = 0;

  /// Brings segments to DRAM and keeps them there until they are unpinned as often, deleted, or the
  /// store is closed. All of `keys` are pinned, or none: NOT_FOUND for one that is not stored,
  /// RESOURCE_EXHAUSTED when they do not fit in what pins and the tenant may hold.
  virtual Status PinSegments(std::string_view tenant, std::span<const SegmentKey> keys) = 0;
  /// Takes one pin of each back. NOT_FOUND for a segment that is not stored or not pinned; those
  /// before it are unpinned then.
  virtual Status UnpinSegments(std::string_view tenant, std::span<const SegmentKey> keys) = 0;

  /// The memory that units in DRAM are handed out of, of all tenants, for other processes to read;
  /// nullopt when there is none that can be shared. Lives as long as the store.
  virtual std::optional<SharedMemoryView> shared_memory() const { return std::nullopt; }

  /// OK, or NOT_FOUND naming the tenant and the remedy.
  virtual Status CheckTenant(std::string_view tenant) const = 0;

  /// The metadata of the same data directory, for the document registry; lives as long as the
  /// store.
  virtual MetadataStore& metadata() = 0;

  /// What is stored, what was done, and how long it took: of the store itself, its tiers and
  /// caches, and the database. docs/metrics.md has all of them.
  virtual void VisitMetrics(MetricsVisitor& visit) const = 0;

  /// Tells Health of I/O that is in flight for too long, and that it has ended. Does none itself;
  /// call it about once a second, from a thread that waits for no I/O.
  virtual void CheckDevice() {}

  /// How the SSD tier moves bytes on this machine, for people: "io_uring, direct".
  virtual std::string ssd_mode() const = 0;
  /// How the DRAM tier lies in memory, for people: "huge pages 2 MiB".
  virtual std::string dram_mode() const = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAGE_STORE_H_
