// SPDX-License-Identifier: Apache-2.0
//
// Landings that the client end fills by copying, and the one check of places. The check does its
// arithmetic on numbers from the peer and never overflows.
// Thread-safety: PlainLanding is immutable; Land writes to the memory it is given.
#ifndef QUIRE_TRANSPORT_PLAIN_LANDING_H_
#define QUIRE_TRANSPORT_PLAIN_LANDING_H_

#include "quire/payload.h"
#include "quire/status.h"
#include "transport/transport.h"

namespace quire {

class PlainLanding final : public Landing {
 public:
  PlainLanding(const Transport* transport, const LandingMemory& memory)
      : transport_(transport), memory_(memory) {}
  LandingMemory memory() const override { return memory_; }
  const Transport* transport() const { return transport_; }

 private:
  const Transport* const transport_;
  const LandingMemory memory_;
};

/// INVALID_ARGUMENT unless `landing` is null or was made by the default AddLanding of `transport`.
[[nodiscard]] Status CheckPlainLanding(const Landing* landing, const Transport* transport);

/// Copies the part's payload to its places in `memory` and leaves `landed_bytes` and
/// `landed_crc32c` in its stead; a part without places stays as it is. As CheckPlaces, with nothing
/// copied then, or an error of the memory's access.
[[nodiscard]] Status Land(const LandingMemory& memory, CallMessage* part);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_PLAIN_LANDING_H_
