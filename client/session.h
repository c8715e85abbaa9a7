// SPDX-License-Identifier: Apache-2.0
//
// ClientSession: reading contexts for the sequences of a batch, with a resident map on the server.
// A recall names the pages (or sends queries) per lane (a sequence and a managed layer) and KV
// head; the reply places only the missing units into named slots.
//
//   auto result = session->Recall(wants);          // everything at once
//   auto pending = session->Start(wants);          // or part by part, in the order asked
//   while (part = pending->Next()) { ... copy unit i of part.payload into the slot that
//                                    part.placements[i] names ...; session->Applied(part); }
//
// The caller applies a part, then calls Applied: what is not applied is not acknowledged, and the
// server takes it back with the next recall of the lane. With a landing the payload lies there
// until the next recall of its lane is started.
//
// Several recalls may be under way as long as no two touch the same lane: a correction overtakes a
// prefetch of other layers by its priority; one of the same lane follows after Cancel.
//
// Exchange numbers, acknowledgement by the next recall and resynchronisation after a loss are
// handled here. When the server refuses a recall as stale (FAILED_PRECONDITION), or a reply was not
// valid, or a lane is unknown (pending_recall.h), the session sends its own maps under a higher
// epoch; what is under way then starts again by itself for the lanes that have not come.
//
// The client renews the session's lease from a thread of its own, so that it lives on the server
// between two recalls, however far apart, and ends soon after the process has.
//
// Errors: NOT_FOUND when the server no longer has the session (it restarted, or could not be
// reached for longer than the lease): open a new one. DATA_LOSS when a reply breaks the protocol or
// a checksum: nothing of that part is handed out. INVALID_ARGUMENT for a lane that another recall
// is under way for. Others as for Client.
//
// A session may be opened for the values of units alone (Client::SessionOptions::part). Then what
// is said here, in recall.h and in session_landing.h of units in payload, pieces and landings is
// said of their values, and checksums are those of the values.
//
// Recalls go over Client::Options::data_transport, everything else over the control transport.
// Units of a part are lent when the data transport is shared memory. RecallPart says until when
// they are certain, and afterwards whether they were.
//
//   QUIRE_ASSIGN_OR_RETURN(RecallResult result, session->Recall(wants));
//   Use(result.payload);                             // before result.good_until
//   if (!result.StillGood()) { ... discard, recall again ... }
//
// Thread-safety: none; one thread at a time drives a session and its recalls. Ownership: the Client
// outlives the session; the session its recalls and landings.
#ifndef QUIRE_CLIENT_SESSION_H_
#define QUIRE_CLIENT_SESSION_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "client/client.h"
#include "client/pending_recall.h"
#include "client/recall.h"
#include "client/resident_map.h"
#include "client/session_landing.h"
#include "common/base/payload.h"
#include "common/base/status.h"
#include "common/page/layout.h"

namespace quire {

/// A context that a sequence reads, as it was when the sequence was opened.
struct SessionMember {
  ContextInfo context;
  std::vector<TokenId>
      tail_tokens;  ///< Of the short last page; empty when it ends with a whole one.
};

class ClientSession {
 public:
  ~ClientSession();  ///< Closes the session on the server, without waiting for more than a second.
  ClientSession(const ClientSession&) = delete;
  ClientSession& operator=(const ClientSession&) = delete;

  /// Of a sequence that there is, in the order in which they were asked for.
  std::span<const SessionMember> members(uint32_t sequence = 0) const { return members_[sequence]; }
  const ContextInfo& context(uint32_t sequence = 0, uint32_t member = 0) const {
    return members_[sequence][member].context;
  }
  std::span<const TokenId> tail_tokens(uint32_t sequence = 0, uint32_t member = 0) const {
    return members_[sequence][member].tail_tokens;
  }
  /// The most that a sequence may have, and what each has room for in a landing.
  uint32_t slots_per_head() const { return map_.slots_per_head(); }
  /// Of what recalls bring of a unit.
  uint64_t unit_bytes() const { return unit_bytes_; }
  /// What the session takes the slots to hold.
  const ResidentMap& resident_map() const { return map_; }
  /// What recalls travel over: "grpc", "shm", ...
  std::string_view transport_name() const;

  /// Adds a sequence to the batch and returns its number. RESOURCE_EXHAUSTED when the session has
  /// as many as it can, or its maps would be too large. After UNAVAILABLE the server may have it
  /// nevertheless, until the session closes.
  StatusOr<uint32_t> AddSequence(const SequenceSpec& sequence);
  /// Ends a sequence; OK when the server does not have it any more. INVALID_ARGUMENT while a recall
  /// of it is under way.
  /// Nothing is known of its slots after any other error.
  Status RemoveSequence(uint32_t sequence);

  /// Asks for `wants` and returns without waiting for the reply, except for a resync that is due.
  StatusOr<std::unique_ptr<PendingRecall>> Start(std::vector<LayerWant> wants,
                                                 const RecallOptions& options = {});
  /// Asks for `wants` and waits for all of it. What has come before an error is lost, as if it had
  /// not been applied.
  StatusOr<RecallResult> Recall(std::span<const LayerWant> wants,
                                const RecallOptions& options = {});
  /// The units of the part are in their slots: from now on the map counts them as resident. Doing
  /// it twice changes nothing. A part that was superseded by a
  /// later recall of its lane must not be applied: the lane is unknown afterwards. Of one that a
  /// resync came over the server hears before the next recall.
  void Applied(const RecallPart& part);
  /// The units of the part are lent for as long again, from now on: moves `part->good_until`. OK
  /// for a part that is not lent. FAILED_PRECONDITION when the lease has ended, when its connection
  /// is over, or when the session is closed: a lease ends at its time then. DEADLINE_EXCEEDED when
  /// the server does not answer within `timeout`; the units are as good as before.
  [[nodiscard]] Status Renew(RecallPart* part, Duration timeout = std::chrono::seconds(1));
  /// The units of the part got into their slots in part only, and nobody knows what these hold: its
  /// lanes count as empty from now on, and the server hears of it before the next recall.
  void Spoiled(const RecallPart& part);
  /// A unit of a part that the caller verifies (RecallOptions::verify) does not match its checksum:
  /// the server hears of it with the next recall, and mends what it has.
  void Mismatched(const MismatchedUnit& unit);

  /// A landing for sequences below `num_sequences`. Errors as for Transport::AddLanding, and
  /// INVALID_ARGUMENT for sizes that do not fit.
  StatusOr<std::unique_ptr<SessionLanding>> MakeLanding(uint32_t num_sequences = 1);
  /// Whether the server would write into landings, so that one is of use.
  bool LandsDirectly() const;

  /// Digests of pages [first_page, end_page) of a sequence's member:
  /// [layers][pages][n_kv][DigestElements(kind, d)] in the KV dtype.
  StatusOr<Payload> Digests(std::span<const uint32_t> layers, uint32_t first_page,
                            uint32_t end_page, uint32_t sequence = 0, uint32_t member = 0,
                            DigestKind kind = DigestKind::kMinMax);
  /// Cancels what is under way, takes the keys of landings back, so that nobody writes there any
  /// more, and ends the session on the server; OK when it is gone already.
  /// Later calls are FAILED_PRECONDITION.
  Status Close();

 private:
  friend class Client;
  friend class PendingRecall;
  ClientSession(Client* client, uint64_t id, uint64_t epoch, KvSpec spec, UnitPart part,
                ResidentMap map, std::vector<std::vector<SessionMember>> sequences);

  Status CheckOpen() const;
  Status CheckRecall(std::span<const LayerWant> wants, const RecallOptions& options) const;
  TimePoint DeadlineOf(const RecallOptions& options) const;
  /// Sends every lane's map under a higher epoch. Recalls under way are abandoned first.
  Status Resync(TimePoint deadline);
  /// Nobody knows what the lane's slots hold.
  void Forget(uint32_t sequence, uint32_t layer);
  /// Commits a lane of a part to the map, unless it was superseded.
  void ApplyLane(const RecallPart& part, const RecalledLane& lane);
  /// Whether a lane that a resync has come over since is as the part's placements found it.
  bool FitsStill(const RecallPart& part, const RecalledLane& lane) const;
  Status CloseBefore(TimePoint deadline);

  Client* const client_;
  const uint64_t id_;
  const KvSpec spec_;
  const uint64_t unit_bytes_;
  std::vector<std::vector<SessionMember>> members_;  ///< By sequence.
  uint64_t epoch_;
  uint64_t next_exchange_ = 1;
  bool needs_resync_ = false;
  bool closed_ = false;
  ResidentMap map_;
  std::vector<MismatchedUnit> mismatched_;  ///< That the server has not heard of; bounded.
  std::vector<PendingRecall*> under_way_;
  std::vector<std::weak_ptr<DirectLanding>> landings_;
  std::shared_ptr<const void> lease_;  ///< The client renews it while it is there (lease_keeper.h).
};

}  // namespace quire

#endif  // QUIRE_CLIENT_SESSION_H_
