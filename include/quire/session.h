// SPDX-License-Identifier: Apache-2.0
//
// ClientSession: reads contexts for the sequences of a batch into numbered slots. The server keeps
// a map of what each slot holds. A recall names pages (or sends queries) for each lane, which is a
// layer of a sequence, and each KV head. The reply brings only the missing units and places them.
//
//   auto result = session->Recall(wants);          // everything at once
//   auto pending = session->Start(wants);          // or part by part, in the order asked
//   while (part = pending->Next()) { ... copy unit i of part.payload into the slot that
//                                    part.placements[i] names ...; session->Applied(part); }
//
// The caller applies a part, then calls Applied. Parts that are not applied are not acknowledged.
// The server rolls them back with the next recall of the lane. With a landing the payload lies
// there until the next recall of its lane is started.
//
// Concurrency. Several recalls may be in flight on different lanes. A correction overtakes a
// prefetch of other layers by its priority. Cancel a recall before asking for the same lane again.
//
// Recovery. The session numbers its exchanges and acknowledges them. After a loss, or when the
// server refuses a recall as stale, it sends its own maps under a higher epoch. Recalls in flight
// then ask again for their missing lanes.
//
// Leases. The client renews the session's lease on the server from a thread of its own. The session
// ends soon after its process has.
//
// Lent units. Over shared memory the units of a part lie in the server's memory for a time. Use
// them before RecallPart::valid_until, or ask IsValid after the use.
//
// Errors: NOT_FOUND when the server has the session no more: open a new one. DATA_LOSS when a reply
// breaks the protocol or a checksum: nothing of that part is handed out. INVALID_ARGUMENT for a
// lane with a recall in flight. Others as for Client.
//
// Thread-safety: none; one thread at a time drives a session and its recalls. Ownership: the Client
// outlives the session; the session its recalls and landings.
#ifndef QUIRE_SESSION_H_
#define QUIRE_SESSION_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "quire/contexts.h"
#include "quire/digest.h"
#include "quire/hints.h"
#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/layout.h"
#include "quire/payload.h"
#include "quire/pending_recall.h"
#include "quire/recall.h"
#include "quire/session_landing.h"
#include "quire/status.h"
#include "quire/unit_codec.h"
#include "quire/units.h"

namespace quire {

/// One of the contexts that a sequence reads.
struct SequenceMember {
  ContextRef context;
  /// Added to the positions of the context's keys. Not 0 only for keys that are rotated with fixed
  /// frequencies.
  int32_t position_offset = 0;
};

/// Contexts that one sequence of a session reads, 1 to 64, and its number of slots.
struct SequenceSpec {
  std::vector<SequenceMember> members;
  uint32_t slots_per_head = 0;  ///< 1 to the session's; 0: all of those.
  Hints hints = {};             ///< Hints of the stored segments of its members.
};

/// Pages to score by their content, and one query for each member, layer and KV head.
struct ContentScoring {
  uint32_t sequence = 0;
  std::vector<uint32_t> layers = {};            ///< Managed or not.
  std::vector<CandidateRange> candidates = {};  ///< By ascending member.
  std::vector<float> queries = {};  ///< [candidates][layers][n_kv][key_dim], without rotation.
};

struct SessionOptions {
  KvSpec spec = {};                              ///< Must equal every context's.
  uint32_t slots_per_head = 0;                   ///< The most that a sequence may have; 1 to 65536.
  std::vector<uint32_t> managed_layers = {};     ///< All when empty.
  std::optional<HeldDigests> hold_digests = {};  ///< For recalls by query.
  /// Part of a unit that recalls bring. kValues, for a caller that has the keys, only where the
  /// spec has values (not MLA).
  UnitPart part = UnitPart::kWhole;
  /// Codecs that the caller decodes. Units stored in one of them come as they are stored, where
  /// that is smaller (RecallPart::codecs). Others come as elements. With whole units only.
  CodecSet codecs = {};
};

/// A context that a sequence reads, as it was when the sequence was opened.
struct SessionMember {
  ContextInfo context;
  std::vector<TokenId> tail_tokens;  ///< Tokens of the short last page, if there is one.
};

class ClientSession {
 public:
  /// Closes the session on the server, without waiting for more than a second.
  virtual ~ClientSession() = default;
  ClientSession(const ClientSession&) = delete;
  ClientSession& operator=(const ClientSession&) = delete;

  /// The contexts of a sequence that the session has, in the order asked for.
  virtual std::span<const SessionMember> members(uint32_t sequence) const = 0;
  std::span<const SessionMember> members() const { return members(0); }
  const ContextInfo& context(uint32_t sequence = 0, uint32_t member = 0) const {
    return members(sequence)[member].context;
  }
  std::span<const TokenId> tail_tokens(uint32_t sequence = 0, uint32_t member = 0) const {
    return members(sequence)[member].tail_tokens;
  }
  /// The most that a sequence may have, and what each has room for in a landing.
  virtual uint32_t slots_per_head() const = 0;
  /// The slots of a sequence that the session has.
  virtual uint32_t slots_per_head(uint32_t sequence) const = 0;
  /// Most bytes that recalls bring of a unit (SessionOptions::part), and those of one that is not
  /// encoded.
  virtual uint64_t unit_bytes() const = 0;
  /// Bytes of a unit that comes in `codec`; 0 for a codec that units do not come in.
  virtual uint64_t unit_bytes(UnitCodec codec) const = 0;
  /// Pages that the session takes the slots of a lane to hold: [n_kv][slots_per_head(sequence)],
  /// -1 for an empty slot. Valid until the next call.
  virtual std::span<const int32_t> ResidentPages(uint32_t sequence, uint32_t layer) const = 0;
  /// Transport of recalls: "grpc", "shm", ...
  virtual std::string_view transport_name() const = 0;

  /// Adds a sequence to the batch and returns its number. RESOURCE_EXHAUSTED when the session has
  /// as many as it can, or its maps would be too large. After UNAVAILABLE the server may have it
  /// nevertheless, until the session closes.
  virtual StatusOr<uint32_t> AddSequence(const SequenceSpec& sequence) = 0;
  /// Ends a sequence; OK when the server has it no more. INVALID_ARGUMENT while a recall of it is
  /// in flight. The content of its slots is unknown after any other error.
  virtual Status RemoveSequence(uint32_t sequence) = 0;

  /// Asks for `wants` and returns without waiting for the reply, except for a resync that is due.
  virtual StatusOr<std::unique_ptr<PendingRecall>> Start(std::vector<LayerWant> wants,
                                                         const RecallOptions& options) = 0;
  StatusOr<std::unique_ptr<PendingRecall>> Start(std::vector<LayerWant> wants) {
    return Start(std::move(wants), {});
  }
  /// Asks for `wants` and waits for all of it. Parts before an error are lost, as if
  /// they had not been applied.
  virtual StatusOr<RecallResult> Recall(std::span<const LayerWant> wants,
                                        const RecallOptions& options) = 0;
  StatusOr<RecallResult> Recall(std::span<const LayerWant> wants) { return Recall(wants, {}); }
  /// The units of the part are in their slots: from now on the map counts them as resident. Doing
  /// it twice changes nothing. A part that was superseded by a
  /// later recall of its lane must not be applied: the lane is unknown afterwards. After a resync
  /// the server learns of the part before the next recall.
  virtual void Applied(const RecallPart& part) = 0;
  /// Renews the lease of a part's units and moves `part->valid_until`. OK for a part that is not
  /// lent. FAILED_PRECONDITION when the lease or its connection has ended, or the session is
  /// closed. DEADLINE_EXCEEDED without an answer within `timeout`; the lease stays as it was then.
  [[nodiscard]] virtual Status Renew(RecallPart* part, Duration timeout) = 0;
  [[nodiscard]] Status Renew(RecallPart* part) { return Renew(part, std::chrono::seconds(1)); }
  /// Marks the lanes of a partly applied part as empty. The server learns it before the next
  /// recall.
  virtual void Invalidate(const RecallPart& part) = 0;
  /// Reports a unit that the caller verified (RecallOptions::verify) and found wrong. The server
  /// learns it with the next recall, and mends its copy.
  virtual void Mismatched(const MismatchedUnit& unit) = 0;

  /// A landing for sequences below `num_sequences`. Errors as for Transport::AddLanding, and
  /// INVALID_ARGUMENT for sizes that do not fit.
  virtual StatusOr<std::unique_ptr<SessionLanding>> MakeLanding(uint32_t num_sequences) = 0;
  StatusOr<std::unique_ptr<SessionLanding>> MakeLanding() { return MakeLanding(1); }
  /// True when the server would write into landings, so that one is of use.
  virtual bool LandsDirectly() const = 0;

  /// Digests of pages [first_page, end_page) of a sequence's member:
  /// [layers][pages][n_kv][DigestElements(kind, d)] in the KV dtype.
  virtual StatusOr<Payload> Digests(std::span<const uint32_t> layers, uint32_t first_page,
                                    uint32_t end_page, uint32_t sequence, uint32_t member,
                                    DigestKind kind) = 0;
  StatusOr<Payload> Digests(std::span<const uint32_t> layers, uint32_t first_page,
                            uint32_t end_page, uint32_t sequence = 0, uint32_t member = 0) {
    return Digests(layers, first_page, end_page, sequence, member, DigestKind::kMinMax);
  }
  /// Inner products of queries and mean keys of pages, both without rotation, summed over KV heads:
  /// [candidates][layers][pages]. A block's score is the mean of its pages' scores. One request for
  /// all members and layers. INVALID_ARGUMENT, too, for keys whose rotation depends on the length
  /// of the context; UNIMPLEMENTED from a server that has no such call.
  virtual StatusOr<std::vector<float>> ScorePages(const ContentScoring& wanted) = 0;
  /// Cancels recalls, ends landings and ends the session on the server; OK when it is gone already.
  /// Later calls are FAILED_PRECONDITION.
  virtual Status Close() = 0;

 protected:
  ClientSession() = default;
};

/// One lane of `part`, which came through `session`, as a part of its own. Units are not copied.
RecallPart LanePart(const ClientSession& session, const RecallPart& part, const RecalledLane& lane);

}  // namespace quire

#endif  // QUIRE_SESSION_H_
