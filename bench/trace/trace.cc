// SPDX-License-Identifier: Apache-2.0
#include "bench/trace/trace.h"

#include <unordered_map>
#include <unordered_set>

namespace quire::bench {

uint64_t DistinctBytes(const Trace& trace) {
  std::unordered_map<uint32_t, std::unordered_set<uint64_t>> ids_of_tenant;
  uint64_t bytes = 0;
  for (const TraceRequest& request : trace.requests) {
    auto& ids = ids_of_tenant[request.tenant];
    for (const TraceBlock& block : request.blocks) {
      if (ids.insert(block.id).second) bytes += block.bytes;
    }
  }
  return bytes;
}

}  // namespace quire::bench
