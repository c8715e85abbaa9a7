// SPDX-License-Identifier: Apache-2.0
//
// HeatRule: what one owner of a document does about its copies, from how often it reads it. Above
// the limit the document gets one more owner, again and again while nodes read it above the limit.
// Its extra owners go when no owner would read it above half of the limit without them. In between
// nothing changes, so a steady load neither adds owners for ever nor lets them come and go.
// Pure functions.
#ifndef QUIRE_CLUSTER_HOT_HEAT_RULE_H_
#define QUIRE_CLUSTER_HOT_HEAT_RULE_H_

#include <cstdint>

namespace quire::cluster {

struct Heat {
  double reads_per_second = 0;  ///< By this node.
  uint32_t owners = 1;          ///< At present, extra ones included; at least 1.
  uint32_t extra = 0;           ///< Agreed extra owners.
  uint32_t most_owners = 1;     ///< Nodes that could own it.
};

struct HeatLimits {
  uint32_t reads_per_second = 0;  ///< 0: no document is hot.
  uint32_t most_extra = 0;
};

enum class HeatStep : uint8_t {
  kNone,  ///< The node does not ask for extra owners.
  kKeep,  ///< It needs those that there are.
  kAdd,   ///< It needs these and one more.
};
[[nodiscard]] HeatStep StepOf(const Heat& heat, const HeatLimits& limits);

}  // namespace quire::cluster

#endif  // QUIRE_CLUSTER_HOT_HEAT_RULE_H_
