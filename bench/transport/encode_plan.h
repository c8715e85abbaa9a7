// SPDX-License-Identifier: Apache-2.0
//
// What the messages of a recall cost besides the bytes of its units: packing 10,000 wanted units
// into a request at the client, and planning their placements at the server. Pure computation.
#ifndef QUIRE_BENCH_TRANSPORT_ENCODE_PLAN_H_
#define QUIRE_BENCH_TRANSPORT_ENCODE_PLAN_H_

#include <cstdint>

#include "common/base/status.h"

namespace quire::bench {

struct EncodePlanMicros {
  double encode = 0;  ///< Wants to the bytes of the request.
  double plan = 0;    ///< Those bytes to placements, every unit missing; without reading units.
};

/// Medians over `repeats`, per 10,000 units.
StatusOr<EncodePlanMicros> MeasureEncodeAndPlan(uint32_t repeats);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_ENCODE_PLAN_H_
