// SPDX-License-Identifier: Apache-2.0
//
// ClusterClient: a Client of all nodes of a cluster. A call about a document goes to a node that
// has it, and to another one after that node's failure. Sessions read contexts of several nodes:
// every recall goes to each node once, and selections are the same as on one node that has
// everything.
//
//   ClusterClient::Options options{.router = router, .connect = connect_to_node};
//   QUIRE_ASSIGN_OR_RETURN(auto client, ClusterClient::Create(std::move(options)));
//   QUIRE_ASSIGN_OR_RETURN(auto a, client->GetDocument({.name = "a"}));
//   QUIRE_ASSIGN_OR_RETURN(auto b, client->GetDocument({.name = "b"}));
//   SequenceSpec both{.members = {{.context = a.chain_tip}, {.context = b.chain_tip}}};
//   QUIRE_ASSIGN_OR_RETURN(auto session, client->OpenSession({&both, 1}, session_options));
//
// Routing. Calls with the name of a document go to its node. A chain is known by the
// document that it was found by: GetDocument tells, and NoteChain for what was made from one. An
// open context is on the node of the chain that it continues. Puts of one document go to one node:
// take its client (ForPut) for them. Any other call is about one node and UNIMPLEMENTED here: take
// the client of a node (ForPut, ForDocument).
//
// Selection. Pages of a sequence that reads several nodes are selected by the caller, by ScorePages
// or Digests, whose answers are those of one node with everything. A recall of it by query is
// UNIMPLEMENTED.
//
// Losses. Reads, and calls that open a context or a session, are made at another node that has the
// document when the first one fails. Where no other has it, reads wait for the node as a Client
// does. A session whose node fails is NOT_FOUND or UNAVAILABLE: open it again, and it lies on other
// nodes. Reads are not hedged.
//
// Thread-safety: all methods may be called concurrently. Ownership: clients of nodes are the
// ClusterClient's, and live as long. It outlives its sessions.
#ifndef QUIRE_CLUSTER_CLIENT_H_
#define QUIRE_CLUSTER_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quire/client.h"
#include "quire/clock.h"
#include "quire/document_router.h"
#include "quire/retry_options.h"
#include "quire/status.h"

namespace quire {

class ClusterClient final : public Client {
 public:
  /// A client of the node at `address`, over `control` (DocumentRouter::ConnectTo). It should give
  /// up a node that cannot be reached soon (kNodeUnreachableFor), since another one may have the
  /// documents. Called by several threads, for different nodes.
  using Connect = std::function<StatusOr<std::unique_ptr<Client>>(
      const std::string& address, std::shared_ptr<Transport> control)>;
  /// A fit RetryOptions::unreachable_for of a node's client.
  static constexpr Duration kNodeUnreachableFor = std::chrono::milliseconds(250);

  struct Options {
    std::shared_ptr<DocumentRouter> router = nullptr;
    Connect connect = {};
    Duration deadline = std::chrono::seconds(60);  ///< Limit of one method, retries included.
    TimePoint limit = TimePoint::max();            ///< As Client::Options::limit.
    RetryOptions retry = {};                       ///< Retries of reads that no node answers.
    Clock* clock = nullptr;                        ///< SystemClock() when null.
    Health* health = nullptr;                      ///< As Client::Options::health.
  };
  /// The result is a ClusterClient. INVALID_ARGUMENT without a router or `connect`. Nothing is
  /// connected yet.
  static StatusOr<std::unique_ptr<Client>> Create(Options options);
  ~ClusterClient() override;

  StatusOr<OpenedContext> OpenContext(const KvSpec& spec,
                                      const std::optional<ContextRef>& continues,
                                      const ContextOptions& options) override;
  StatusOr<uint64_t> AppendPages(uint64_t context_id, uint32_t first_page,
                                 std::span<const TokenId> tokens, const Payload& payload) override;
  StatusOr<uint64_t> AppendLayers(uint64_t context_id, uint32_t first_page,
                                  std::span<const TokenId> tokens, std::span<const uint32_t> layers,
                                  const Payload& payload) override;
  StatusOr<SealedContext> Seal(uint64_t context_id, std::span<const TokenId> tail_tokens,
                               const Payload& tail_payload, PutDurability durability) override;
  Status DropContext(uint64_t context_id) override;

  StatusOr<Payload> Fetch(const ContextRef& context, std::span<const UnitRange> ranges) override;
  StatusOr<FetchedUnits> FetchUnits(const ContextRef& context, std::span<const UnitRange> ranges,
                                    const KvSpec& spec, const CodecSet& codecs) override;
  StatusOr<ContextStat> Stat(const ContextRef& context) override;
  StatusOr<std::vector<TokenId>> ReadTokens(const ContextRef& context) override;

  StatusOr<Document> GetDocument(const DocumentName& name, TimePoint limit) override;
  StatusOr<RemovedDocuments> InvalidateDocument(const DocumentName& name) override;
  StatusOr<Document> UpdateDocument(const DocumentName& name,
                                    const DocumentChange& change) override;
  StatusOr<Extra> PutExtra(const DocumentName& document, std::string_view name, uint32_t version,
                           const Payload& payload, std::span<const SegmentKey> segments) override;
  StatusOr<ExtraBytes> GetExtra(const DocumentName& document, std::string_view name) override;
  StatusOr<std::vector<Extra>> ListExtras(const DocumentName& document) override;
  StatusOr<PageUses> GetPageUses(const DocumentName& document) override;

  using Client::OpenSession;
  StatusOr<std::unique_ptr<ClientSession>> OpenSession(std::span<const SequenceSpec> sequences,
                                                       const SessionOptions& options) override;

  StatusOr<Client*> ForPut(const DocumentName& name) override;
  StatusOr<Client*> ForDocument(const DocumentName& name) override;
  void NoteChain(const SegmentKey& chain_tip, const DocumentName& document) override;

  /// Those of a node that answers.
  StatusOr<ServerStats> Stats() override;
  StatusOr<std::vector<SlowCall>> SlowCalls(uint32_t limit) override;
  struct Counters {
    uint64_t node_changes = 0;  ///< Calls that went to another node after one that failed.
    uint64_t calls_failed = 0;  ///< Calls that a node did not answer, or not in time.
  };
  Counters counters() const;
  /// The name at the nodes that are connected; "mixed" when they differ, "none" before the first.
  std::string_view data_transport_name() const override;
  bool LandsDirectly() const override { return false; }

 private:
  class Impl;
  ClusterClient(std::unique_ptr<internal::Caller> no_node, std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace quire

#endif  // QUIRE_CLUSTER_CLIENT_H_
