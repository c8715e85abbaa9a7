// SPDX-License-Identifier: Apache-2.0
//
// Client: a tenant's connection to a Quire store over any Transport. Every method blocks, retries
// what is safe to retry (with exponential back-off and jitter, until the deadline; which method on
// which error is written in call.h) and returns a status that names what went wrong. Every reply is
// checked before it is used: one that breaks the protocol or its checksums is DATA_LOSS,
// one that cannot be parsed INTERNAL; neither is asked for again.
//
//   QUIRE_ASSIGN_OR_RETURN(auto transport, ConnectGrpc("127.0.0.1:7410"));
//   QUIRE_ASSIGN_OR_RETURN(auto client, Client::Create({.transport = transport}));
//   QUIRE_ASSIGN_OR_RETURN(auto context, client->OpenContext(spec, std::nullopt));
//   QUIRE_RETURN_IF_ERROR(client->AppendPages(context.id, 0, tokens, payload).status());
//   QUIRE_ASSIGN_OR_RETURN(auto sealed, client->Seal(context.id, tail, tail_payload));
//
// Thread-safety: Client may be used concurrently; a ClientSession belongs to one thread at a time.
#ifndef QUIRE_CLIENT_CLIENT_H_
#define QUIRE_CLIENT_CLIENT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "client/retry.h"
#include "common/base/clock.h"
#include "common/base/payload.h"
#include "common/base/status.h"
#include "common/page/key.h"
#include "common/page/kv_spec.h"
#include "common/page/layout.h"
#include "kernels/api/digest.h"
#include "transport/transport.h"

namespace quire {

class ClientSession;
class LeaseKeeper;
class PendingRecall;
struct CallSpec;  // client/call.h

/// Names a registered document. Version 0: the latest (get), the next (register), all (delete).
struct DocumentName {
  std::string collection = "default";
  std::string name = {};
  uint64_t version = 0;
};

struct Document {
  DocumentName name;
  SegmentKey chain_tip;
  uint64_t num_tokens = 0;
  uint64_t bytes = 0;
  std::string model;
  int64_t created_unix_micros = 0;
  std::string content_hash;
  std::optional<uint64_t> ttl_seconds = {};  ///< Its own; unset: its collection's.
  int64_t expires_unix_micros = 0;           ///< By whichever holds for it; 0: never.
  /// Known to be lost or damaged: put the document again. Of ListDocuments and GetDocument only.
  uint32_t segments_lost = 0;
};

/// What a tenant's collection has set, or the server's defaults.
struct Collection {
  std::string name;
  std::string codec;                         ///< Of what is put into it: "raw", "int8+zstd", ...
  bool codec_is_default = true;              ///< It is the server's.
  std::optional<uint64_t> ttl_seconds = {};  ///< Of its documents without one of their own.
};

/// What to change of a collection; what is not set stays.
struct CollectionChange {
  std::optional<std::string> codec = {};     ///< Empty: back to the server's default.
  std::optional<uint64_t> ttl_seconds = {};  ///< 0: none.
};

/// What a request reads: a sealed chain by its last key, an open context by its id, or a document.
using ContextRef = std::variant<SegmentKey, uint64_t, DocumentName>;

/// One of the contexts that a sequence reads.
struct SequenceMember {
  ContextRef context;
  /// Added to the positions of the context's keys. Not 0 only for keys that are rotated with fixed
  /// frequencies.
  int32_t position_offset = 0;
};

/// What one sequence of a session reads, 1 to 64 contexts, and into how many slots.
struct SequenceSpec {
  std::vector<SequenceMember> members;
  uint32_t slots_per_head = 0;  ///< 1 to the session's; 0: all of those.
};

struct ContextInfo {
  KvSpec spec;
  uint64_t num_tokens = 0;
  uint32_t num_pages = 0;
  std::vector<SegmentKey> segment_keys;
  /// Key of the last segment; kRootKey for an open context.
  SegmentKey chain_tip;
};

struct OpenedContext {
  uint64_t id = 0;
  /// Tokens it starts with: the complete pages of the chain it continues.
  uint64_t num_tokens = 0;
  /// Names the bytes of the chain that it continues, together with the chain's last key. The bytes
  /// may be others when the chain is put again after a delete, or in the place of damaged ones.
  /// Units and digests that are kept for longer than the context are kept under both. 0 where it
  /// continues none.
  uint64_t incarnation = 0;
  /// The server ends a context that nobody needs any more. While a copy of this lives, and the
  /// client that opened the context, the client says so from a thread of its own; without it, calls
  /// on the context have to come within half a minute of each other (--idle-seconds).
  std::shared_ptr<const void> lease = nullptr;
};

struct LookupResult {
  std::vector<SegmentKey> segment_keys;
  uint64_t num_tokens = 0;
};

/// Units of one layer: `heads` (all when empty) of each of `pages`, in that order.
struct UnitRange {
  uint32_t layer = 0;
  std::vector<uint32_t> pages = {};
  std::vector<uint32_t> heads = {};
};

/// A context after its seal.
struct SealedContext : ContextInfo {
  /// Segments for which other bytes were stored before its own came; the first stand.
  uint32_t segments_differing = 0;
};

struct ContextStat {
  ContextInfo context;
  uint64_t bytes = 0;
  uint32_t segments_in_dram = 0;
  uint32_t segments_on_ssd = 0;
  uint32_t segments_lost = 0;       ///< Known to be lost or damaged; they count as missing.
  int64_t expires_unix_micros = 0;  ///< Of the document that was asked about; 0: never, or none.
};

/// kReplicated is UNIMPLEMENTED: servers have no replicas yet.
enum class PutDurability { kServerDefault, kMemory, kReplicated, kPersisted };

/// A trouble that lasts: the server is degraded until its cause is gone.
struct Degradation {
  std::string reason;  ///< "disk_full", ...; docs/metrics.md has them all.
  std::string detail;  ///< What happened and what to do.
  int64_t since_unix_micros = 0;
};

struct ServerStats {
  std::string version;
  int64_t uptime_seconds = 0;
  std::vector<std::pair<std::string, uint64_t>> counters;  ///< Sorted by name.
  std::vector<Degradation> degradations;                   ///< None of a sound server.
};

/// Digests that the server reads into memory as the sequences of a session are opened, so that
/// their first recall by query finds them there. Where it has no room they are read for each query.
struct HeldDigests {
  kernels::DigestKind kind = kernels::DigestKind::kMinMax;
  std::vector<uint32_t> layers = {};  ///< Managed ones; all of them when empty.
};

/// How the pages of a context are kept.
struct ContextOptions {
  std::string_view collection = {};  ///< Whose codec they are stored with; empty: the server's.
  /// Pages come of approximate attention. Nobody else finds them, and they are gone with the
  /// context, which cannot be sealed.
  bool private_pages = false;
  /// Refuses an append or a seal with ALREADY_EXISTS when other bytes are stored for its tokens.
  /// Without it the context takes the stored bytes. The bytes that are stored first always stand.
  bool strict = false;
};

/// How a segment is put.
struct PutOptions {
  PutDurability durability = PutDurability::kServerDefault;
  std::string_view collection = {};  ///< Whose codec it is stored with; empty: the server's.
  bool strict = false;               ///< Other bytes than those stored are ALREADY_EXISTS.
};

/// A segment that was put.
struct PutSegmentReply {
  SegmentKey key;
  bool existed = false;
  bool differs = false;  ///< It existed with other bytes, which stand: read it back.
};

class Client {
 public:
  struct Options {
    std::shared_ptr<Transport> transport = nullptr;
    /// Transport of recalls; `transport` when null.
    std::shared_ptr<Transport> data_transport = nullptr;
    std::string tenant = "default";
    Duration deadline = std::chrono::seconds(60);  ///< Limit of one method, retries included.
    /// End of everything done with the client, on its clock: no method goes on after it.
    TimePoint limit = TimePoint::max();
    RetryOptions retry = {};
    Clock* clock = nullptr;  ///< SystemClock() when null.
    /// Told while the server cannot be reached (Trouble::kStoreUnreached); may be null, and
    /// outlives the client.
    Health* health = nullptr;
  };
  static StatusOr<std::unique_ptr<Client>> Create(Options options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Puts one whole segment; `payload` is [num_layers][pages][n_kv] units. It is stored with the
  /// codec of `collection`, the server's default when that is empty. Returns its key.
  StatusOr<SegmentKey> PutSegment(const KvSpec& spec, const SegmentKey& parent,
                                  std::span<const TokenId> tokens, const Payload& payload,
                                  PutDurability durability = PutDurability::kServerDefault,
                                  std::string_view collection = {});
  /// The same, telling what was found. The first bytes under a key stand: when others are stored
  /// they are not replaced, unless they are damaged.
  StatusOr<PutSegmentReply> PutSegment(const KvSpec& spec, const SegmentKey& parent,
                                       std::span<const TokenId> tokens, const Payload& payload,
                                       const PutOptions& options);

  /// Opens a context to append pages to, continuing `continues` when given. Keep what is returned
  /// for as long as the context is needed.
  StatusOr<OpenedContext> OpenContext(const KvSpec& spec,
                                      const std::optional<ContextRef>& continues,
                                      const ContextOptions& options = {});
  /// Appends complete pages; `payload` is [pages][num_layers][n_kv] units. Returns the context's
  /// token count.
  StatusOr<uint64_t> AppendPages(uint64_t context_id, uint32_t first_page,
                                 std::span<const TokenId> tokens, const Payload& payload);
  /// Sends the units of some layers of complete pages, in any order of layers; `payload` is
  /// [layers][pages][n_kv] units, `layers` ascending. Returns the tokens of the pages that are
  /// whole.
  StatusOr<uint64_t> AppendLayers(uint64_t context_id, uint32_t first_page,
                                  std::span<const TokenId> tokens, std::span<const uint32_t> layers,
                                  const Payload& payload);
  /// Seals; `tail_payload` is [num_layers][n_kv] units of the short last page, empty without tail
  /// tokens.
  StatusOr<SealedContext> Seal(uint64_t context_id, std::span<const TokenId> tail_tokens,
                               const Payload& tail_payload,
                               PutDurability durability = PutDurability::kServerDefault);
  Status DropContext(uint64_t context_id);

  StatusOr<LookupResult> Lookup(const KvSpec& spec, std::span<const TokenId> tokens);
  /// Reads units; the payload has them in order of range, page, head, verified against their
  /// checksums.
  StatusOr<Payload> Fetch(const ContextRef& context, std::span<const UnitRange> ranges);
  /// Gives a stored segment's pages representatives, [num_layers][pages][n_kv][key_dim] in the KV
  /// dtype (kernels/api/digest.h, kRepresentatives). False when it has some already, which stay.
  StatusOr<bool> PutRepresentatives(const SegmentKey& segment, const Payload& digests);
  StatusOr<ContextStat> Stat(const ContextRef& context);
  StatusOr<uint32_t> DeleteSegments(std::span<const SegmentKey> keys);

  /// `ttl_seconds` is the document's own time to live; unset: its collection's.
  StatusOr<Document> RegisterDocument(const DocumentName& name, const SegmentKey& chain_tip,
                                      std::string_view content_hash = {},
                                      std::optional<uint64_t> ttl_seconds = {});
  /// Over by `limit` too, whatever the client's own deadline.
  StatusOr<Document> GetDocument(const DocumentName& name, TimePoint limit = TimePoint::max());
  /// All documents of a collection (of all collections when empty), in order.
  StatusOr<std::vector<Document>> ListDocuments(std::string_view collection);
  struct DeletedDocuments {
    uint32_t documents = 0;
    uint32_t segments = 0;
  };
  StatusOr<DeletedDocuments> DeleteDocument(const DocumentName& name, bool keep_segments = false);

  struct PinnedDocument {
    Document document;
    bool was_pinned = false;
  };
  /// Keeps a document in the server's DRAM until it is unpinned or goes, also over restarts.
  StatusOr<PinnedDocument> PinDocument(const DocumentName& name);
  /// Takes the pin back, if there is one.
  StatusOr<PinnedDocument> UnpinDocument(const DocumentName& name);

  /// Settings after the change.
  StatusOr<Collection> SetCollection(std::string_view name, const CollectionChange& change);
  /// The server's defaults for one that was never set.
  StatusOr<Collection> GetCollection(std::string_view name);
  /// Those that have settings of their own, in order.
  StatusOr<std::vector<Collection>> ListCollections();

  /// A session; see session.h.
  struct SessionOptions {
    KvSpec spec = {};                           ///< Must equal every context's.
    uint32_t slots_per_head = 0;                ///< The most that a sequence may have; 1 to 65536.
    std::vector<uint32_t> managed_layers = {};  ///< All when empty.
    std::optional<HeldDigests> hold_digests = {};  ///< For recalls by query.
    /// What recalls bring of a unit. kValues, for a caller that has the keys, only where the spec
    /// has values (not MLA).
    UnitPart part = UnitPart::kWhole;
  };
  /// Opens a session of one sequence that reads one context.
  StatusOr<std::unique_ptr<ClientSession>> OpenSession(const ContextRef& context,
                                                       const SessionOptions& options);
  /// Opens a session of 1 to 256 sequences, which are numbered in this order.
  StatusOr<std::unique_ptr<ClientSession>> OpenSession(std::span<const SequenceSpec> sequences,
                                                       const SessionOptions& options);

  StatusOr<ServerStats> Stats();
  TransportCapabilities transport_capabilities() const {
    return options_.transport->capabilities();
  }
  /// What recalls travel over now; it may be another after a connection was lost.
  TransportCapabilities data_transport_capabilities() const {
    return options_.data_transport->capabilities();
  }

 private:
  friend class ClientSession;
  friend class PendingRecall;
  explicit Client(Options options);

  /// When a method that starts now must be over.
  TimePoint NewDeadline() const { return NewDeadline(options_.deadline); }
  /// The same for one that may take `timeout`.
  TimePoint NewDeadline(Duration timeout) const;
  /// One call with the retries that `spec` allows, all of them before `deadline`.
  Status CallWithRetries(const CallSpec& spec, const CallMessage& request, TimePoint deadline,
                         CallMessage* reply);
  /// The same for protobuf messages (call.h). `payload` goes out; what came back replaces
  /// `*reply_payload`, or must be nothing when that is null.
  template <typename Request, typename Reply>
  Status Call(const CallSpec& spec, const Request& request, const Payload& payload,
              TimePoint deadline, Reply* reply, Payload* reply_payload);

  Options options_;
  std::atomic<uint64_t> next_jitter_seed_;
  Reachability server_;
  const std::unique_ptr<LeaseKeeper> leases_;
};

}  // namespace quire

#endif  // QUIRE_CLIENT_CLIENT_H_
