// SPDX-License-Identifier: Apache-2.0
//
// ClientSession: reading one context with a resident map on the server. A recall names the pages
// (or sends queries) per layer and KV head; the reply places only the missing units into named
// slots.
//
// Sequence numbers, acknowledgement by the next recall and resynchronisation after a loss are
// handled here: when the server refuses a recall as stale (FAILED_PRECONDITION), the session sends
// its own map under a higher epoch and asks once more within the same call. The caller applies a
// result, then calls Applied(); what is not applied is not acknowledged and the server forgets it.
//
// Errors: NOT_FOUND when the server no longer has the session (it restarted, or the session idled
// too long): open a new one. DATA_LOSS when a reply breaks the protocol or a checksum: nothing of
// it is handed out and the next recall starts with a resync. Others as for Client.
//
// Thread-safety: none; one thread at a time. Ownership: the Client outlives the session.
//
//   QUIRE_ASSIGN_OR_RETURN(auto session, client->OpenSession(document, {.spec = spec,
//   .slots_per_head = 64})); QUIRE_ASSIGN_OR_RETURN(RecallResult result, session->Recall(wants));
//   ... copy unit i of result.payload into the slot that result.placements[i] names ...
//   session->Applied(result);
#ifndef QUIRE_CLIENT_SESSION_H_
#define QUIRE_CLIENT_SESSION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "client/client.h"
#include "client/resident_map.h"
#include "common/base/payload.h"
#include "common/base/status.h"

namespace quire {

namespace v1 {
class OpenSessionReply;
}

/// Same meaning as the wire's Pooling (spec A.1).
enum class RecallPooling { kMaxQ, kAvgQ, kMaxS, kAvgS, kMaxSM, kAvgSM, kAvgSdM };

/// What one layer wants: pages per KV head, or a query for the server to select with.
struct LayerWant {
  uint32_t layer = 0;
  /// Selection by the caller: [n_kv] ascending page lists. Empty when `query` is given.
  std::vector<std::vector<uint32_t>> pages = {};
  /// Selection by the server: [n_q][d] floats; empty when `pages` is given.
  std::vector<float> query = {};
  uint32_t first_page = 0;  ///< Candidates [first_page, end_page), query selection only.
  uint32_t end_page = 0;
  uint32_t num_pages = 0;  ///< Pages to select per KV head.
  RecallPooling pooling = RecallPooling::kAvgSM;
  float scale = 1.0f;
};

struct RecallResult {
  uint64_t sequence = 0;
  std::vector<Placement> placements;  ///< In payload order.
  Payload payload;  ///< placements.size() units, verified against their checksums.
  /// One entry for each want: [n_kv] selected pages, ascending; empty where the caller selected.
  std::vector<std::vector<std::vector<uint32_t>>> selected;
};

class ClientSession {
 public:
  ~ClientSession();  ///< Closes the session on the server, without waiting for more than a second.
  ClientSession(const ClientSession&) = delete;
  ClientSession& operator=(const ClientSession&) = delete;

  const ContextInfo& context() const { return context_; }
  /// Token ids of the context's short last page (empty when it ends with a whole page).
  std::span<const TokenId> tail_tokens() const { return tail_tokens_; }
  uint32_t slots_per_head() const { return map_.slots_per_head(); }

  /// Asks for one or more layers. On OK the caller places the units and then calls Applied().
  StatusOr<RecallResult> Recall(std::span<const LayerWant> wants);
  /// The units of the latest result are in their slots: from now on the map counts them as
  /// resident. A result of an earlier recall changes nothing.
  void Applied(const RecallResult& result);
  /// Acknowledges at once what was applied (otherwise the next Recall does).
  Status Ack();
  /// Digests of pages [first_page, end_page): [layers][pages][n_kv][2][d] in the KV dtype.
  StatusOr<Payload> Digests(std::span<const uint32_t> layers, uint32_t first_page,
                            uint32_t end_page);
  /// Ends the session on the server; OK when it is gone already. Later calls are
  /// FAILED_PRECONDITION.
  Status Close();

 private:
  friend class Client;
  ClientSession(Client* client, const v1::OpenSessionReply& reply, ContextInfo context,
                ResidentMap map);
  Status CheckOpen() const;
  StatusOr<RecallResult> TryRecall(std::span<const LayerWant> wants, TimePoint deadline);
  Status Resync(TimePoint deadline);
  Status CloseBefore(TimePoint deadline);

  Client* const client_;
  const uint64_t id_;
  const ContextInfo context_;
  const std::vector<TokenId> tail_tokens_;
  uint64_t epoch_;
  uint64_t applied_ = 0;  ///< Sequence of the last recall applied; the next one is applied_ + 1.
  uint64_t acked_ = 0;    ///< Up to which the server is known to have committed.
  bool needs_resync_ = false;
  bool closed_ = false;
  ResidentMap map_;
};

}  // namespace quire

#endif  // QUIRE_CLIENT_SESSION_H_
