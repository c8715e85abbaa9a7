// SPDX-License-Identifier: Apache-2.0
#include "bench/kit/machine_facts.h"

#include <malloc.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>

namespace quire::bench {
namespace {

/// Parses a line "NAME:  1234 kB" of a process's status into bytes; 0 if missing.
uint64_t StatusBytes(const std::string& process, const std::string& name) {
  std::ifstream file("/proc/" + process + "/status");
  for (std::string word; file >> word;) {
    uint64_t kibibytes = 0;
    if (word == name + ":" && file >> kibibytes) return kibibytes << 10;
  }
  return 0;
}

}  // namespace

uint64_t HeldMemoryBytes(pid_t pid) {
  const std::string process = std::to_string(pid);
  return StatusBytes(process, "RssAnon") + StatusBytes(process, "RssShmem");
}

uint64_t OwnMemoryBytes() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
  return StatusBytes("self", "RssAnon");
}

uint64_t LastLevelCacheBytes() {
  uint64_t largest = 0;
  for (int index = 0;; ++index) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) +
                       "/size");
    uint64_t size = 0;
    char unit = 0;
    if (!(file >> size)) return largest;
    file >> unit;
    largest = std::max(largest, size << (unit == 'M' ? 20 : unit == 'K' ? 10 : 0));
  }
}

uint64_t AvailableMemoryBytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    uint64_t kibibytes = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %" SCNu64 " kB", &kibibytes) == 1) {
      return kibibytes << 10;
    }
  }
  return 0;
}

DeviceBytes ProcessDeviceBytes() {
  std::ifstream file("/proc/self/io");
  DeviceBytes bytes;
  std::string name;
  for (uint64_t value = 0; file >> name >> value;) {
    if (name == "read_bytes:") bytes.read = value;
    if (name == "write_bytes:") bytes.written = value;
  }
  return bytes;
}

}  // namespace quire::bench
