// SPDX-License-Identifier: Apache-2.0
//
// The quality loss of a codec: the error of its numbers, and questions no longer answered. Plain
// arithmetic.
#ifndef QUIRE_BENCH_CODEC_CODEC_QUALITY_H_
#define QUIRE_BENCH_CODEC_CODEC_QUALITY_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace quire::bench {

/// Error of decoded numbers against the original ones.
class ErrorSum {
 public:
  void Add(double original, double decoded) {
    const double error = decoded - original;
    largest_ = std::max(largest_, std::abs(error));
    squared_error_ += error * error;
    squared_ += original * original;
  }
  double max_error() const { return largest_; }
  /// Root mean square of the error relative to that of the originals; 0 if those are all zero.
  double relative_error() const { return squared_ > 0 ? std::sqrt(squared_error_ / squared_) : 0; }

 private:
  double largest_ = 0;
  double squared_error_ = 0;
  double squared_ = 0;
};

/// True for each question answered correctly, in the order asked.
using Verdicts = std::vector<bool>;

/// Number of questions answered correctly in `before` and not in `after`. REQUIRES: the same
/// questions.
inline size_t LostAnswers(const Verdicts& before, const Verdicts& after) {
  size_t lost = 0;
  for (size_t i = 0; i < before.size(); ++i) lost += before[i] && !after[i] ? 1 : 0;
  return lost;
}

/// part / whole; 0 if both are 0.
inline double Fraction(size_t part, size_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace quire::bench

#endif  // QUIRE_BENCH_CODEC_CODEC_QUALITY_H_
