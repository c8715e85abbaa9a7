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

/// A segment on its way into the tiers.
struct SegmentToStore {
  SegmentRecord record;              ///< `first_token` is left 0.
  std::span<const std::byte> bytes;  ///< [layers][pages][n_kv] encoded units
  std::vector<std::byte> encoded;    ///< Owns `bytes`; empty for raw units, which the caller owns.
};

/// Verifies the units that came with checksums, encodes what `args` puts and takes the checksum of
/// every encoded unit. REQUIRES: CheckPutArguments. Errors: DATA_LOSS, INTERNAL.
[[nodiscard]] StatusOr<SegmentToStore> EncodeSegment(std::string_view tenant,
                                                     const PutSegmentArgs& args,
                                                     const CodecParams& codec);

/// What readers of `segment` will see, [layers][pages][n_kv] units: digests come from it. Decoded
/// into `scratch` unless the units are raw. REQUIRES: `segment` was just made, of bytes that had
/// arrived or were verified.
[[nodiscard]] StatusOr<std::span<const std::byte>> ReadablePayload(const SegmentToStore& segment,
                                                                   std::vector<std::byte>& scratch);

/// One view for each layer. They refer to `segment`. `cost`: of computing it again.
[[nodiscard]] std::vector<ExtentView> SplitExtents(const SegmentKey& key,
                                                   const SegmentToStore& segment,
                                                   const PrefillCost& cost);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PUT_REQUEST_H_
