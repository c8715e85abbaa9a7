// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/memory_scale.h"

#include <malloc.h>

#include <memory>

#include "cluster/placement/placement.h"
#include "common/base/random.h"
#include "kvserver/store/policy/eviction/lru.h"
#include "kvserver/store/policy/segment_lives.h"

namespace quire::scale {
namespace {

uint64_t HeapBytes() {
  const struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

/// Fills the bookkeeping of a store with chains that documents name.
void AddDocuments(const ScaleOptions& options, uint64_t segments, kvserver::SegmentLives* lives) {
  SeededRandom random(1);
  SegmentKey parent = kRootKey;
  for (uint64_t i = 0; i < segments; ++i) {
    if (i % options.segments_per_document == 0) parent = kRootKey;
    kvserver::StoredSegment segment{.tenant = "default",
                                    .parent = parent,
                                    .bytes = options.segment_bytes,
                                    .incarnation = lives->NextIncarnation(0),
                                    .seconds_per_token = 0.001};
    random.Fill(segment.key.bytes);
    lives->Add(segment, {});
    (void)lives->Name(segment.key);  // It was just added.
    parent = segment.key;
  }
}

}  // namespace

MemoryScale MeasureMemory(const ScaleOptions& options) {
  MemoryScale memory{.sampled_segments = options.sampled_segments};
  {
    const uint64_t before = HeapBytes();
    const cluster::Placement placement(
        std::make_shared<const cluster::ClusterView>(ViewOfNodes(options, 0, options.nodes)));
    memory.view_bytes = HeapBytes() - before;
  }
  const uint64_t before = HeapBytes();
  kvserver::SegmentLives lives(std::make_unique<kvserver::Lru>());
  AddDocuments(options, memory.sampled_segments, &lives);
  memory.sampled_bytes = HeapBytes() - before;
  return memory;
}

}  // namespace quire::scale
