// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/low_rank_keys.h"

#include <cmath>

#include "common/base/random.h"
#include "gpuworker/retrieval/host_keys.h"

namespace quire::worker {
namespace {

constexpr int kIterations = 12;
constexpr uint64_t kSeed = 1;  ///< Of the directions that the iteration starts with.

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

/// Products of all pairs of columns, [width][width].
std::vector<float> Gram(std::span<const float> rows, size_t width) {
  std::vector<float> gram(width * width);
  for (size_t at = 0; at < rows.size(); at += width) {
    const auto row = rows.subspan(at, width);
    for (size_t i = 0; i < width; ++i) {
      const auto sums = std::span(gram).subspan(i * width, width);
      for (size_t j = 0; j < width; ++j) sums[j] += row[i] * row[j];
    }
  }
  return gram;
}

}  // namespace

LowRankKeys::LowRankKeys(std::span<const float> rows, uint32_t width, uint32_t rank)
    : width_(width), rank_(rank), basis_(size_t{rank} * width) {
  const std::vector<float> gram = Gram(rows, width);
  SeededRandom random(kSeed);
  for (float& value : basis_) value = random.Normal();
  Orthonormalise(&basis_, width);
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    std::vector<float> next(basis_.size());
    for (size_t i = 0; i < rank; ++i) {
      const auto direction = std::span(basis_).subspan(i * width, width);
      for (size_t c = 0; c < width; ++c) {
        next[i * width + c] = Dot(direction, std::span(gram).subspan(c * width, width));
      }
    }
    basis_.swap(next);
    Orthonormalise(&basis_, width);
  }
  coefficients_.reserve(rows.size() / width * rank);
  for (size_t at = 0; at < rows.size(); at += width) {
    for (size_t i = 0; i < rank; ++i) {
      coefficients_.push_back(
          Dot(rows.subspan(at, width), std::span(basis_).subspan(i * width, width)));
    }
  }
}

void LowRankKeys::Rebuild(size_t row, size_t first, std::span<float> out) const {
  for (float& value : out) value = 0;
  for (size_t i = 0; i < rank_; ++i) {
    const float coefficient = coefficients_[row * rank_ + i];
    const auto direction = std::span(basis_).subspan(i * width_ + first, out.size());
    for (size_t c = 0; c < out.size(); ++c) out[c] += coefficient * direction[c];
  }
}

}  // namespace quire::worker
