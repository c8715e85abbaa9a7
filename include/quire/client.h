// SPDX-License-Identifier: Apache-2.0
//
// Client: a tenant's connection to a Quire store. Every method blocks and retries what is safe to
// retry, with exponential back-off and jitter, until its deadline. The returned status names what
// went wrong. Every reply is checked before it is used. A reply that breaks the protocol or its
// checksums is DATA_LOSS; one that cannot be parsed is INTERNAL. Neither is asked for again.
//
//   QUIRE_ASSIGN_OR_RETURN(auto transport, ConnectGrpc("127.0.0.1:7410"));
//   QUIRE_ASSIGN_OR_RETURN(auto client, Client::Create({.transport = transport}));
//   QUIRE_ASSIGN_OR_RETURN(auto context, client->OpenContext(spec, std::nullopt));
//   QUIRE_RETURN_IF_ERROR(client->AppendPages(context.id, 0, tokens, payload).status());
//   QUIRE_ASSIGN_OR_RETURN(auto sealed, client->Seal(context.id, tail, tail_payload));
//
// Retries: a refusal with a hint of when to come back was made before anything was done, so every
// method tries again. After UNAVAILABLE the call may have been carried out. Reads, puts, appends
// and seals are repeated then. OpenContext, OpenSession, DropContext, RegisterDocument and
// deletions return UNAVAILABLE at once: repeating them could leave a second context or version
// behind.
//
// ClusterClient (cluster_client.h) is a Client of all nodes of a cluster.
//
// Thread-safety: Client may be used concurrently; a ClientSession belongs to one thread at a time.
#ifndef QUIRE_CLIENT_H_
#define QUIRE_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quire/clock.h"
#include "quire/contexts.h"
#include "quire/document_calls.h"
#include "quire/document_events.h"
#include "quire/documents.h"
#include "quire/hints.h"
#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/objects.h"
#include "quire/payload.h"
#include "quire/retry_options.h"
#include "quire/segment_events.h"
#include "quire/server_stats.h"
#include "quire/session.h"
#include "quire/status.h"
#include "quire/unit_codec.h"
#include "quire/units.h"

namespace quire {

class Health;
class Transport;
class UnitSizes;
namespace internal {
class Caller;
class ObjectReads;
}  // namespace internal

/// Units that were read, verified.
struct FetchedUnits {
  Payload payload = {};
  std::vector<UnitCodec> codecs = {};  ///< Codec of each; empty when all are elements.
};

class Client {
 public:
  struct Options {
    std::shared_ptr<Transport> transport = nullptr;
    /// Transport of recalls and objects; `transport` when null.
    std::shared_ptr<Transport> data_transport = nullptr;
    std::string tenant = "default";
    Duration deadline = std::chrono::seconds(60);  ///< Limit of one method, retries included.
    /// End of everything done with the client, on its clock: no method goes on after it.
    TimePoint limit = TimePoint::max();
    RetryOptions retry = {};
    Clock* clock = nullptr;  ///< SystemClock() when null.
    /// Learns when the server cannot be reached; for programs of Quire. May be null, and outlives
    /// the client.
    Health* health = nullptr;
  };
  static StatusOr<std::unique_ptr<Client>> Create(Options options);
  virtual ~Client();
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
  virtual StatusOr<OpenedContext> OpenContext(const KvSpec& spec,
                                              const std::optional<ContextRef>& continues,
                                              const ContextOptions& options = {});
  /// Appends complete pages; `payload` is [pages][num_layers][n_kv] units. Returns the context's
  /// token count.
  virtual StatusOr<uint64_t> AppendPages(uint64_t context_id, uint32_t first_page,
                                         std::span<const TokenId> tokens, const Payload& payload);
  /// Sends the units of some layers of complete pages, in any order of layers; `payload` is
  /// [layers][pages][n_kv] units, `layers` ascending. Returns the tokens of the pages that are
  /// whole.
  virtual StatusOr<uint64_t> AppendLayers(uint64_t context_id, uint32_t first_page,
                                          std::span<const TokenId> tokens,
                                          std::span<const uint32_t> layers, const Payload& payload);
  /// Seals; `tail_payload` is [num_layers][n_kv] units of the short last page, empty without tail
  /// tokens.
  virtual StatusOr<SealedContext> Seal(uint64_t context_id, std::span<const TokenId> tail_tokens,
                                       const Payload& tail_payload,
                                       PutDurability durability = PutDurability::kServerDefault);
  virtual Status DropContext(uint64_t context_id);

  /// `hints` are of the segments that are found.
  StatusOr<LookupResult> Lookup(const KvSpec& spec, std::span<const TokenId> tokens,
                                const Hints& hints = {});
  /// Reads units; the payload has them in order of range, page, head, verified against their
  /// checksums.
  virtual StatusOr<Payload> Fetch(const ContextRef& context, std::span<const UnitRange> ranges);
  /// The same of a context of `spec`. Units stored in one of `codecs` come as they are stored, as
  /// in SessionOptions::codecs.
  virtual StatusOr<FetchedUnits> FetchUnits(const ContextRef& context,
                                            std::span<const UnitRange> ranges, const KvSpec& spec,
                                            const CodecSet& codecs);
  /// Gives a stored segment's pages representatives, [num_layers][pages][n_kv][key_dim] in the KV
  /// dtype (DigestKind::kRepresentatives). False when it has some already, which stay.
  StatusOr<bool> PutRepresentatives(const SegmentKey& segment, const Payload& digests);
  virtual StatusOr<ContextStat> Stat(const ContextRef& context);
  /// Token ids of a sealed context, all of them.
  virtual StatusOr<std::vector<TokenId>> ReadTokens(const ContextRef& context);
  StatusOr<uint32_t> DeleteSegments(std::span<const SegmentKey> keys);

  // --- Conversations, which hints have named (hints.h). They are of one node.

  using PrefetchObserver = std::function<bool(const PrefetchProgress&)>;
  /// Brings what a conversation used last to DRAM, slice by slice. `observer` may be null. Each
  /// slice has the client's deadline. CANCELLED when the observer says so; NOT_FOUND when the
  /// server does not know the conversation, or has nothing of it any more.
  StatusOr<PrefetchProgress> PrefetchConversation(std::string_view conversation,
                                                  const PrefetchObserver& observer = {});
  /// Ends a conversation: its pages that no other one uses leave first. Returns the number of such
  /// segments. NOT_FOUND as above.
  StatusOr<uint64_t> ReleaseConversation(std::string_view conversation);

  // --- Events of segments (segment_events.h). They are of one node.

  /// Events after a position. The first one is a gap when the server has them no more.
  StatusOr<SegmentEvents> FollowSegments(const FollowOptions& options);
  /// Segments that look-ups find, in order of keys behind `after`, 1 to 4096 of them; none at the
  /// end.
  StatusOr<std::vector<ListedSegment>> ListSegments(const SegmentKey& after = kRootKey,
                                                    uint32_t max_segments = 1000);

  // --- Objects: opaque bytes under keys (objects.h). Calls take any number of them, and go over
  // the data connection. Keys are 1..kMaxObjectKeyBytes bytes of any values.

  /// Stores objects, several calls in flight: one may be stored before those in front of it. The
  /// first bytes under a key stand (PutObjectReply). They are caches:
  /// they leave, the least recently used first, when room is needed. kServerDefault means kMemory.
  /// After an error some may be stored; putting them again is safe. INVALID_ARGUMENT for an object
  /// without bytes, or with more than kMaxObjectBytes or than a message takes.
  StatusOr<std::vector<PutObjectReply>> PutObjects(std::span<const ObjectToPut> objects,
                                                   const PutOptions& options = {});
  /// Reads objects or ranges of them; nullopt for one that is not stored. INVALID_ARGUMENT for an
  /// offset that is not inside its object.
  StatusOr<std::vector<std::optional<ObjectBytes>>> GetObjects(std::span<const ObjectRange> ranges);
  /// The same, to memory of the caller; returns the bytes written to each. Memory of what counts as
  /// not stored has unspecified bytes, and so has all memory after an error.
  StatusOr<std::vector<std::optional<uint64_t>>> GetObjectsInto(
      std::span<const ObjectInto> objects);
  /// Sizes of the objects that are stored.
  StatusOr<std::vector<std::optional<uint64_t>>> StatObjects(std::span<const std::string> keys);
  /// Removes objects; true for those that were stored.
  StatusOr<std::vector<bool>> DeleteObjects(std::span<const std::string> keys);

  /// `ttl_seconds` is the document's own time to live; unset: its collection's.
  StatusOr<Document> RegisterDocument(const DocumentName& name, const SegmentKey& chain_tip,
                                      std::string_view content_hash = {},
                                      std::optional<uint64_t> ttl_seconds = {});
  /// With everything that can be said of a document.
  StatusOr<Document> RegisterDocument(const DocumentName& name, const SegmentKey& chain_tip,
                                      const RegisterOptions& options);
  /// Reserves the next version of `name`, whose version is 0.
  StatusOr<Ingest> BeginIngest(const DocumentName& name, const IngestOptions& options = {});
  /// Ends an ingest as failed, for `reason`.
  StatusOr<Document> FailIngest(uint64_t ingest_id, std::string_view reason);
  /// Over by `limit` too, whatever the client's own deadline.
  virtual StatusOr<Document> GetDocument(const DocumentName& name,
                                         TimePoint limit = TimePoint::max());
  /// All documents of a collection (of all collections when empty), in order.
  StatusOr<std::vector<Document>> ListDocuments(std::string_view collection);
  /// One page of the documents that match.
  StatusOr<DocumentPage> ListDocuments(const ListOptions& options);
  using DeletedDocuments = RemovedDocuments;
  StatusOr<DeletedDocuments> DeleteDocument(const DocumentName& name, bool keep_segments = false);

  /// Removes a document's version, or all when it is 0, because its source has changed.
  virtual StatusOr<RemovedDocuments> InvalidateDocument(const DocumentName& name);
  /// Removes all documents of a source.
  StatusOr<RemovedDocuments> InvalidateSource(std::string_view source);
  /// Changes tags and time to live.
  virtual StatusOr<Document> UpdateDocument(const DocumentName& name, const DocumentChange& change);
  /// Makes a version the one that version 0 means.
  StatusOr<Document> SetLatest(const DocumentName& name);
  /// Brings a document's segments to DRAM, without a pin, slice by slice. `observer` may be null.
  /// Each slice has the client's deadline. CANCELLED when the observer says so.
  StatusOr<WarmProgress> WarmDocument(const DocumentName& name, const WarmObserver& observer);
  /// Events after a position. OUT_OF_RANGE when the log has trimmed it, naming the oldest.
  StatusOr<DocumentEvents> WatchDocuments(const WatchOptions& options);

  /// Stores bytes beside a document: at most 4 MiB under a name of 1..64 bytes of [a-z0-9_.-].
  /// `segments`, at most 4096, were made from the document. They go with it, where no other
  /// document names them.
  virtual StatusOr<Extra> PutExtra(const DocumentName& document, std::string_view name,
                                   uint32_t version, const Payload& payload,
                                   std::span<const SegmentKey> segments = {});
  virtual StatusOr<ExtraBytes> GetExtra(const DocumentName& document, std::string_view name);
  virtual StatusOr<std::vector<Extra>> ListExtras(const DocumentName& document);
  /// Which pages of a document recalls have used. A node of a cluster tells of its own recalls.
  virtual StatusOr<PageUses> GetPageUses(const DocumentName& document);

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

  /// Opens a session of one sequence that reads one context.
  StatusOr<std::unique_ptr<ClientSession>> OpenSession(const ContextRef& context,
                                                       const SessionOptions& options);
  /// Opens a session of 1 to 256 sequences, which are numbered in this order.
  virtual StatusOr<std::unique_ptr<ClientSession>> OpenSession(
      std::span<const SequenceSpec> sequences, const SessionOptions& options);

  /// The client of the node that a new version of `name` is put to, for all calls of one put: this
  /// client, where there is one node only. Valid while this client is.
  virtual StatusOr<Client*> ForPut(const DocumentName& name);
  /// The client of a node that has the document, for calls about what lies beside it. Likewise.
  virtual StatusOr<Client*> ForDocument(const DocumentName& name);
  /// Says that a chain was made from a document, and lies where that does. Clients of one node need
  /// not know.
  virtual void NoteChain(const SegmentKey& chain_tip, const DocumentName& document);

  virtual StatusOr<ServerStats> Stats();
  /// The tenant's slowest calls of the last hour, slowest first, at most `limit` (1..1000).
  virtual StatusOr<std::vector<SlowCall>> SlowCalls(uint32_t limit);
  /// Transport of recalls now: "grpc", "shm", ... It may change after a lost connection.
  virtual std::string_view data_transport_name() const;
  /// True when the server writes into landings by itself (ClientSession::MakeLanding).
  virtual bool LandsDirectly() const;

 protected:
  explicit Client(std::unique_ptr<internal::Caller> caller);

 private:
  /// `sizes` of the units; null when only the server knows them.
  StatusOr<FetchedUnits> FetchOf(const ContextRef& context, std::span<const UnitRange> ranges,
                                 const UnitSizes* sizes, const CodecSet& codecs);

  Status ReadObjects(internal::ObjectReads* reads);

  const std::unique_ptr<internal::Caller> caller_;
};

}  // namespace quire

#endif  // QUIRE_CLIENT_H_
