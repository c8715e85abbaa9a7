// SPDX-License-Identifier: Apache-2.0
//
// The text of mooncake_rival.py, built in so that the program runs from anywhere.
#ifndef QUIRE_BENCH_TRANSPORT_MOONCAKE_SCRIPT_H_
#define QUIRE_BENCH_TRANSPORT_MOONCAKE_SCRIPT_H_

namespace quire::bench {

extern const char* const kMooncakeScript;

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_MOONCAKE_SCRIPT_H_
