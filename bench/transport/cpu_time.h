// SPDX-License-Identifier: Apache-2.0
//
// CpuTime: processor time of processes, by the kernel's clock of each. Thread-safety: pure
// function.
#ifndef QUIRE_BENCH_TRANSPORT_CPU_TIME_H_
#define QUIRE_BENCH_TRANSPORT_CPU_TIME_H_

#include <sys/types.h>

#include <span>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace quire::bench {

/// Sum of the CPU time, user and system, of this process and `others`, each since its start.
/// UNAVAILABLE if one of them has ended.
StatusOr<Duration> CpuTime(std::span<const pid_t> others);

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_CPU_TIME_H_
