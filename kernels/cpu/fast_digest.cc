// SPDX-License-Identifier: Apache-2.0
//
// Digests of other kinds than minima and maxima: the keys of a unit are widened once, and every
// channel's sum runs over the rows in the reference's order, beside those of the other channels.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/digest_rounding.h"
#include "kernels/cpu/fast.h"
#include "kernels/cpu/score_terms.h"
#include "kernels/cpu/simd.h"

namespace quire::kernels::fast {
namespace {

/// The keys of one unit after another, and room for what is computed of them.
class UnitDigester {
 public:
  explicit UnitDigester(const DigestArgs& args)
      : args_(args),
        d_(args.head_dim),
        keys_(static_cast<size_t>(args.page_tokens * d_)),
        row_(static_cast<size_t>(2 * d_)),
        sums_(static_cast<size_t>(std::max(d_, args.page_tokens))) {}

  void Digest(int64_t unit) {
    rows_ = args_.valid_rows != nullptr ? args_.valid_rows[unit] : args_.page_tokens;
    const auto* units = static_cast<const char*>(args_.units);
    simd::Widen(units + unit * args_.unit_stride * ElementBytes(args_.dtype), args_.dtype,
                rows_ * d_, keys_.data());
    out_ = unit * DigestElements(args_.kind, d_);
    if (args_.kind == DigestKind::kMean) return StoreMean();
    StoreCentre();
    if (args_.kind == DigestKind::kCentreDeviation) return StoreDeviation();
    if (args_.kind == DigestKind::kCentreRadius) return StoreRadius();
    StoreDiscs();
  }

 private:
  const float* Row(int64_t r) const { return keys_.data() + r * d_; }
  /// [d] at element `first` of the digest.
  void Store(int64_t first, const float* values) {
    const int64_t bytes = ElementBytes(args_.out_dtype);
    simd::Narrow(values, d_, args_.out_dtype,
                 static_cast<char*>(args_.digests) + (out_ + first) * bytes);
  }

  void StoreMean() {
    std::fill(sums_.begin(), sums_.end(), 0.0);
    for (int64_t r = 0; r < rows_; ++r) {
      const float* const row = Row(r);
      for (int64_t c = 0; c < d_; ++c) sums_[c] += row[c];
    }
    const auto rows = static_cast<double>(rows_);
    for (int64_t c = 0; c < d_; ++c) {
      row_[c] = static_cast<float>(sums_[c] / rows + 0 * sums_[c]);
    }
    Store(0, row_.data());
  }

  /// Leaves what was stored in row_.
  void StoreCentre() {
    float* const lo = row_.data();
    float* const hi = lo + d_;
    simd::MinMaxRows(keys_.data(), DType::kF32, rows_, d_, lo, hi);
    for (int64_t c = 0; c < d_; ++c) {
      const double middle = (static_cast<double>(lo[c]) + hi[c]) / 2;
      lo[c] = static_cast<float>(middle + 0 * middle);
    }
    Store(0, lo);
    for (int64_t c = 0; c < d_; ++c) lo[c] = LoadElement(args_.digests, out_ + c, args_.out_dtype);
  }

  void StoreDeviation() {
    std::fill(sums_.begin(), sums_.end(), 0.0);
    for (int64_t r = 0; r < rows_; ++r) {
      const float* const row = Row(r);
      for (int64_t c = 0; c < d_; ++c) sums_[c] += std::abs(static_cast<double>(row[c]) - row_[c]);
    }
    float* const deviation = row_.data() + d_;
    const auto rows = static_cast<double>(rows_);
    for (int64_t c = 0; c < d_; ++c) deviation[c] = static_cast<float>(sums_[c] / rows);
    Store(d_, deviation);
  }

  /// One sum a row; a few rows side by side, since each is a chain of additions.
  void StoreRadius() {
    constexpr int64_t kTogether = 8;
    double radius = 0;
    for (int64_t first = 0; first < rows_; first += kTogether) {
      const int64_t count = std::min(kTogether, rows_ - first);
      std::fill_n(sums_.begin(), count, 0.0);
      for (int64_t c = 0; c < d_; ++c) {
        for (int64_t i = 0; i < count; ++i) {
          const double off = static_cast<double>(Row(first + i)[c]) - row_[c];
          sums_[i] += off * off;
        }
      }
      for (int64_t i = 0; i < count; ++i) {
        if (!std::isnan(radius)) radius = MaxOrNaN(radius, std::sqrt(sums_[i]));
      }
    }
    StoreRoundedUp(args_.digests, out_ + d_, args_.out_dtype, radius);
  }

  void StoreDiscs() {
    for (int64_t i = 0; i < d_ / 2; ++i) {
      const ChannelPair pair = PairOf(i, args_.rotary_dim, args_.interleaved);
      double radius = 0;
      for (int64_t r = 0; r < rows_ && !std::isnan(radius); ++r) {
        const double a = static_cast<double>(Row(r)[pair.a]) - row_[pair.a];
        const double b = static_cast<double>(Row(r)[pair.b]) - row_[pair.b];
        radius = MaxOrNaN(radius, std::sqrt(a * a + b * b));
      }
      StoreRoundedUp(args_.digests, out_ + d_ + i, args_.out_dtype, radius);
    }
  }

  const DigestArgs& args_;
  const int64_t d_;
  int64_t rows_ = 0;
  int64_t out_ = 0;           ///< Element where the unit's digest begins.
  std::vector<float> keys_;   ///< [rows][d]
  std::vector<float> row_;    ///< [2][d]; the first is the centre as it was stored.
  std::vector<double> sums_;  ///< [d], or one for each row.
};

}  // namespace

void DigestUnits(const DigestArgs& args) {
  UnitDigester digester(args);
  for (int64_t u = 0; u < args.n_units; ++u) digester.Digest(u);
}

}  // namespace quire::kernels::fast
