// SPDX-License-Identifier: Apache-2.0
//
// Conversions of codecs: the ones that a receiver decodes, and those of the units of a reply.
// Checks and errors as in convert.h.
#ifndef QUIRE_COMMON_WIRE_CONVERT_CODEC_H_
#define QUIRE_COMMON_WIRE_CONVERT_CODEC_H_

#include <cstdint>
#include <vector>

#include "common/page/unit_sizes.h"
#include "google/protobuf/repeated_field.h"
#include "quire/status.h"
#include "quire/unit_codec.h"
#include "quire/v1/types.pb.h"

namespace quire::wire {

using ProtoCodecs = google::protobuf::RepeatedField<int>;
using ProtoCodecRuns = google::protobuf::RepeatedPtrField<v1::CodecRun>;

/// INVALID_ARGUMENT for a number that is no codec.
[[nodiscard]] StatusOr<CodecSet> CodecsFromProto(const ProtoCodecs& proto);
/// Nothing for a set of kRaw alone.
void CodecsToProto(const CodecSet& codecs, ProtoCodecs* proto);

/// The codec of each of `units` units; none when all are raw. INVALID_ARGUMENT for runs of another
/// number of units, and for a codec that `sizes` does not send.
[[nodiscard]] StatusOr<std::vector<UnitCodec>> CodecRunsFromProto(const ProtoCodecRuns& proto,
                                                                  uint64_t units,
                                                                  const UnitSizes& sizes);
/// Adds `units` units behind those of `proto`.
void AddCodecRun(UnitCodec codec, uint32_t units, ProtoCodecRuns* proto);

}  // namespace quire::wire

#endif  // QUIRE_COMMON_WIRE_CONVERT_CODEC_H_
