// SPDX-License-Identifier: Apache-2.0
#include "bench/codec/codec_speed.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "bench/kit/median.h"
#include "kernels/cpu/cpu_kernels.h"
#include "quire/clock.h"
#include "quire/layout.h"

namespace quire::bench {
namespace {

/// Bytes of one timing: short, so that the median ignores interrupted ones.
constexpr uint64_t kBatchBytes = 1 << 20;

/// Runs work(0), work(1), ... in turn, and appends the time of each to `times`.
template <typename Work>
void TimeEach(uint64_t batches, const Work& work, std::vector<Duration>* times) {
  for (uint64_t i = 0; i < batches; ++i) {
    const TimePoint start = SystemClock().Now();
    work(i);
    times->push_back(SystemClock().Now() - start);
  }
}

double GbPerSecond(uint64_t bytes, Duration time) {
  const double seconds = std::chrono::duration<double>(time).count();
  return seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0;
}

}  // namespace

StatusOr<CodecSpeed> MeasureCodecSpeed(const KvSpec& spec, kvserver::CodecId codec,
                                       std::span<const std::byte> units, uint32_t rounds) {
  const UnitShape shape = ShapeOf(spec);
  const uint64_t unit_bytes = UnitBytes(spec);
  const uint64_t all = units.size() / unit_bytes;
  const uint64_t batch = std::clamp<uint64_t>(kBatchBytes / unit_bytes, 1, all);
  const uint64_t batches = all / batch;
  const uint64_t batch_bytes = batch * unit_bytes;
  const uint64_t encoded_bytes = batch * UnitBytes(spec, codec);
  std::vector<std::byte> encoded(batches * encoded_bytes);
  std::vector<std::byte> decoded(units.size());
  const kernels::KernelTable& ops = kernels::CpuKernels();
  std::vector<Duration> encodes, decodes, copies;
  bool good = true;
  const auto encode = [&](uint64_t i) {
    good &= ops.encode_unit({.units = units.data() + i * batch_bytes,
                             .encoded = encoded.data() + i * encoded_bytes,
                             .encoded_bytes = static_cast<int64_t>(encoded_bytes),
                             .n_units = static_cast<int64_t>(batch),
                             .shape = shape,
                             .codec = codec}) == kernels::OpStatus::kOk;
  };
  const auto decode = [&](uint64_t i) {
    good &= ops.decode_unit({.encoded = encoded.data() + i * encoded_bytes,
                             .encoded_bytes = static_cast<int64_t>(encoded_bytes),
                             .units = decoded.data() + i * batch_bytes,
                             .n_units = static_cast<int64_t>(batch),
                             .shape = shape,
                             .codec = codec}) == kernels::OpStatus::kOk;
  };
  const auto copy = [&](uint64_t i) {
    std::memcpy(decoded.data() + i * batch_bytes, units.data() + i * batch_bytes, batch_bytes);
  };
  for (uint32_t round = 0; round < rounds; ++round) {
    TimeEach(batches, encode, &encodes);
    TimeEach(batches, decode, &decodes);
    TimeEach(batches, copy, &copies);
  }
  if (!good) return Internal("the codec ", kvserver::Name(codec), " refused units of this model");
  return CodecSpeed{.encode_gb_per_s = GbPerSecond(batch_bytes, Median(encodes)),
                    .decode_gb_per_s = GbPerSecond(batch_bytes, Median(decodes)),
                    .memcpy_gb_per_s = GbPerSecond(batch_bytes, Median(copies))};
}

}  // namespace quire::bench
