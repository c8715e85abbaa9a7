// SPDX-License-Identifier: Apache-2.0
#include "bench/codec_speed.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "bench/benchmark.h"
#include "common/page/layout.h"
#include "kernels/cpu/cpu_kernels.h"

namespace quire::bench {
namespace {

/// Of one timing: short, so that the median passes over those that were interrupted.
constexpr uint64_t kBatchBytes = 1 << 20;

/// Runs `work`; its time goes to `times`.
template <typename Work>
void Time(std::vector<Duration>* times, const Work& work) {
  const TimePoint start = SystemClock().Now();
  work();
  times->push_back(SystemClock().Now() - start);
}

double GbPerSecond(uint64_t bytes, Duration time) {
  const double seconds = std::chrono::duration<double>(time).count();
  return seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0;
}

}  // namespace

StatusOr<CodecSpeed> MeasureCodecSpeed(const KvSpec& spec, kvserver::CodecId codec,
                                       std::span<const std::byte> units, uint32_t rounds) {
  const kernels::UnitShape shape = kvserver::ShapeOf(spec);
  const uint64_t unit_bytes = UnitBytes(spec);
  const uint64_t all = units.size() / unit_bytes;
  const uint64_t batch = std::clamp<uint64_t>(kBatchBytes / unit_bytes, 1, all);
  const uint64_t batch_bytes = batch * unit_bytes;
  std::vector<std::byte> encoded(batch * kvserver::EncodedUnitBytes(spec, codec));
  std::vector<std::byte> decoded(units.size());
  const kernels::KernelTable& ops = kernels::CpuKernels();
  std::vector<Duration> encodes, decodes, copies;
  bool good = true;
  for (uint64_t i = 0; i < rounds * (all / batch); ++i) {
    const uint64_t offset = i % (all / batch) * batch_bytes;
    const std::byte* const from = units.data() + offset;
    std::byte* const to = decoded.data() + offset;
    const auto n = static_cast<int64_t>(batch);
    Time(&encodes, [&] {
      good &= ops.encode_unit({.units = from,
                               .encoded = encoded.data(),
                               .encoded_bytes = std::ssize(encoded),
                               .n_units = n,
                               .shape = shape,
                               .codec = codec}) == kernels::OpStatus::kOk;
    });
    Time(&decodes, [&] {
      good &= ops.decode_unit({.encoded = encoded.data(),
                               .encoded_bytes = std::ssize(encoded),
                               .units = to,
                               .n_units = n,
                               .shape = shape,
                               .codec = codec}) == kernels::OpStatus::kOk;
    });
    Time(&copies, [&] { std::memcpy(to, from, batch_bytes); });
  }
  if (!good) return Internal("the codec ", kvserver::Name(codec), " refused units of this model");
  return CodecSpeed{.encode_gb_per_s = GbPerSecond(batch_bytes, Median(encodes)),
                    .decode_gb_per_s = GbPerSecond(batch_bytes, Median(decodes)),
                    .memcpy_gb_per_s = GbPerSecond(batch_bytes, Median(copies))};
}

}  // namespace quire::bench
