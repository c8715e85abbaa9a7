// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/collections/collection_settings.h"

#include <algorithm>
#include <limits>

#include "kvserver/store/metadata/checked_record.h"

namespace quire::kvserver {
namespace {

constexpr uint8_t kVersion = 1;

// Flags of the fields in a record.
constexpr uint8_t kHasCodec = 1;
constexpr uint8_t kCodecHasEntropy = 2;
constexpr uint8_t kHasTtl = 4;
constexpr uint8_t kAllFlags = kHasCodec | kCodecHasEntropy | kHasTtl;

}  // namespace

CollectionSettings Apply(const SettingsChange& change, CollectionSettings settings) {
  if (change.codec) settings.codec = *change.codec;
  if (change.ttl_seconds) settings.ttl_seconds = *change.ttl_seconds;
  return settings;
}

Status CheckTtl(uint64_t seconds) {
  if (seconds >= 1 && seconds <= kMaxTtlSeconds) return OkStatus();
  return InvalidArgument("the time to live is ", seconds, " seconds: must be 1..", kMaxTtlSeconds,
                         ", or not set for ever");
}

int64_t ExpiryOf(int64_t created_unix_micros, std::optional<uint64_t> ttl_seconds) {
  if (!ttl_seconds) return 0;
  const auto ttl_micros = static_cast<int64_t>(std::min(*ttl_seconds, kMaxTtlSeconds) * 1'000'000);
  int64_t expiry = 0;
  if (__builtin_add_overflow(created_unix_micros, ttl_micros, &expiry)) {
    return std::numeric_limits<int64_t>::max();
  }
  return std::max<int64_t>(expiry, 1);
}

std::string EncodeCollection(const CollectionSettings& settings) {
  const CodecParams codec = settings.codec.value_or(CodecParams());
  uint8_t flags = 0;
  if (settings.codec) flags |= kHasCodec;
  if (codec.entropy) flags |= kCodecHasEntropy;
  if (settings.ttl_seconds) flags |= kHasTtl;
  ByteWriter out;
  out.Number(kVersion);
  out.Number(flags);
  out.Number(static_cast<uint8_t>(codec.id));
  out.Number(settings.ttl_seconds.value_or(0));
  return CloseRecord(out);
}

StatusOr<CollectionSettings> DecodeCollection(std::string_view collection,
                                              std::string_view encoded) {
  const auto damaged = [&] {
    return DataLoss("the settings of collection ", collection, " are damaged; set them again");
  };
  ByteReader in = OpenRecord(encoded);
  const auto version = in.Number<uint8_t>();
  if (version > kVersion) {
    return FailedPrecondition("the settings of collection ", collection, " have version ",
                              uint32_t{version}, "; upgrade the server");
  }
  const auto flags = in.Number<uint8_t>();
  const StatusOr<CodecId> id = CodecFromNumber(in.Number<uint8_t>());
  const auto ttl_seconds = in.Number<uint64_t>();
  if (version == 0 || !in.ok() || !in.at_end() || (flags & ~kAllFlags) != 0 || !id.ok()) {
    return damaged();
  }
  CollectionSettings settings;
  if ((flags & kHasCodec) != 0) {
    settings.codec = CodecParams{.id = *id, .entropy = (flags & kCodecHasEntropy) != 0};
  }
  if ((flags & kHasTtl) != 0) settings.ttl_seconds = ttl_seconds;
  const bool ttl_ok = settings.ttl_seconds ? CheckTtl(ttl_seconds).ok() : ttl_seconds == 0;
  const bool codec_ok = settings.codec || (*id == CodecId::kRaw && (flags & kCodecHasEntropy) == 0);
  if (!ttl_ok || !codec_ok) return damaged();
  return settings;
}

}  // namespace quire::kvserver
