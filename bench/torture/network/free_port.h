// SPDX-License-Identifier: Apache-2.0
//
// FreePort: a port for a program that cannot choose one and say which.
#ifndef QUIRE_BENCH_TORTURE_NETWORK_FREE_PORT_H_
#define QUIRE_BENCH_TORTURE_NETWORK_FREE_PORT_H_

#include <cstdint>

#include "quire/status.h"

namespace quire::torture {

/// A port that nothing listens on now, on no address of this network namespace. It is below those
/// that the system gives out, so that no program gets it by chance later. UNAVAILABLE when 100
/// random ones are taken.
StatusOr<uint16_t> FreePort();

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_NETWORK_FREE_PORT_H_
