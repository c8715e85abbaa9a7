// SPDX-License-Identifier: Apache-2.0
//
// Facts that the kernel reports about the machine and this process.
#ifndef QUIRE_BENCH_KIT_MACHINE_FACTS_H_
#define QUIRE_BENCH_KIT_MACHINE_FACTS_H_

#include <sys/types.h>

#include <cstdint>

namespace quire::bench {

/// Bytes of the last level cache; 0 if unknown.
[[nodiscard]] uint64_t LastLevelCacheBytes();
/// Bytes of memory available without swapping; 0 if unknown.
[[nodiscard]] uint64_t AvailableMemoryBytes();

/// Bytes of memory that process `pid` holds itself: private and shared, without files. 0 if
/// unknown.
[[nodiscard]] uint64_t HeldMemoryBytes(pid_t pid);
/// The private part of this process, once its heap has given back what is free.
[[nodiscard]] uint64_t OwnMemoryBytes();

/// Bytes that this process, with all its threads, has moved to and from storage devices. Zeros if
/// unknown.
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
