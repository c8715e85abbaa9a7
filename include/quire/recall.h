// SPDX-License-Identifier: Apache-2.0
//
// Requests and answers of recalls. Values; thread-safety as such.
//
// A lane is one layer of one sequence of a session. A page's name has its context and its number
// there: PageName(member, page). For a sequence that reads one context it is the page number.
#ifndef QUIRE_RECALL_H_
#define QUIRE_RECALL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "quire/clock.h"
#include "quire/digest.h"
#include "quire/page_lists.h"
#include "quire/page_name.h"
#include "quire/payload.h"
#include "quire/priority.h"
#include "quire/status.h"
#include "quire/unit_codec.h"

namespace quire {

class SessionLanding;

/// How the scores of the query heads of a KV head become one score of a page.
enum class RecallPooling { kMaxQ, kAvgQ, kMaxS, kAvgS, kMaxSM, kAvgSM, kAvgSdM };

/// Candidate pages [first_page, end_page) of one member of a sequence.
struct CandidateRange {
  uint32_t member = 0;
  uint32_t first_page = 0;
  uint32_t end_page = 0;
};

/// Wants of consecutive layers of one sequence: pages, or queries for the server to select with.
struct LayerWant {
  uint32_t sequence = 0;
  uint32_t layer = 0;       ///< The first; all of them managed.
  uint32_t num_layers = 1;  ///< From `layer` on.
  /// Selection by the caller: [n_kv] ascending, distinct pages, the same for all the layers. No
  /// heads when `query` is given.
  PageLists pages = {};
  /// Only with `pages`: those of them, [n_kv] ascending, whose units the caller kept from earlier
  /// recalls. They are placed like others, but their bytes are not sent. May have no heads.
  PageLists held = {};
  /// Selection by the server: [num_layers][n_q][d]; empty when `pages` is given.
  std::vector<float> query = {};
  std::vector<CandidateRange> candidates = {};  ///< For a query: by ascending member.
  uint32_t num_pages = 0;                       ///< For a query: pages to select per KV head.
  RecallPooling pooling = RecallPooling::kAvgSM;
  float scale = 1.0f;
  DigestKind digest = DigestKind::kMinMax;  ///< For a query: the kind that scores pages.
  /// For a query: KV heads, ascending, that keep what they hold. RecalledLane::selected
  /// has their selection, and nothing is placed for them.
  std::vector<uint32_t> kept_heads = {};
};

struct RecallOptions {
  Priority priority = Priority::kNormal;
  Duration timeout = {};  ///< Limit of all attempts together; 0: the client's deadline.
  /// Where the server may write units, of the same session; outlives the recall. Payload lies there
  /// then.
  SessionLanding* landing = nullptr;
  /// Compare payload with its checksums. When false the caller does, as it reads the units where
  /// they lie.
  bool verify = true;
  /// Bytes of a piece, for Start. Where the transport cuts replies, units of a part arrive in such
  /// pieces, the first with the part (RecallPart::bytes_to_come). Without a landing, and with
  /// `verify` off. 0: a part comes whole.
  uint32_t piece_bytes = 0;
};

/// One unit and the slot that it goes into.
struct Placement {
  uint32_t sequence = 0;
  uint32_t layer = 0;
  uint32_t head = 0;
  uint32_t slot = 0;
  uint32_t generation = 0;  ///< Generation of the slot after this placement.
  uint32_t page = 0;
  int32_t replaced = -1;  ///< The page that was there, -1 for none.
};

/// A lane whose missing units have come.
struct RecalledLane {
  uint32_t sequence = 0;
  uint32_t layer = 0;
  uint64_t exchange = 0;       ///< Exchange that brought the lane.
  size_t first_placement = 0;  ///< Its placements are [first_placement, end_placement).
  size_t end_placement = 0;
  PageLists selected = {};  ///< The server's selection; no heads where the caller selected.
};

/// Whole lanes, in the order asked, verified against the request, the slots and the checksums
/// (RecallOptions::verify). A part without lanes is a further piece of the part before it.
///
/// Over shared memory the server lends the units for a time (`--lease-seconds`). They are certain
/// until `valid_until`. To use them for longer, ask IsValid after the use, renew the lease
/// (ClientSession::Renew), or take a copy (OwnUnits). Discard what was made of units that were not
/// good, and recall them again.
struct RecallPart {
  std::vector<RecalledLane> lanes = {};
  std::vector<Placement> placements = {};  ///< Placements of all lanes, lane by lane.
  std::vector<uint32_t> checksums = {};    ///< CRC-32C of each unit; 0 for one that is held.
  /// Codec of each placement's unit; kRaw for one that is held. Empty when all are elements.
  std::vector<UnitCodec> codecs = {};
  /// Placements whose units the caller holds (LayerWant::held), ascending.
  std::vector<size_t> held = {};
  Payload payload = {};        ///< The units of all other placements.
  uint64_t landed_bytes = 0;   ///< Payload bytes that lie in the landing.
  uint64_t bytes_to_come = 0;  ///< Bytes of these lanes' units in later parts.
  /// Until when nobody else uses the payload's memory, on the client's clock, counted from before
  /// the request was sent. TimePoint::max() where nothing is lent: units that came by a copy, or
  /// into a landing.
  TimePoint valid_until = TimePoint::max();

  /// True while the units are as they came. Asked after a use, it tells whether the use saw the
  /// right bytes. False stays false.
  bool IsValid() const { return payload.IsValid(); }
  /// Copies the units, unless they are the holder's already; they are good for ever then, and no
  /// lease is held for them. FAILED_PRECONDITION when they were not good any more.
  [[nodiscard]] Status OwnUnits();

  UnitCodec CodecOf(size_t placement) const {
    return codecs.empty() ? UnitCodec::kRaw : codecs[placement];
  }
  std::span<const Placement> PlacementsOf(const RecalledLane& lane) const {
    return std::span(placements)
        .subspan(lane.first_placement, lane.end_placement - lane.first_placement);
  }
};

/// Everything that has come, as one part.
struct RecallResult : RecallPart {};

}  // namespace quire

#endif  // QUIRE_RECALL_H_
