// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/keys/low_rank_keys.h"

#include <cmath>

#include "common/base/random.h"
#include "gpuworker/retrieval/keys/host_keys.h"
#include "kernels/cpu/cpu_kernels.h"

namespace quire::worker {
namespace {

constexpr int kIterations = 12;
constexpr uint64_t kSeed = 1;  ///< Seeds the first directions.

/// Makes the rows of `basis`, [rank][width], orthonormal, one after the other. Rows that depend on
/// those before become zero.
void Orthonormalise(std::vector<float>* basis, size_t width) {
  const auto row = [&](size_t i) { return std::span(*basis).subspan(i * width, width); };
  for (size_t i = 0; i < basis->size() / width; ++i) {
    const float before = std::sqrt(Dot(row(i), row(i)));
    for (size_t j = 0; j < i; ++j) {
      const float along = Dot(row(i), row(j));
      for (size_t c = 0; c < width; ++c) row(i)[c] -= along * row(j)[c];
    }
    const float length = std::sqrt(Dot(row(i), row(i)));
    const float scale = length > 1e-5f * before ? 1 / length : 0;
    for (float& value : row(i)) value *= scale;
  }
}

/// Products of all pairs of columns, [width][width]. Rows that are no numbers are left out: they
/// would leave no other a number.
std::vector<float> Gram(std::span<const float> rows, size_t width) {
  std::vector<float> gram(width * width);
  for (size_t at = 0; at < rows.size(); at += width) {
    const auto row = rows.subspan(at, width);
    if (!std::isfinite(Dot(row, row))) continue;
    for (size_t i = 0; i < width; ++i) {
      const auto sums = std::span(gram).subspan(i * width, width);
      for (size_t j = 0; j < width; ++j) sums[j] += row[i] * row[j];
    }
  }
  return gram;
}

}  // namespace

LowRankKeys::LowRankKeys(std::span<const float> rows, uint32_t width, uint32_t rank)
    : rank_(rank), basis_(size_t{rank} * width) {
  const std::vector<float> gram = Gram(rows, width);
  SeededRandom random(kSeed);
  std::vector<float> directions(basis_.size());  // [rank][width]
  for (float& value : directions) value = random.Normal();
  Orthonormalise(&directions, width);
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    std::vector<float> next(directions.size());
    for (size_t i = 0; i < rank; ++i) {
      const auto direction = std::span(directions).subspan(i * width, width);
      for (size_t c = 0; c < width; ++c) {
        next[i * width + c] = Dot(direction, std::span(gram).subspan(c * width, width));
      }
    }
    directions.swap(next);
    Orthonormalise(&directions, width);
  }
  coefficients_.reserve(rows.size() / width * rank);
  for (size_t at = 0; at < rows.size(); at += width) {
    for (size_t i = 0; i < rank; ++i) {
      coefficients_.push_back(
          Dot(rows.subspan(at, width), std::span(directions).subspan(i * width, width)));
    }
  }
  for (size_t i = 0; i < rank; ++i) {
    for (size_t c = 0; c < width; ++c) basis_[c * rank + i] = directions[i * width + c];
  }
}

void LowRankKeys::Rebuild(size_t first_row, size_t first_channel, size_t channels,
                          std::span<float> out) const {
  // Valid shapes, so it does not fail.
  (void)kernels::CpuKernels().matmul({.x = coefficients_.data() + first_row * rank_,
                                      .weight = basis_.data() + first_channel * rank_,
                                      .y = out.data(),
                                      .rows = static_cast<int64_t>(out.size() / channels),
                                      .in = static_cast<int64_t>(rank_),
                                      .out = static_cast<int64_t>(channels)});
}

}  // namespace quire::worker
