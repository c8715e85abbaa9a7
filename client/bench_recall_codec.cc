// SPDX-License-Identifier: Apache-2.0
//
// Times what a session does to a recall of 10,000 units (64 layers of 8 heads) besides waiting:
// writing the request, and checking a reply that brings every unit, with the checksums of the units
// alone beside it. Use: quire_bench_recall_codec [repeats]. Every figure is a median in
// microseconds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "client/recall_codec.h"
#include "client/validate.h"
#include "common/base/checksum.h"
#include "common/base/random.h"
#include "common/page/layout.h"
#include "common/wire/lane_records.h"

namespace quire {
namespace {

constexpr uint32_t kLayers = 64;
constexpr uint32_t kHeads = 8;
constexpr uint32_t kPages = 20;  ///< Of each head: 10,240 units.

/// Median microseconds of `job`.
double Median(int repeats, const std::function<void()>& job) {
  std::vector<double> micros;
  for (int repeat = -1; repeat < repeats; ++repeat) {  // The first round warms up.
    const auto start = std::chrono::steady_clock::now();
    job();
    const std::chrono::duration<double, std::micro> taken =
        std::chrono::steady_clock::now() - start;
    if (repeat >= 0) micros.push_back(taken.count());
  }
  std::nth_element(micros.begin(), micros.begin() + repeats / 2, micros.end());
  return micros[static_cast<size_t>(repeats / 2)];
}

/// Small units, so that the checksums do not hide the rest.
KvSpec BenchSpec() {
  KvSpec spec;
  spec.num_layers = kLayers;
  spec.num_query_heads = kHeads;
  spec.num_kv_heads = kHeads;
  spec.head_dim = 8;
  spec.page_tokens = 4;
  spec.rope.rotary_dim = 8;
  return spec;
}

std::vector<LayerWant> Wants() {
  SeededRandom random(1);
  std::vector<LayerWant> wants;
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    LayerWant& want = wants.emplace_back();
    want.layer = layer;
    for (uint32_t head = 0; head < kHeads; ++head) {
      want.pages.AppendHead();
      for (uint32_t page = 0; want.pages.Head(head).size() < kPages; ++page) {
        if (random.Below(16) == 0) want.pages.Append(page);
      }
    }
  }
  return wants;
}

/// Every wanted page into the slot of its rank.
v1::RecallReply ReplyTo(const std::vector<LayerWant>& wants, uint32_t crc) {
  v1::RecallReply reply;
  reply.set_exchange(1);
  reply.set_epoch(1);
  wire::LaneUnits units;
  units.Resize(size_t{kHeads} * kPages);
  for (size_t i = 0; i < units.size(); ++i) units.slots[i] = static_cast<uint32_t>(i % kPages);
  std::fill(units.generations.begin(), units.generations.end(), 1);
  std::fill(units.replaced.begin(), units.replaced.end(), -1);
  std::fill(units.crc32c.begin(), units.crc32c.end(), crc);
  for (const LayerWant& want : wants) {
    v1::LanePlacement& lane = *reply.add_lanes();
    lane.set_layer(want.layer);
    for (uint32_t head = 0; head < kHeads; ++head) lane.add_counts(kPages);
    units.pages.assign(want.pages.pages().begin(), want.pages.pages().end());
    wire::EncodeLaneUnits(units, lane.mutable_units());
  }
  return reply;
}

void Run(int repeats) {
  const KvSpec spec = BenchSpec();
  std::vector<uint32_t> layers(kLayers);
  for (uint32_t layer = 0; layer < kLayers; ++layer) layers[layer] = layer;
  ResidentMap map(ManagedLayers(layers), kHeads, kPages);
  map.AddSequence(0);
  const std::vector<LayerWant> wants = Wants();
  const std::vector<WantedLane> lanes = LanesOf(wants);

  v1::RecallRequest request;
  std::string bytes;
  const double write = Median(repeats, [&] {
    request.Clear();
    LanesToProto(lanes, map, DType::kF32, &request);
    if (!request.SerializeToString(&bytes)) std::abort();
  });

  const std::vector<std::byte> unit(UnitBytes(spec), std::byte{7});
  CallMessage body;
  body.control = ReplyTo(wants, Crc32c(unit)).SerializeAsString();
  const size_t units = size_t{kLayers} * kHeads * kPages;
  body.payload.Append(std::vector<std::byte>(units * unit.size(), std::byte{7}));
  const double read = Median(repeats, [&] {
    v1::RecallReply reply;
    if (!reply.ParseFromString(body.control)) std::abort();
    const auto part =
        PartFromProto(reply, {.control = {}, .payload = body.payload},
                      {.epoch = 1, .exchange = 1, .lanes = lanes, .spec = &spec, .map = &map});
    if (!part.ok() || part->placements.size() != units) std::abort();
  });
  const std::vector<uint32_t> checksums(units, Crc32c(unit));
  const double check = Median(repeats, [&] {
    if (!CheckUnits(body.payload, units, unit.size(), checksums).ok()) std::abort();
  });
  std::printf(
      "%zu units: request %.1f us (%zu bytes), reply %.1f us, its checksums alone %.1f us\n", units,
      write, bytes.size(), read, check);
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  quire::Run(argc > 1 ? std::max(1, std::atoi(argv[1])) : 201);
  return 0;
}
