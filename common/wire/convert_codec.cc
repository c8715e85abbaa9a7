// SPDX-License-Identifier: Apache-2.0
#include "common/wire/convert_codec.h"

#include <algorithm>

namespace quire::wire {

static_assert(static_cast<int>(UnitCodec::kRaw) == v1::UNIT_CODEC_RAW);
static_assert(static_cast<int>(UnitCodec::kInt4) == v1::UNIT_CODEC_INT4);

StatusOr<CodecSet> CodecsFromProto(const ProtoCodecs& proto) {
  CodecSet codecs;
  for (const int number : proto) {
    if (number < v1::UNIT_CODEC_RAW || number > v1::UNIT_CODEC_INT4) {
      return InvalidArgument("codecs has ", number, ": must be 1..", int{v1::UNIT_CODEC_INT4});
    }
    codecs.Add(static_cast<UnitCodec>(number));
  }
  return codecs;
}

void CodecsToProto(const CodecSet& codecs, ProtoCodecs* proto) {
  if (codecs == CodecSet()) return;
  for (int number = v1::UNIT_CODEC_RAW; number <= v1::UNIT_CODEC_INT4; ++number) {
    if (codecs.Has(static_cast<UnitCodec>(number))) proto->Add(number);
  }
}

StatusOr<std::vector<UnitCodec>> CodecRunsFromProto(const ProtoCodecRuns& proto, uint64_t units,
                                                    const UnitSizes& sizes) {
  std::vector<UnitCodec> codecs;
  if (proto.empty()) return codecs;
  bool only_raw = true;
  for (const v1::CodecRun& run : proto) {
    const bool known = run.codec() >= v1::UNIT_CODEC_RAW && run.codec() <= v1::UNIT_CODEC_INT4;
    const auto codec = static_cast<UnitCodec>(run.codec());
    if (!known || sizes.Of(codec) == 0) {
      return InvalidArgument("units in codec ", int{run.codec()}, ", which was not asked for");
    }
    if (run.units() == 0 || run.units() > units - codecs.size()) {
      return InvalidArgument("codecs of ", run.units(), " units where ", units - codecs.size(),
                             " are left");
    }
    only_raw = only_raw && codec == UnitCodec::kRaw;
    codecs.insert(codecs.end(), run.units(), codec);
  }
  if (codecs.size() < units) {
    return InvalidArgument(units - codecs.size(), " units have no codec");
  }
  if (only_raw) codecs.clear();
  return codecs;
}

void AddCodecRun(UnitCodec codec, uint32_t units, ProtoCodecRuns* proto) {
  const auto number = static_cast<v1::UnitCodec>(codec);
  if (proto->empty() || proto->rbegin()->codec() != number) proto->Add()->set_codec(number);
  v1::CodecRun& last = *proto->rbegin();
  last.set_units(last.units() + units);
}

}  // namespace quire::wire
