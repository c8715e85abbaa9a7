// SPDX-License-Identifier: Apache-2.0
#include "common/base/mapped_memory.h"

#include <fstream>
#include <limits>
#include <string>

namespace quire {

uint64_t SharedBytesMappedAt(const std::byte* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  std::ifstream maps("/proc/self/maps");
  uintptr_t begin = 0;
  uintptr_t end = 0;
  char dash = 0;
  std::string rights;
  while (maps >> std::hex >> begin >> dash >> end >> rights) {
    if (wanted >= begin && wanted < end) return rights == "rw-s" ? end - wanted : 0;
    maps.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

}  // namespace quire
