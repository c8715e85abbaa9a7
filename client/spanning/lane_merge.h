// SPDX-License-Identifier: Apache-2.0
//
// Lanes whose units lie on several nodes. PlanLane places a selection into the slots of a lane, as
// a server with all of the contexts does (slot_map.h), and says what to ask of each node. MergeLane
// puts what the nodes sent into the order of one reply: by head, then by page name. Both give the
// same placements, units and bytes as one server that has everything.
//
// Nodes are asked for missing pages only, and never told what the slots hold: each sends all that
// it is asked for. Thread-safety: pure functions; units are not copied.
#ifndef QUIRE_CLIENT_SPANNING_LANE_MERGE_H_
#define QUIRE_CLIENT_SPANNING_LANE_MERGE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "client/spanning/sequence_places.h"
#include "common/page/slot_map.h"
#include "common/page/unit_sizes.h"
#include "quire/page_lists.h"
#include "quire/recall.h"
#include "quire/status.h"

namespace quire::internal {

/// A lane that was asked for.
struct PlannedLane {
  uint32_t sequence = 0;
  uint32_t layer = 0;
  uint64_t exchange = 0;
  PlacedUnits placed = {};
  PageLists held = {};      ///< Pages whose units the caller has; no heads for none.
  PageLists selected = {};  ///< RecalledLane::selected
  /// Pages to ask of each fragment, by their local names; no heads for a fragment without any.
  std::vector<PageLists> wanted = {};
};

/// Places `pages` into the slots of `map`, and fills in `placed` and `wanted` of `lane`, whose
/// other members are set.
void PlanLane(const SequencePlaces& places, const PageLists& pages, SlotMap* map,
              PlannedLane* lane);

/// The part that brings `lane`. `pieces` has for each fragment the lane that its node sent, as a
/// part of its own; one without lanes where nothing was asked. DATA_LOSS for other units than those
/// asked for, naming the node.
StatusOr<RecallPart> MergeLane(const SequencePlaces& places, const UnitSizes& sizes,
                               PlannedLane lane, std::span<const RecallPart> pieces);

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_SPANNING_LANE_MERGE_H_
