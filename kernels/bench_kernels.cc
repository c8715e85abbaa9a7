// SPDX-License-Identifier: Apache-2.0
//
// Times the fast CPU kernels at the shapes of bench_kit.h. Each runs next to its limit: memcpy of
// the same bytes, or a large matrix product. Use: quire_bench_kernels [repeats]. Every figure is a
// median; the last line is JSON, ratios first. OPENBLAS_NUM_THREADS=1 gives one thread throughout.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/testing/bench_kit.h"

namespace quire::kernels {
namespace {

using namespace bench;

// 32768 tokens: 64 MiB of K and as much V, larger than the caches.
constexpr int64_t kPages = 1024;
constexpr int64_t kRowsPerPool = kPages * kPageTokens * kKvHeads;

class Timer {
 public:
  explicit Timer(int repeats) : repeats_(repeats) {}

  /// Median seconds of each job. The jobs take turns, so that drift affects all.
  std::vector<double> Run(const std::vector<std::function<OpStatus()>>& jobs) const {
    std::vector<std::vector<double>> seconds(jobs.size());
    for (int repeat = -1; repeat < repeats_; ++repeat) {  // The first round warms up.
      for (size_t i = 0; i < jobs.size(); ++i) {
        const auto start = std::chrono::steady_clock::now();
        if (const OpStatus status = jobs[i](); status != OpStatus::kOk) {
          fprintf(stderr, "job %zu: %s\n", i, Describe(status));
          exit(1);
        }
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
        if (repeat >= 0) seconds[i].push_back(taken.count());
      }
    }
    std::vector<double> medians;
    for (std::vector<double>& list : seconds) medians.push_back(Median(std::move(list)));
    return medians;
  }

 private:
  int repeats_;
};

void BenchTranspose(const Timer& timer, Figures* report) {
  std::vector<uint16_t> k = RandomElements(kRowsPerPool * kDim), v = k, units(2 * k.size());
  const std::vector<int32_t> slots = Shuffled(kPages);
  const std::vector<UnitPlacement> places = Placements(slots);
  const size_t bytes = k.size() * sizeof(k[0]);
  const std::vector<double> s = timer.Run({
      [&] {
        memcpy(units.data(), k.data(), bytes);
        memcpy(units.data() + k.size(), v.data(), bytes);
        return OpStatus::kOk;
      },
      [&] {
        return CpuKernels().nhd_to_hnd({.k_pool = k.data(),
                                        .v_pool = v.data(),
                                        .slots = slots.data(),
                                        .units = units.data(),
                                        .num_slots = kPages,
                                        .n_pages = kPages,
                                        .page_tokens = kPageTokens,
                                        .n_kv = kKvHeads,
                                        .head_dim = kDim,
                                        .last_page_rows = kPageTokens,
                                        .dtype = DType::kBF16});
      },
      [&] {
        return CpuKernels().hnd_to_nhd({.units = units.data(),
                                        .placements = places.data(),
                                        .k_pool = k.data(),
                                        .v_pool = v.data(),
                                        .num_slots = kPages,
                                        .n_units = static_cast<int64_t>(places.size()),
                                        .page_tokens = kPageTokens,
                                        .n_kv = kKvHeads,
                                        .head_dim = kDim,
                                        .dtype = DType::kBF16});
      },
  });
  const double gigabytes = 2e-9 * static_cast<double>(bytes);
  report->Ratio("nhd_to_hnd_vs_copy", s[0] / s[1]);
  report->Ratio("hnd_to_nhd_vs_copy", s[0] / s[2]);
  report->Raw("copy_gb_s", gigabytes / s[0]);
  report->Raw("nhd_to_hnd_gb_s", gigabytes / s[1]);
  report->Raw("hnd_to_nhd_gb_s", gigabytes / s[2]);
}

/// Recalls int8 units, and raw ones with rotated keys, against memcpy of the bytes they write.
void BenchPlace(const Timer& timer, Figures* report) {
  const UnitShape shape{kPageTokens, kDim, true, DType::kBF16};
  const int64_t n = kPages * kKvHeads;
  const std::vector<uint16_t> units = RandomElements(n * shape.raw_bytes() / 2);
  std::vector<uint8_t> encoded(n * EncodedUnitBytes(UnitCodec::kInt8, shape));
  std::vector<uint16_t> k(units.size() / 2), v(k.size());
  const std::vector<UnitPlacement> places = Placements(Shuffled(kPages));
  const std::vector<int32_t> rotations(n, 0);
  const std::vector<float> angles(kDim / 2, std::sqrt(0.5f));
  const KernelTable& ops = CpuKernels();
  PlaceUnitsArgs int8{.encoded = encoded.data(),
                      .placements = places.data(),
                      .cos_table = angles.data(),
                      .sin_table = angles.data(),
                      .k_pool = k.data(),
                      .v_pool = v.data(),
                      .num_slots = kPages,
                      .n_units = n,
                      .n_kv = kKvHeads,
                      .n_rotations = 1,
                      .rotary_dim = kDim,
                      .shape = shape,
                      .codec = UnitCodec::kInt8};
  PlaceUnitsArgs rotated = int8;
  rotated.encoded = units.data();
  rotated.codec = UnitCodec::kRaw;
  rotated.rotations = rotations.data();
  const OpStatus coded = ops.encode_unit({.units = units.data(),
                                          .encoded = encoded.data(),
                                          .encoded_bytes = static_cast<int64_t>(encoded.size()),
                                          .n_units = n,
                                          .shape = shape,
                                          .codec = UnitCodec::kInt8});
  const std::vector<double> s = timer.Run({
      [&] {
        memcpy(k.data(), units.data(), 2 * k.size());
        memcpy(v.data(), units.data() + k.size(), 2 * v.size());
        return coded;
      },
      [&] { return ops.place_units(int8); },
      [&] { return ops.place_units(rotated); },
  });
  report->Ratio("convert_int8_vs_copy", s[0] / s[1]);
  report->Ratio("convert_vs_copy", s[0] / s[2]);
}

/// Digests of every kind, against memcpy of the keys.
void BenchDigest(const Timer& timer, Figures* report) {
  constexpr int64_t kUnits = kPages * kKvHeads;
  constexpr std::pair<DigestKind, const char*> kKinds[] = {
      {DigestKind::kMinMax, "min_max"},
      {DigestKind::kMean, "mean"},
      {DigestKind::kCentreDeviation, "centre_deviation"},
      {DigestKind::kCentreRadius, "centre_radius"},
      {DigestKind::kDisc, "disc"}};
  const std::vector<uint16_t> keys = RandomElements(kUnits * kPageTokens * kDim);
  std::vector<uint16_t> digests(kUnits * 2 * kDim), copy(keys.size());
  std::vector<std::function<OpStatus()>> jobs = {[&] {
    memcpy(copy.data(), keys.data(), keys.size() * sizeof(keys[0]));
    return OpStatus::kOk;
  }};
  for (const auto& [kind, name] : kKinds) {
    const DigestArgs args{.units = keys.data(),
                          .unit_stride = kPageTokens * kDim,
                          .digests = digests.data(),
                          .n_units = kUnits,
                          .page_tokens = kPageTokens,
                          .head_dim = kDim,
                          .dtype = DType::kBF16,
                          .out_dtype = DType::kBF16,
                          .kind = kind,
                          .rotary_dim = kDim};
    jobs.emplace_back([args] { return CpuKernels().digest(args); });
  }
  const std::vector<double> s = timer.Run(jobs);
  for (size_t i = 0; i < std::size(kKinds); ++i) {
    report->Ratio(std::string("digest_") + kKinds[i].second + "_vs_copy", s[0] / s[i + 1]);
  }
}

void BenchSelect(const Timer& timer, Figures* report) {
  const std::vector<uint16_t> units = RandomElements(kPages * kKvHeads * 2 * kPageTokens * kDim);
  std::vector<uint16_t> digests(kPages * kKvHeads * 2 * kDim), copy(digests.size());
  const std::vector<float> q = RandomFloats(kQueryHeads * kDim);
  std::vector<float> scores(kQueryHeads * kPages), pooled(kKvHeads * kPages);
  std::vector<float> pooled_q(kKvHeads * kDim);
  std::vector<int32_t> best(kKvHeads * kSelected);
  const KernelTable& ops = CpuKernels();
  const size_t bytes = digests.size() * sizeof(digests[0]);
  const std::vector<double> s = timer.Run({
      [&] {
        return ops.digest({.units = units.data(),
                           .unit_stride = 2 * kPageTokens * kDim,
                           .digests = digests.data(),
                           .n_units = kPages * kKvHeads,
                           .page_tokens = kPageTokens,
                           .head_dim = kDim,
                           .dtype = DType::kBF16,
                           .out_dtype = DType::kBF16});
      },
      [&] {
        memcpy(copy.data(), digests.data(), bytes);
        return OpStatus::kOk;
      },
      [&] {
        return ops.score({.q = q.data(),
                          .digests = digests.data(),
                          .scores = scores.data(),
                          .n_pages = kPages,
                          .n_q = kQueryHeads,
                          .n_kv = kKvHeads,
                          .head_dim = kDim,
                          .dtype = DType::kBF16});
      },
      [&] {
        return ops.pool({.scores = scores.data(),
                         .pooled = pooled.data(),
                         .n_q = kQueryHeads,
                         .n_kv = kKvHeads,
                         .n_pages = kPages});
      },
      [&] {
        return ops.topk({.scores = pooled.data(),
                         .indices = best.data(),
                         .n_rows = kKvHeads,
                         .n_pages = kPages,
                         .k = kSelected});
      },
      [&] {
        return ops.pool_query({.q = q.data(),
                               .pooled = pooled_q.data(),
                               .n_q = kQueryHeads,
                               .n_kv = kKvHeads,
                               .head_dim = kDim});
      },
  });
  report->Ratio("score_vs_copy", s[1] / s[2]);
  report->Raw("digest_gb_s", 1e-9 * static_cast<double>(units.size()) / s[0]);  // 2 bytes, half: K
  report->Raw("score_gb_s", 1e-9 * static_cast<double>(bytes) / s[2]);
  report->Raw("score_us", 1e6 * s[2]);
  report->Raw("pool_us", 1e6 * s[3]);
  report->Raw("topk_us", 1e6 * s[4]);
  report->Raw("pool_query_us", 1e6 * s[5]);
}

/// Ops that mainly move f32, each against memcpy of its bytes.
void BenchMoves(const Timer& timer, Figures* report) {
  constexpr int64_t kParts = 8, kSequences = 128, kRows = kSequences * kQueryHeads;
  constexpr int64_t kWidth = kQueryHeads * kDim, kTokens = 1024, kVocab = 8192;
  const std::vector<float> parts = RandomFloats(kParts * kRows * kDim);
  const std::vector<float> lse = RandomFloats(kParts * kRows);
  const std::vector<float> table(kVocab * kWidth, 1.0f);
  std::vector<int32_t> ids = Shuffled(kVocab);
  ids.resize(kTokens);
  std::vector<float> merged(kRows * kDim), copy(parts.size()), hidden(kTokens * kWidth);
  const KernelTable& ops = CpuKernels();
  const std::vector<double> s = timer.Run({
      [&] {
        memcpy(copy.data(), parts.data(), parts.size() * sizeof(parts[0]));
        return OpStatus::kOk;
      },
      [&] {
        return ops.merge_attention({.parts = parts.data(),
                                    .part_lse = lse.data(),
                                    .out = merged.data(),
                                    .n_parts = kParts,
                                    .rows = kRows,
                                    .dim = kDim});
      },
      [&] {
        return ops.add({.a = hidden.data(),
                        .b = table.data(),
                        .y = hidden.data(),
                        .n = static_cast<int64_t>(hidden.size())});
      },
      [&] {
        return ops.embed({.table = table.data(),
                          .ids = ids.data(),
                          .y = hidden.data(),
                          .rows = kTokens,
                          .vocab = kVocab,
                          .dim = kWidth});
      },
  });
  // The memcpy of `parts` reads and writes it.
  const double seconds_a_float = s[0] / 2.0 / static_cast<double>(parts.size());
  const double merge_floats = static_cast<double>(parts.size() + merged.size());
  const double hidden_floats = static_cast<double>(hidden.size());
  report->Ratio("merge_attention_vs_copy", merge_floats * seconds_a_float / s[1]);
  report->Ratio("add_vs_copy", 3 * hidden_floats * seconds_a_float / s[2]);
  report->Ratio("embed_vs_copy", 2 * hidden_floats * seconds_a_float / s[3]);
}

void BenchAttention(const Timer& timer, Figures* report) {
  constexpr int64_t kPrompt = 1024, kSide = 1024;
  const std::vector<uint16_t> k = RandomElements(kRowsPerPool * kDim), v = k;
  std::vector<int32_t> slots = Shuffled(kPages);
  slots.resize(kBudgetSlots);
  const std::vector<int32_t> valid(kKvHeads * kBudgetSlots, kPageTokens);
  const std::vector<float> q = RandomFloats(kPrompt * kQueryHeads * kDim);
  const std::vector<float> keys = RandomFloats(kPrompt * kKvHeads * kDim);
  const std::vector<float> square = RandomFloats(kSide * kSide);
  std::vector<float> out(q.size());
  std::vector<uint16_t> copy(2 * kBudgetSlots * kPageTokens * kKvHeads * kDim);
  const KernelTable& ops = CpuKernels();
  const std::vector<double> s = timer.Run({
      [&] {
        return ops.paged_attention({.q = q.data(),
                                    .k_pool = k.data(),
                                    .v_pool = v.data(),
                                    .slots = slots.data(),
                                    .valid_tokens = valid.data(),
                                    .out = out.data(),
                                    .num_slots = kPages,
                                    .n_slots = kBudgetSlots,
                                    .page_tokens = kPageTokens,
                                    .n_q = kQueryHeads,
                                    .n_kv = kKvHeads,
                                    .head_dim = kDim,
                                    .scale = kScale,
                                    .dtype = DType::kBF16});
      },
      [&] {
        return ops.dense_attention({.q = q.data(),
                                    .k = keys.data(),
                                    .v = keys.data(),
                                    .out = out.data(),
                                    .t = kPrompt,
                                    .n = kPrompt,
                                    .n_q = kQueryHeads,
                                    .n_kv = kKvHeads,
                                    .head_dim = kDim,
                                    .scale = kScale});
      },
      [&] {
        return ops.matmul({.x = square.data(),
                           .weight = square.data(),
                           .y = out.data(),
                           .rows = kSide,
                           .in = kSide,
                           .out = kSide});
      },
      [&] {
        return ops.matmul({.x = q.data(),
                           .weight = q.data(),
                           .y = out.data(),
                           .rows = 1,
                           .in = kQueryHeads * kDim,
                           .out = kPrompt});
      },
      [&] {
        const size_t each = copy.size() / 2;
        memcpy(copy.data(), k.data(), 2 * each);
        memcpy(copy.data() + each, v.data(), 2 * each);
        return OpStatus::kOk;
      },
  });
  // Causal: half of 4 * n^2 * d * heads operations.
  const double dense_flops = 2.0 * kPrompt * kPrompt * kDim * kQueryHeads;
  const double gemm_flops = 2.0 * kSide * kSide * kSide;
  const auto kv_bytes = static_cast<double>(KvBytes(kBudgetSlots));
  report->Ratio("dense_attention_vs_matmul", dense_flops / s[1] / (gemm_flops / s[2]));
  report->Ratio("attention_vs_copy", s[4] / s[0]);
  report->Raw("dense_attention_gflop_s", 1e-9 * dense_flops / s[1]);
  report->Raw("matmul_gflop_s", 1e-9 * gemm_flops / s[2]);
  report->Raw("matmul_one_row_gb_s", 1e-9 * 4.0 * kQueryHeads * kDim * kPrompt / s[3]);
  report->Raw("attention_gb_s", 1e-9 * kv_bytes / s[0]);
  report->Raw("attention_us", 1e6 * s[0]);
}

}  // namespace
}  // namespace quire::kernels

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::max(1, atoi(argv[1])) : 9;
  const quire::kernels::Timer timer(repeats);
  quire::kernels::bench::Figures report;
  quire::kernels::BenchTranspose(timer, &report);
  quire::kernels::BenchPlace(timer, &report);
  quire::kernels::BenchDigest(timer, &report);
  quire::kernels::BenchSelect(timer, &report);
  quire::kernels::BenchAttention(timer, &report);
  quire::kernels::BenchMoves(timer, &report);
  report.Print("\"pages\":" + std::to_string(quire::kernels::kPages) + ",\"repeats\":" +
               std::to_string(repeats) + ",\"simd\":\"" + quire::kernels::simd::TargetName() +
               "\",\"gemm\":\"" + quire::kernels::GemmName() + "\"");
  return 0;
}
