// SPDX-License-Identifier: Apache-2.0
//
// PrivateSystem: lets this program run alone in namespaces of its own, where it may make networks
// and mount disks. The kernel removes all of that with its last process, however it ends.
#ifndef QUIRE_BENCH_TORTURE_NETWORK_PRIVATE_SYSTEM_H_
#define QUIRE_BENCH_TORTURE_NETWORK_PRIVATE_SYSTEM_H_

#include <string>

#include "quire/status.h"

namespace quire::torture {

/// OK when EnterPrivateSystem works here, and bridges, limits of rate and disks in files, too.
/// FAILED_PRECONDITION with what is missing otherwise. Leaves nothing behind.
[[nodiscard]] Status MayEnterPrivateSystem();

/// Runs this program again with `mark` behind its arguments, in namespaces of its own for network,
/// mounts and processes. This process waits, and ends with the other one's exit code without
/// destructors. Returns an error, or not at all.
///
/// Every process that is started inside ends with either of the two. Nothing inside reaches the
/// network outside. FAILED_PRECONDITION without the right.
[[nodiscard]] Status EnterPrivateSystem(const std::string& mark);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_NETWORK_PRIVATE_SYSTEM_H_
