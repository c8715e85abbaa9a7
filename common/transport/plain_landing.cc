// SPDX-License-Identifier: Apache-2.0
#include "common/transport/plain_landing.h"

#include "common/base/unit_copy.h"

namespace quire {

Status CheckPlainLanding(const Landing* landing, const Transport* transport) {
  if (landing == nullptr) return OkStatus();
  const auto* const plain = dynamic_cast<const PlainLanding*>(landing);
  if (plain != nullptr && plain->transport() == transport) return OkStatus();
  return InvalidArgument("the landing was made by another transport: use AddLanding of this one");
}

Status CheckPlaces(const Payload& payload, const std::vector<uint64_t>& places,
                   uint64_t landing_bytes) {
  const std::vector<Slice>& slices = payload.slices();
  if (places.size() != slices.size()) {
    return InvalidArgument("the part has ", places.size(), " places for ", slices.size(),
                           " slices: each slice needs one");
  }
  for (size_t i = 0; i < slices.size(); ++i) {
    const uint64_t size = slices[i].bytes.size();
    if (places[i] <= landing_bytes && size <= landing_bytes - places[i]) continue;
    return InvalidArgument("slice ", i, " of ", size, " bytes at ", places[i],
                           " is outside the landing of ", landing_bytes, " bytes");
  }
  return OkStatus();
}

Status Land(std::span<std::byte> memory, CallMessage* part) {
  if (part->places.empty()) return OkStatus();
  QUIRE_RETURN_IF_ERROR(CheckPlaces(part->payload, part->places, memory.size()));
  const std::vector<Slice>& slices = part->payload.slices();
  part->landed_crc32c.reserve(slices.size());
  for (size_t i = 0; i < slices.size(); ++i) {
    const bool more = i + 1 < slices.size() && slices[i + 1].bytes.size() >= slices[i].bytes.size();
    part->landed_crc32c.push_back(CopyWithCrc32c(slices[i].bytes, memory.data() + part->places[i],
                                                 more ? slices[i + 1].bytes.data() : nullptr));
  }
  part->landed_bytes += part->payload.size_bytes();
  part->payload = {};
  return OkStatus();
}

}  // namespace quire
