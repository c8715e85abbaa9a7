// SPDX-License-Identifier: Apache-2.0
#include "bench/transport/request_encoding.h"

#include <chrono>
#include <numeric>
#include <string>
#include <vector>

#include "bench/kit/median.h"
#include "client/recall/recall_codec.h"
#include "client/recall/worker_slots.h"
#include "common/base/random.h"
#include "quire/clock.h"

namespace quire::bench {

using namespace internal;

namespace {

constexpr uint32_t kStepLayers = 32;
constexpr uint32_t kKvHeads = 8;
constexpr uint32_t kPages = 40;  ///< Per head: 10,240 units in all.
constexpr uint64_t kSparsity = 16;
constexpr double kUnits = double{kStepLayers} * kKvHeads * kPages;

/// Every head of every layer wants about every 16th page.
std::vector<LayerWant> Wants() {
  SeededRandom random(1);
  std::vector<LayerWant> wants(kStepLayers);
  for (uint32_t layer = 0; layer < kStepLayers; ++layer) {
    wants[layer].layer = layer;
    for (uint32_t head = 0; head < kKvHeads; ++head) {
      wants[layer].pages.AppendHead();
      for (uint32_t page = 0; wants[layer].pages.Head(head).size() < kPages; ++page) {
        if (random.Below(kSparsity) == 0) wants[layer].pages.Append(page);
      }
    }
  }
  return wants;
}

}  // namespace

RequestEncoding MeasureRequestEncoding(uint32_t rounds) {
  std::vector<uint32_t> layers(kStepLayers);
  std::iota(layers.begin(), layers.end(), 0u);
  WorkerSlots map(ManagedLayers(layers), kKvHeads, kPages);
  map.AddSequence(0, kPages);
  const std::vector<LayerWant> wants = Wants();
  const std::vector<WantedLane> lanes = LanesOf(wants);
  v1::RecallRequest request;
  std::string bytes;
  std::vector<Duration> times;
  for (uint32_t round = 0; round < rounds; ++round) {
    const TimePoint start = SystemClock().Now();
    request.Clear();
    LanesToProto(lanes, map, &request);
    request.SerializeToString(&bytes);
    times.push_back(SystemClock().Now() - start);
  }
  const std::chrono::duration<double, std::micro> median = Median(std::move(times));
  return {.us_per_10k_units = median.count() * 10000 / kUnits,
          .bytes_per_unit = static_cast<double>(bytes.size()) / kUnits};
}

}  // namespace quire::bench
