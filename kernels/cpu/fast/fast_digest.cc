// SPDX-License-Identifier: Apache-2.0
//
// Digests of kinds other than minima and maxima. Lanes are channels, and rows are added in the
// reference's order. The root of the largest square is the largest root.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernels/cpu/digest_rounding.h"
#include "kernels/cpu/fast/fast.h"
#include "kernels/cpu/simd/simd.h"

namespace quire::kernels::fast {
namespace {

/// Rows whose distances from the centre are computed together.
constexpr int64_t kTogether = 8;

/// The keys of one unit after another, and scratch for their digests.
class UnitDigester {
 public:
  explicit UnitDigester(const DigestArgs& args)
      : args_(args),
        d_(args.head_dim),
        wide_(args.dtype == DType::kF32 ? 0 : args.page_tokens * d_),
        row_(2 * d_),
        squares_(kTogether * d_),
        largest_(d_ / 2) {}

  void Digest(int64_t unit) {
    rows_ = args_.valid_rows != nullptr ? args_.valid_rows[unit] : args_.page_tokens;
    keys_ = Widened(unit);
    out_ = unit * DigestElements(args_.kind, d_);
    if (IsMean(args_.kind)) return StoreMean();
    StoreCentre();
    if (args_.kind == DigestKind::kCentreDeviation) return StoreDeviation();
    if (args_.kind == DigestKind::kCentreRadius) return StoreRadius();
    StoreDiscs();
  }

 private:
  const float* Widened(int64_t unit) {
    const char* keys = static_cast<const char*>(args_.units) +
                       unit * args_.unit_stride * ElementBytes(args_.dtype);
    if (args_.dtype == DType::kF32) return reinterpret_cast<const float*>(keys);
    simd::Widen(keys, args_.dtype, rows_ * d_, wide_.data());
    return wide_.data();
  }
  /// Address of element `first` of the digest.
  char* At(int64_t first) const {
    return static_cast<char*>(args_.digests) + (out_ + first) * ElementBytes(args_.out_dtype);
  }
  /// Stores [d] values at element `first`.
  void Store(int64_t first, const float* values) const {
    simd::Narrow(values, d_, args_.out_dtype, At(first));
  }
  void StoreRoot(int64_t element, double square) const {
    StoreRoundedUp(args_.digests, out_ + element, args_.out_dtype, std::sqrt(square));
  }

  void StoreMean() {
    float* mean = row_.data();
    simd::MeanRows(keys_, rows_, d_, mean);
    for (int64_t c = 0; c < d_; ++c) mean[c] += 0 * mean[c];  // Turns an infinity into NaN.
    Store(0, mean);
  }

  /// Stores the centre, and leaves the stored values in row_.
  void StoreCentre() {
    float* lo = row_.data();
    float* hi = lo + d_;
    simd::MinMaxRows(keys_, DType::kF32, rows_, d_, lo, hi);
    for (int64_t c = 0; c < d_; ++c) {
      const double middle = (double{lo[c]} + hi[c]) / 2;
      lo[c] = static_cast<float>(middle + 0 * middle);
    }
    Store(0, lo);
    simd::Widen(At(0), args_.out_dtype, d_, lo);
  }

  void StoreDeviation() {
    float* deviation = row_.data() + d_;
    simd::MeanDistances(keys_, rows_, d_, row_.data(), deviation);
    Store(d_, deviation);
  }

  /// Calls visit(squares, count) for each kTogether rows; the last may be fewer. `squares` are the
  /// squared distances from the centre, [count][d]. The rest of squares_ is undefined.
  template <typename Visit>
  void ForSquares(const Visit& visit) {
    for (int64_t first = 0; first < rows_; first += kTogether) {
      const int64_t count = std::min(kTogether, rows_ - first);
      simd::SquaredDistances(keys_ + first * d_, count, d_, row_.data(), squares_.data());
      visit(squares_.data(), count);
    }
  }

  /// Adds a row's squares in the order of the channels. Each row is a chain of additions, so
  /// several run together.
  void StoreRadius() {
    double largest = 0;
    ForSquares([&](const double* squares, int64_t count) {
      std::array<double, kTogether> sums{};
      for (int64_t c = 0; c < d_; ++c) {
        for (int64_t i = 0; i < kTogether; ++i) sums[i] += squares[i * d_ + c];
      }
      for (int64_t i = 0; i < count; ++i) largest = MaxOrNaN(largest, sums[i]);
    });
    StoreRoot(d_, largest);
  }

  /// Uses the pairs of PairOf: channels that lie `apart`, then neighbours.
  void StoreDiscs() {
    const int64_t apart = args_.interleaved ? 0 : args_.rotary_dim / 2;
    double* largest = largest_.data();
    std::fill_n(largest, d_ / 2, 0.0);
    ForSquares([&](const double* squares, int64_t count) {
      for (int64_t r = 0; r < count; ++r, squares += d_) {
        for (int64_t i = 0; i < apart; ++i) {
          largest[i] = MaxOrNaN(largest[i], squares[i] + squares[i + apart]);
        }
        for (int64_t i = apart; i < d_ / 2; ++i) {
          largest[i] = MaxOrNaN(largest[i], squares[2 * i] + squares[2 * i + 1]);
        }
      }
    });
    for (int64_t i = 0; i < d_ / 2; ++i) StoreRoot(d_ + i, largest[i]);
  }

  const DigestArgs& args_;
  const int64_t d_;
  int64_t rows_ = 0;
  int64_t out_ = 0;              ///< First element of the unit's digest.
  const float* keys_ = nullptr;  ///< [rows][d]: wide_, or the unit itself.
  std::vector<float> wide_;      ///< [p][d]
  std::vector<float> row_;       ///< [2][d]; the first is the stored centre.
  std::vector<double> squares_;  ///< [kTogether][d]
  std::vector<double> largest_;  ///< [d/2], one per pair.
};

}  // namespace

void DigestUnits(const DigestArgs& args) {
  UnitDigester digester(args);
  for (int64_t u = 0; u < args.n_units; ++u) digester.Digest(u);
}

}  // namespace quire::kernels::fast
