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
  const auto n = static_cast<int64_t>(units.size() / UnitBytes(spec));
  std::vector<std::byte> encoded(n * kernels::EncodedUnitBytes(codec, shape));
  std::vector<std::byte> decoded(units.size());
  const kernels::EncodeUnitArgs encode{.units = units.data(),
                                       .encoded = encoded.data(),
                                       .encoded_bytes = std::ssize(encoded),
                                       .n_units = n,
                                       .shape = shape,
                                       .codec = codec};
  const kernels::DecodeUnitArgs decode{.encoded = encoded.data(),
                                       .encoded_bytes = std::ssize(encoded),
                                       .units = decoded.data(),
                                       .n_units = n,
                                       .shape = shape,
                                       .codec = codec};
  const kernels::KernelTable& ops = kernels::CpuKernels();
  std::vector<Duration> encodes, decodes, copies;
  bool good = true;
  for (uint32_t round = 0; round < std::max(rounds, 1u); ++round) {
    Time(&encodes, [&] { good &= ops.encode_unit(encode) == kernels::OpStatus::kOk; });
    Time(&decodes, [&] { good &= ops.decode_unit(decode) == kernels::OpStatus::kOk; });
    Time(&copies, [&] { std::memcpy(decoded.data(), units.data(), units.size()); });
  }
  if (!good) return Internal("the codec ", kvserver::Name(codec), " refused units of this model");
  return CodecSpeed{.encode_gb_per_s = GbPerSecond(units.size(), Median(encodes)),
                    .decode_gb_per_s = GbPerSecond(units.size(), Median(decodes)),
                    .memcpy_gb_per_s = GbPerSecond(units.size(), Median(copies))};
}

}  // namespace quire::bench
