// SPDX-License-Identifier: Apache-2.0
#include "client/recall/landing_area.h"

#include <utility>

#include "common/wire/limits.h"

namespace quire::internal {

LandingArea::LandingArea(const SessionState* session, std::shared_ptr<Transport> transport,
                         const WorkerSlots& shape, uint64_t unit_bytes, uint32_t num_sequences)
    : session_(session),
      transport_(std::move(transport)),
      layers_(shape.layers()),
      num_heads_(shape.num_heads()),
      slots_per_head_(shape.slots_per_head()),
      unit_bytes_(unit_bytes),
      num_sequences_(num_sequences) {}

StatusOr<std::unique_ptr<LandingArea>> LandingArea::Create(const SessionState* session,
                                                           std::shared_ptr<Transport> transport,
                                                           const WorkerSlots& shape,
                                                           uint64_t unit_bytes,
                                                           uint32_t num_sequences) {
  if (num_sequences == 0 || num_sequences > wire::kMaxSequences) {
    return InvalidArgument("a landing for ", num_sequences, " sequences; it must be 1 to ",
                           wire::kMaxSequences);
  }
  // Below 2^44: 2^8 sequences, 2^10 layers, 2^10 heads, 2^16 slots.
  const uint64_t units =
      uint64_t{num_sequences} * shape.layers().size() * shape.num_heads() * shape.slots_per_head();
  if (units > wire::kMaxLandingBytes / unit_bytes) {
    return InvalidArgument("a landing of ", units, " units of ", unit_bytes, " bytes; it may have ",
                           wire::kMaxLandingBytes, " bytes at most");
  }
  auto landing = std::unique_ptr<LandingArea>(
      new LandingArea(session, std::move(transport), shape, unit_bytes, num_sequences));
  QUIRE_ASSIGN_OR_RETURN(landing->memory_,
                         landing->transport_->AllocateLandingMemory(units * unit_bytes));
  landing->memory_.bytes = landing->memory_.bytes.first(units * unit_bytes);
  if (!landing->transport_->capabilities().direct_landing) return landing;
  QUIRE_ASSIGN_OR_RETURN(auto registered, landing->transport_->AddLanding(landing->bytes()));
  landing->direct_->Begin(std::move(registered));
  return landing;
}

}  // namespace quire::internal
