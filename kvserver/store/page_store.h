// SPDX-License-Identifier: Apache-2.0
//
// PageStore: the facade of the storage engine. It names segments, checks and digests puts, writes
// through to SSD, serves units from DRAM or SSD, and resolves chains. Tiers move bytes, policies
// decide, this class routes. It knows nothing of sessions, documents or the wire.
//
// Promises: A sealed segment never changes; the first bytes under a key stand. Bytes that fail
// their checksum are never returned (DATA_LOSS). Every bound answers RESOURCE_EXHAUSTED. Tenants
// never share segments.
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

#include "common/base/memory/shared_memory.h"
#include "common/base/observe/health.h"
#include "common/base/observe/metrics.h"
#include "kernels/api/digest.h"
#include "kvserver/store/call_waits.h"
#include "kvserver/store/caller.h"
#include "kvserver/store/chain.h"
#include "kvserver/store/codec/codec.h"
#include "kvserver/store/metadata/metadata_store.h"
#include "kvserver/store/metadata/tenant_salts.h"
#include "kvserver/store/policy/eviction/prefill_cost.h"
#include "kvserver/store/policy/quota_table.h"
#include "kvserver/store/read/io_gate.h"
#include "kvserver/store/repair/scrub.h"
#include "kvserver/store/space/segment_hold.h"
#include "kvserver/store/unit.h"
#include "quire/clock.h"
#include "quire/hints.h"
#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/segment_events.h"
#include "quire/status.h"

namespace quire::kvserver {

class SegmentEventLog;

enum class Durability : uint8_t { kMemory, kPersisted };

/// Digests of the pages of one segment at one layer: [pages][n_kv][DigestElements(kind, key_dim)]
/// in the KV dtype.
struct SegmentDigests {
  std::shared_ptr<const std::vector<std::byte>> bytes;
  uint32_t num_pages = 0;
  uint32_t crc32c = 0;  ///< CRC-32C of the bytes when they were made or verified.
};

/// The object that a put stores.
struct ObjectToStore {
  std::string_view key;     ///< 1..kMaxObjectKeyBytes bytes
  uint64_t size_bytes = 0;  ///< 1..kMaxObjectBytes
};

struct PutSegmentArgs {
  /// Set: the segment is this object's, and the payload is the units of its shape. Spec, parent,
  /// tokens, codec and salt are not given then.
  const ObjectToStore* object = nullptr;
  const KvSpec* spec = nullptr;
  /// kRootKey, or a stored full segment of the same tenant and spec.
  SegmentKey parent = kRootKey;
  std::span<const TokenId> tokens;     ///< 1 .. p*g
  std::span<const std::byte> payload;  ///< [num_layers][pages][n_kv] units
  /// Alternative to payload: [num_layers][pages] rows of [n_kv] units, anywhere in memory. The rows
  /// of an object are its units.
  std::span<const std::span<const std::byte>> payload_rows = {};
  /// [num_layers][pages][n_kv] checksums of units on arrival, for a payload that was kept since.
  /// DATA_LOSS when a unit does not match. Empty for a payload that has just arrived; its checksums
  /// are made here.
  std::span<const uint32_t> unit_crc32c = {};
  std::optional<SegmentKey> expected_key;  ///< Checked when given.
  Durability durability = Durability::kPersisted;
  /// Codec of the stored units. Digests are made of the decoded units. A segment that is stored
  /// already keeps its codec.
  CodecParams codec = {};
  /// The payload's units are encoded by `codec` already, as another store has them, and are stored
  /// as they are. A replaced segment takes this codec. Not with payload_rows.
  bool is_encoded = false;
  /// Replaces the tenant's salt in the key. The segment is then private to the context with this
  /// salt. Others' lookups and chains do not find it, and it is deleted at the next open.
  const TenantSalt* private_salt = nullptr;
  /// Refuse bytes that differ from those stored under the key (ALREADY_EXISTS), instead of taking
  /// the stored ones.
  bool strict = false;
  /// Told of what the put waits for, on the calling thread; may be null.
  CallWaits* waits = nullptr;
  /// Receives a hold of the segment from its storing on; may be null. A private segment is deleted
  /// once it is not held.
  SegmentHold* hold = nullptr;
};
struct PutSegmentResult {
  SegmentKey key;
  bool existed = false;
  /// The segment existed with other bytes, which stand; the put ones are dropped.
  bool differs = false;
  /// With `differs`: checksums of the stored units, [layers][pages][n_kv].
  std::vector<uint32_t> stored_crc32c = {};
};

/// A stored object.
struct StoredObjectStat {
  SegmentKey key;            ///< Key of its segment.
  uint64_t size_bytes = 0;   ///< Its units are those of ObjectShape::Of(size_bytes).
  uint64_t incarnation = 0;  ///< Differs from that of an object put later under the same key.
};

struct ChainStat {
  uint64_t bytes = 0;
  uint32_t segments_in_dram = 0;  ///< Segments with at least one extent in DRAM.
  uint32_t segments_on_ssd = 0;   ///< All but those only in DRAM.
  uint32_t segments_lost = 0;     ///< Segments known to be lost or damaged, which count as missing.
};

/// A chain with a hold that keeps its segments stored.
struct HeldChain {
  ChainPtr chain;
  SegmentHold hold;
  std::vector<uint64_t> written_as;  ///< PageStore::WrittenAs of chain->keys.
};

class PageStore {
 public:
  static constexpr double kSsdShare = 0.8;

  struct Options {
    std::string ssd_path;              ///< Data directory; created when missing. Required.
    uint64_t dram_bytes = 1ull << 30;  ///< Arena, reserved at open.
    int dram_numa_node = -1;           ///< NUMA node of the arena; -1: all nodes in turn.
    bool dram_prefault = false;        ///< Fill the arena at open (ArenaMemory).
    /// Shares of the arena. Above the high mark extents leave DRAM until the low one is reached.
    /// With both at 1 they leave when there is no room.
    double dram_high_watermark = 1;
    double dram_low_watermark = 1;
    /// DRAM limits of single tenants. Other tenants have no limit.
    TenantBytes tenant_dram_quota_bytes = {};
    /// Limit of all files of the data directory together. Payload gets a part of it
    /// (policy/ssd_budget.h). 0: kSsdShare of the file system's room at open.
    uint64_t ssd_bytes = 0;
    /// Time that an unused segment without a document stays on SSD. Zero: until its room is needed.
    Duration cached_ttl = Duration::zero();
    /// SSD payload limits of single tenants. Others: as ssd_bytes.
    TenantBytes tenant_ssd_quota_bytes = {};
    /// Budget of SSD writes for puts that need not persist: long-term rate and burst. Rate 0: no
    /// budget. Puts beyond it stay only in DRAM, and are lost when they leave it.
    uint64_t ssd_write_bytes_per_second = 0;
    uint64_t ssd_write_burst_bytes = 1ull << 30;
    uint64_t ssd_volume_bytes = 256ull << 20;  ///< Size of a new payload volume.
    std::vector<std::string> tenants = {
        "default"};  ///< Tenants of the store; 1..64 bytes of [A-Za-z0-9_.-] each.
    AgreeOnSalts agree_on_salts = {};  ///< Empty: the salts are this store's own.
    /// Reads of an extent from SSD before it is promoted to DRAM; at least 1.
    uint32_t promote_after_touches = 2;
    /// Eviction policy of DRAM and of cached segments on SSD; a name of policy/eviction_factory.h.
    std::string eviction_policy = "lru";
    PrefillCost prefill_cost = {};            ///< For policies that weigh the cost of an eviction.
    uint64_t catalog_cache_bytes = 64 << 20;  ///< Segment records and chains kept in memory.
    uint64_t digest_cache_bytes = 64 << 20;   ///< Digests kept in memory.
    uint64_t extent_cache_bytes = 64 << 20;   ///< Records of extents on SSD kept in memory.
    ScrubRates scrub_bytes_per_second = {};   ///< Rates of background verification.
    ScrubObserver* scrub_observer = nullptr;  ///< May be null; outlives the store.
    /// Verifies a row of the metadata for the scrub; DATA_LOSS when it is damaged. Null: only the
    /// database's own checksums are checked.
    Status (*check_metadata)(std::string_view key, std::string_view value) = nullptr;
    IoGate::Options ssd_gate = {};  ///< Bounds of calls that wait for the SSD.
    Clock* clock = nullptr;         ///< SystemClock() when null; outlives the store.
    Health* health = nullptr;       ///< Null: the store makes its own. Outlives the store.
  };
  /// Opens or creates the store and recovers the last acknowledged state. Errors name the path and
  /// the remedy: not a directory, not writable, locked by another server, written by a newer
  /// version, DATA_LOSS.
  static StatusOr<std::unique_ptr<PageStore>> Open(const Options& options);
  virtual ~PageStore() = default;

  /// Stores a segment. The first bytes under a key stand: an intact stored segment is not changed,
  /// and the result tells if it differs. A damaged or lost segment is replaced by these bytes.
  virtual StatusOr<PutSegmentResult> PutSegment(std::string_view tenant,
                                                const PutSegmentArgs& args) = 0;

  /// Keys of the longest stored prefix of `tokens` in whole segments. A short last segment counts
  /// if it ends exactly with `tokens`.
  virtual StatusOr<std::vector<SegmentKey>> Lookup(std::string_view tenant, const KvSpec& spec,
                                                   std::span<const TokenId> tokens) = 0;

  /// The chain that ends with `tip`. NOT_FOUND when a segment is gone or `tip` is private.
  virtual StatusOr<ChainPtr> ResolveChain(std::string_view tenant, const SegmentKey& tip) = 0;
  /// Token ids of one segment.
  virtual StatusOr<std::vector<TokenId>> Tokens(std::string_view tenant, const SegmentKey& key) = 0;

  /// The object under `object_key`, and a hold that keeps it stored and counts as a use of it; the
  /// hold may be null. NOT_FOUND also for one that is lost or known to be damaged, and for a key
  /// that no object can have.
  virtual StatusOr<StoredObjectStat> FindObject(std::string_view tenant,
                                                std::string_view object_key, SegmentHold* hold) {
    (void)tenant, (void)object_key, (void)hold;
    return Unimplemented("this store has no objects");
  }

  /// Codec of a segment's stored units. NOT_FOUND also for one that is known to be damaged.
  virtual StatusOr<CodecParams> StoredCodec(std::string_view tenant, const SegmentKey& key) {
    (void)tenant;
    return Unimplemented("this store does not tell the codec of segment ", key.Hex());
  }

  /// Reads units for sending. The receiver verifies them and calls Recheck for mismatches. Units
  /// come as they are stored where their codec is in `codecs`, and decoded otherwise. `out` has one
  /// entry per address in order, or none on failure. Reuse the vector: units in DRAM that are not
  /// decoded are then returned without allocating.
  virtual Status ReadUnits(const Caller& caller, std::span<const UnitAddress> units,
                           const CodecSet& codecs, std::vector<UnitBytes>* out) = 0;
  /// As above; every unit comes decoded.
  Status ReadUnits(const Caller& caller, std::span<const UnitAddress> units,
                   std::vector<UnitBytes>* out) {
    return ReadUnits(caller, units, {}, out);
  }
  /// Reads units for use on the server. Units damaged in DRAM are read from SSD, and the extent
  /// returns to DRAM. DATA_LOSS when there is no other copy. The segment counts as missing from
  /// then on, for lookups and reads (NOT_FOUND), until it is put again.
  virtual Status ReadVerified(const Caller& caller, std::span<const UnitAddress> units,
                              std::vector<VerifiedBytes>* out) = 0;
  /// Verifies units that a receiver reports as damaged, and mends those that are. Intact ones were
  /// damaged on the way, which operators are told. OK when a read will bring the right bytes;
  /// errors are those of ReadVerified.
  virtual Status Recheck(const Caller& caller, std::span<const ReportedUnit> units) = 0;
  /// Digests of one segment at one layer, from the cache when possible. Puts make minima and
  /// maxima. Other kinds are computed from the stored units on first use, and kept.
  /// INVALID_ARGUMENT for a layer or a kind that the segment cannot have.
  virtual StatusOr<SegmentDigests> ReadDigests(const Caller& caller, const SegmentKey& key,
                                               uint32_t layer, kernels::DigestKind kind) = 0;
  StatusOr<SegmentDigests> ReadDigests(const Caller& caller, const SegmentKey& key,
                                       uint32_t layer) {
    return ReadDigests(caller, key, layer, kernels::DigestKind::kMinMax);
  }

  /// Stores digests of DigestKind::kRepresentatives, which only a client can make:
  /// [layers][pages][n_kv][key_dim] in the KV dtype. Existing ones stay, and the result is true
  /// then. Without them that kind reads as the means. Durable on return. NOT_FOUND when the segment
  /// is not stored, INVALID_ARGUMENT for another size, RESOURCE_EXHAUSTED when the file system is
  /// full.
  virtual StatusOr<bool> PutRepresentatives(std::string_view tenant, const SegmentKey& key,
                                            std::span<const std::byte> digests) = 0;

  /// Representatives as they were put; empty when there are none. Errors as ReadDigests.
  virtual StatusOr<std::vector<std::byte>> ReadRepresentatives(const Caller& caller,
                                                               const SegmentKey& key) {
    (void)caller;
    return Unimplemented("this store has no representatives of segment ", key.Hex());
  }

  virtual StatusOr<ChainStat> StatChain(std::string_view tenant, const Chain& chain) = 0;

  /// Removes a segment from every tier, damaged or referred to or not: now, or when its last
  /// SegmentHold ends. NOT_FOUND when it is not stored. Readers that hold its bytes keep them.
  virtual Status DeleteSegment(std::string_view tenant, const SegmentKey& key) = 0;
  /// Number of lost or damaged segments in the chain that ends with `tip`. 1 when the chain cannot
  /// be followed. Free while the whole store has none.
  virtual uint32_t LostSegments(std::string_view tenant, const SegmentKey& tip) {
    (void)tenant, (void)tip;
    return 0;
  }

  /// Number of segments that are known to be damaged or lost now.
  virtual uint64_t num_damaged() const { return 0; }

  // Holds, names and deletes of segments. Rules: policy/segment_lives.h.

  /// Keeps the segments stored while the hold lives. NOT_FOUND when one is not stored.
  virtual StatusOr<SegmentHold> HoldSegments(std::string_view tenant,
                                             std::span<const SegmentKey> keys) = 0;
  /// ResolveChain and HoldSegments.
  StatusOr<HeldChain> HoldChain(std::string_view tenant, const SegmentKey& tip);
  /// Adds one referring document to each segment. Named segments stay stored. Names are kept in
  /// memory; the registry restores them after a restart. NOT_FOUND when one is not stored.
  virtual Status NameSegments(std::string_view tenant, std::span<const SegmentKey> keys) = 0;
  /// Removes one referring document from each. Segments without one are cached from then on.
  virtual void UnnameSegments(std::string_view tenant, std::span<const SegmentKey> keys) = 0;
  /// Number of referring documents of each segment. Missing segments have none.
  using SegmentNames = std::unordered_map<SegmentKey, uint64_t, SegmentKeyHash>;
  virtual void RestoreNames(const SegmentNames& names) = 0;
  /// Number of referring documents; 0 when it is not stored.
  virtual uint64_t CountNames(const SegmentKey& key) const = 0;
  /// Marks the segments for deletion once they are neither named nor held. Naming or putting one
  /// again cancels that. Returns their incarnations; 0 for one that is not stored, or is another
  /// tenant's.
  virtual std::vector<uint64_t> MarkForDeletion(std::string_view tenant,
                                                std::span<const SegmentKey> keys) = 0;
  /// Cancels MarkForDeletion. Leaves segments of other tenants as they are.
  virtual void UnmarkForDeletion(std::string_view tenant, std::span<const SegmentKey> keys) = 0;
  /// Finishes a MarkForDeletion, also one from before a restart. NOT_FOUND when there is nothing to
  /// do: the segment is not stored, was put again since, or is named. FAILED_PRECONDITION while it
  /// is held.
  virtual Status RemoveMarked(std::string_view tenant, const SegmentKey& key,
                              uint64_t incarnation) = 0;
  /// Incarnations of stored segments; 0 for one that is not stored.
  virtual std::vector<uint64_t> Incarnations(std::span<const SegmentKey> keys) const = 0;
  /// Incarnations under which the bytes of stored segments were written; 0 for one that is not
  /// stored. Under a SegmentHold one changes only when damaged or lost bytes are replaced. It
  /// changes before the new bytes can be read, and again once the old ones cannot. num_replaced
  /// grows both times.
  virtual std::vector<uint64_t> WrittenAs(std::span<const SegmentKey> keys) const = 0;
  virtual uint64_t num_replaced() const = 0;
  /// Removes unneeded segments: marked ones, cached ones unused for cached_ttl, and those that
  /// continue a deleted segment. Returns how many. Call it about once a second.
  virtual StatusOr<uint64_t> Sweep() = 0;

  /// Brings segments to DRAM and keeps them there until they are unpinned as often, deleted, or the
  /// store is closed. Pins all of `keys` or none: NOT_FOUND for one that is not stored,
  /// RESOURCE_EXHAUSTED over the limit of pins or of the tenant.
  virtual Status PinSegments(std::string_view tenant, std::span<const SegmentKey> keys) = 0;
  /// Releases one pin of each. NOT_FOUND for a segment that is not stored or not pinned; those
  /// before it are unpinned then.
  virtual Status UnpinSegments(std::string_view tenant, std::span<const SegmentKey> keys) = 0;

  // --- Hints of what will be used again. Rules: policy/hint_table.h. They are kept in memory.

  /// Notes a use of segments, in the order of their chain, and what its caller said of them. It
  /// decides how soon they leave the tiers. Does no I/O.
  virtual void NoteHints(std::string_view tenant, const Hints& hints,
                         std::span<const SegmentKey> segments) {
    (void)tenant, (void)hints, (void)segments;
  }
  /// Ends a conversation. Its segments that no other one uses leave first. Returns their number;
  /// NOT_FOUND when there is no such conversation.
  virtual StatusOr<uint64_t> ReleaseConversation(std::string_view tenant,
                                                 std::string_view conversation) {
    (void)tenant;
    return Unimplemented("this store has no conversation ", conversation);
  }
  /// The chain that a conversation used last, as much of it as is stored. NOT_FOUND when nothing
  /// is, or when there is no such conversation.
  virtual StatusOr<HeldChain> HoldConversation(std::string_view tenant,
                                               std::string_view conversation) {
    (void)tenant;
    return Unimplemented("this store has no conversation ", conversation);
  }
  /// Brings a segment to DRAM, without a pin. RESOURCE_EXHAUSTED when it finds no room now.
  virtual Status BringToDram(std::string_view tenant, const SegmentKey& key) {
    (void)tenant;
    return Unimplemented("this store does not bring segment ", key.Hex(), " to DRAM");
  }

  // --- Events of segments, for followers.

  /// The log of events; null when the store has none. Lives as long as the store.
  virtual SegmentEventLog* events() { return nullptr; }
  /// The tenant's segments that look-ups find, in order of keys behind `after`, at most `limit`.
  virtual std::vector<ListedSegment> ListSegments(std::string_view tenant, const SegmentKey& after,
                                                  size_t limit) const {
    (void)tenant, (void)after, (void)limit;
    return {};
  }

  /// Memory of all tenants' units in DRAM, for other processes to read; nullopt when it cannot be
  /// shared. Lives as long as the store.
  virtual std::optional<SharedMemoryView> shared_memory() const { return std::nullopt; }

  /// Payload of one tenant.
  struct TenantUse {
    uint64_t dram_bytes = 0;
    uint64_t ssd_bytes = 0;
  };
  virtual TenantUse UseOf(std::string_view tenant) const {
    (void)tenant;
    return {};
  }

  /// OK, or NOT_FOUND naming the tenant and the remedy.
  virtual Status CheckTenant(std::string_view tenant) const = 0;

  /// Metadata of the same data directory, for the document registry. Lives as long as the store.
  virtual MetadataStore& metadata() = 0;

  /// Visits metrics of the store, its tiers and caches, and the database. docs/metrics.md lists
  /// them.
  virtual void VisitMetrics(MetricsVisitor& visit) const = 0;

  /// Reports stalled I/O, and its end, to Health. Does no I/O. Call it about once a second, from a
  /// thread that waits for no I/O.
  virtual void CheckDevice() {}

  /// Description of the SSD tier's I/O, for people: "io_uring, direct".
  virtual std::string ssd_mode() const = 0;
  /// Description of the DRAM tier's memory, for people: "huge pages 2 MiB".
  virtual std::string dram_mode() const = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAGE_STORE_H_
