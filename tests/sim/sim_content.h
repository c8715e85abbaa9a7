// SPDX-License-Identifier: Apache-2.0
//
// Contents of simulated documents: chains that follow from a number, so that a reader can check
// every byte. Numbers of one family share their first segment. Pure functions.
#ifndef QUIRE_TESTS_SIM_SIM_CONTENT_H_
#define QUIRE_TESTS_SIM_SIM_CONTENT_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kvserver/store/page_store.h"
#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::sim {

inline constexpr char kSimTenant[] = "default";

const KvSpec& SimSpec();

/// Puts the chain of `content`. Returns its tip.
[[nodiscard]] StatusOr<SegmentKey> PutContent(kvserver::PageStore& store, uint64_t content);
/// The tip that the chain of `content` has on every node.
[[nodiscard]] SegmentKey TipOf(uint64_t content);
/// Reads the chain and compares every byte. DATA_LOSS when one differs.
[[nodiscard]] Status CheckContent(kvserver::PageStore& store, const SegmentKey& tip,
                                  uint64_t content);

}  // namespace quire::sim

#endif  // QUIRE_TESTS_SIM_SIM_CONTENT_H_
