// SPDX-License-Identifier: Apache-2.0
#include "transport/plain_landing.h"

#include "common/base/unit_copy.h"

namespace quire {

Status CheckPlainLanding(const Landing* landing, const Transport* transport) {
  if (landing == nullptr) return OkStatus();
  const auto* const plain = dynamic_cast<const PlainLanding*>(landing);
  if (plain != nullptr && plain->transport() == transport) return OkStatus();
  return InvalidArgument("the landing was made by another transport: use AddLanding of this one");
}

Status Land(const LandingMemory& memory, CallMessage* part) {
  if (part->places.empty()) return OkStatus();
  QUIRE_RETURN_IF_ERROR(CheckPlaces(part->payload, part->places, memory.bytes.size()));
  QUIRE_ASSIGN_OR_RETURN(part->landed_crc32c, CopyToLanding(part->payload, part->places, memory));
  part->landed_bytes += part->payload.size_bytes();
  part->payload = {};
  return OkStatus();
}

}  // namespace quire
