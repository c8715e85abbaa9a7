// SPDX-License-Identifier: Apache-2.0
//
// What PutSegment does with its arguments before anything is stored: checks them, makes the
// segment's record, and cuts the payload into extents. Pure functions.
#ifndef QUIRE_KVSERVER_STORE_PUT_REQUEST_H_
#define QUIRE_KVSERVER_STORE_PUT_REQUEST_H_

#include <span>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "kvserver/store/page_store.h"
#include "kvserver/store/policy/prefill_cost.h"
#include "kvserver/store/segment_record.h"
#include "kvserver/store/tier.h"

namespace quire::kvserver {

/// Payload of one segment at most.
inline constexpr uint64_t kMaxSegmentBytes = 1ull << 30;

/// INVALID_ARGUMENT naming what is wrong with the spec, the tokens or the payload's size.
[[nodiscard]] Status CheckPutArguments(const PutSegmentArgs& args);

/// The record of what `args` puts, with the checksum of every unit; `first_token` is left 0.
/// REQUIRES: CheckPutArguments.
[[nodiscard]] SegmentRecord MakeRecord(std::string_view tenant, const PutSegmentArgs& args);

/// One view for each layer. They refer to `record` and `payload`. `cost`: of computing it again.
[[nodiscard]] std::vector<ExtentView> SplitExtents(const SegmentKey& key,
                                                   const SegmentRecord& record,
                                                   std::span<const std::byte> payload,
                                                   const PrefillCost& cost);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PUT_REQUEST_H_
