// SPDX-License-Identifier: Apache-2.0
#include "client/session_landing.h"

#include <utility>

#include "common/wire/limits.h"

namespace quire {

using namespace internal;

SessionLanding::SessionLanding(const internal::SessionState* session,
                               std::shared_ptr<Transport> transport, const WorkerSlots& shape,
                               uint64_t unit_bytes, uint32_t num_sequences, LandingUse use)
    : session_(session),
      transport_(std::move(transport)),
      layers_(shape.layers()),
      num_heads_(shape.num_heads()),
      slots_per_head_(shape.slots_per_head()),
      unit_bytes_(unit_bytes),
      num_sequences_(num_sequences),
      use_(use) {}

StatusOr<std::unique_ptr<SessionLanding>> SessionLanding::Create(
    const internal::SessionState* session, std::shared_ptr<Transport> transport,
    const WorkerSlots& shape, uint64_t unit_bytes, uint32_t num_sequences, LandingMemory memory,
    LandingUse use) {
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
  const uint64_t bytes = units * unit_bytes;
  if (use == LandingUse::kStaging && !memory.is_host()) {
    return InvalidArgument(
        "a staging area behind an access: units are read where they land; stage in the host's "
        "memory, or land in slots");
  }
  if (memory.bytes.empty() && !memory.is_host()) {
    return InvalidArgument(
        "a landing behind an access, but without memory: only the host's is "
        "allocated here, so allocate ",
        bytes, " bytes of the device's");
  }
  if (!memory.bytes.empty() && memory.bytes.size() < bytes) {
    return InvalidArgument("a landing for ", num_sequences, " sequences takes ", bytes,
                           " bytes; the memory has ", memory.bytes.size());
  }
  auto landing = std::unique_ptr<SessionLanding>(
      new SessionLanding(session, std::move(transport), shape, unit_bytes, num_sequences, use));
  if (memory.bytes.empty()) {
    QUIRE_ASSIGN_OR_RETURN(landing->owned_, landing->transport_->AllocateLandingMemory(bytes));
    memory.bytes = landing->owned_.bytes;
  }
  landing->memory_ = {memory.bytes.first(bytes), memory.access};
  QUIRE_RETURN_IF_ERROR(landing->Register());
  return landing;
}

Status SessionLanding::Register() {
  const TransportCapabilities can = transport_->capabilities();
  // What arrives for a device is checked first, which saves the copy that a landing would take; and
  // what is not to stay is read where it arrives.
  const bool stays_here = memory_.is_host() && use_ == LandingUse::kSlots;
  if (!can.direct_landing && !(can.lands_on_arrival && stays_here)) return OkStatus();
  auto landing = transport_->AddLanding(memory_);
  if (!memory_.is_host() && IsUnimplemented(landing.status())) {
    why_not_direct_ = landing.status();
    return OkStatus();
  }
  QUIRE_RETURN_IF_ERROR(landing.status());
  direct_->Begin(*std::move(landing));
  return OkStatus();
}

}  // namespace quire
