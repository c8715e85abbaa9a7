// SPDX-License-Identifier: Apache-2.0
//
// Request encoding: the time of the client to pack 10,000 wanted units into the bytes of a recall.
// Every KV head of every layer wants different pages.
#ifndef QUIRE_BENCH_TRANSPORT_REQUEST_ENCODING_H_
#define QUIRE_BENCH_TRANSPORT_REQUEST_ENCODING_H_

#include <cstdint>

namespace quire::bench {

struct RequestEncoding {
  double us_per_10k_units = 0;  ///< The median over the rounds.
  double bytes_per_unit = 0;
};

/// REQUIRES: rounds >= 1.
RequestEncoding MeasureRequestEncoding(uint32_t rounds);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_REQUEST_ENCODING_H_
