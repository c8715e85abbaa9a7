// SPDX-License-Identifier: Apache-2.0
//
// What the kernel tells of the machine and of this process.
#ifndef QUIRE_BENCH_KIT_MACHINE_FACTS_H_
#define QUIRE_BENCH_KIT_MACHINE_FACTS_H_

#include <cstdint>

namespace quire::bench {

/// Bytes of the last level cache; 0 where the kernel does not tell.
[[nodiscard]] uint64_t LastLevelCacheBytes();
/// Bytes of memory that can be had without swapping; 0 where the kernel does not tell.
[[nodiscard]] uint64_t AvailableMemoryBytes();

/// What this process, all threads together, had the storage devices move so far. Zeros where the
/// kernel does not tell.
struct DeviceBytes {
  uint64_t read = 0;
  uint64_t written = 0;

  DeviceBytes operator-(const DeviceBytes& before) const {
    return {read - before.read, written - before.written};
  }
  DeviceBytes& operator+=(const DeviceBytes& more) {
    read += more.read;
    written += more.written;
    return *this;
  }
};
[[nodiscard]] DeviceBytes ProcessDeviceBytes();

}  // namespace quire::bench

#endif  // QUIRE_BENCH_KIT_MACHINE_FACTS_H_
