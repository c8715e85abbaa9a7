// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/checks.h"
#include "kernels/cpu/digest_rounding.h"
#include "kernels/cpu/reference/reference.h"
#include "kernels/cpu/score_terms.h"
#include "kernels/cpu/sequences.h"

namespace quire::kernels::reference {
namespace {

/// The keys of one unit, and the place of its digest.
struct Unit {
  const DigestArgs& args;
  int64_t first = 0;  ///< Element of the first key.
  int64_t rows = 0;
  int64_t out = 0;  ///< Element of the digest.

  double Key(int64_t row, int64_t channel) const {
    return LoadElement(args.units, first + row * args.head_dim + channel, args.dtype);
  }
  void Store(int64_t element, double value) const {
    StoreElement(args.digests, out + element, args.out_dtype, static_cast<float>(value));
  }
  double Stored(int64_t element) const {
    return LoadElement(args.digests, out + element, args.out_dtype);
  }
};

struct Extremes {
  double lo;
  double hi;
};
/// Both NaN if a key is.
Extremes FindExtremes(const Unit& unit, int64_t channel) {
  Extremes extremes{unit.Key(0, channel), unit.Key(0, channel)};
  for (int64_t r = 0; r < unit.rows; ++r) {
    const double key = unit.Key(r, channel);
    if (std::isnan(key)) return {key, key};
    extremes = {std::min(extremes.lo, key), std::max(extremes.hi, key)};
  }
  return extremes;
}

void StoreMinMax(const Unit& unit) {
  const int64_t d = unit.args.head_dim;
  for (int64_t c = 0; c < d; ++c) {
    const Extremes extremes = FindExtremes(unit, c);
    unit.Store(c, extremes.lo);
    unit.Store(d + c, extremes.hi);
  }
}

/// NaN for infinite keys too, since infinity - infinity is NaN.
double Mean(const Unit& unit, int64_t channel) {
  double sum = 0;
  for (int64_t r = 0; r < unit.rows; ++r) sum += unit.Key(r, channel);
  return sum / static_cast<double>(unit.rows) + 0 * sum;
}

void StoreMean(const Unit& unit) {
  for (int64_t c = 0; c < unit.args.head_dim; ++c) unit.Store(c, Mean(unit, c));
}

void StoreCentre(const Unit& unit) {
  for (int64_t c = 0; c < unit.args.head_dim; ++c) {
    const Extremes extremes = FindExtremes(unit, c);
    const double middle = (extremes.lo + extremes.hi) / 2;
    unit.Store(c, middle + 0 * middle);
  }
}

void StoreCentreDeviation(const Unit& unit) {
  StoreCentre(unit);
  const int64_t d = unit.args.head_dim;
  for (int64_t c = 0; c < d; ++c) {
    double sum = 0;
    for (int64_t r = 0; r < unit.rows; ++r) sum += std::abs(unit.Key(r, c) - unit.Stored(c));
    unit.Store(d + c, sum / static_cast<double>(unit.rows));
  }
}

/// Stores a radius at this element of the digest.
void StoreRadius(const Unit& unit, int64_t element, double radius) {
  StoreRoundedUp(unit.args.digests, unit.out + element, unit.args.out_dtype, radius);
}

void StoreCentreRadius(const Unit& unit) {
  StoreCentre(unit);
  const int64_t d = unit.args.head_dim;
  double radius = 0;
  for (int64_t r = 0; r < unit.rows && !std::isnan(radius); ++r) {
    double sum = 0;
    for (int64_t c = 0; c < d; ++c) {
      const double off = unit.Key(r, c) - unit.Stored(c);
      sum += off * off;
    }
    radius = MaxOrNaN(radius, std::sqrt(sum));
  }
  StoreRadius(unit, d, radius);
}

void StoreDiscs(const Unit& unit) {
  StoreCentre(unit);
  const int64_t d = unit.args.head_dim;
  for (int64_t i = 0; i < d / 2; ++i) {
    const ChannelPair pair = PairOf(i, unit.args.rotary_dim, unit.args.interleaved);
    double radius = 0;
    for (int64_t r = 0; r < unit.rows && !std::isnan(radius); ++r) {
      const double a = unit.Key(r, pair.a) - unit.Stored(pair.a);
      const double b = unit.Key(r, pair.b) - unit.Stored(pair.b);
      radius = MaxOrNaN(radius, std::sqrt(a * a + b * b));
    }
    StoreRadius(unit, d + i, radius);
  }
}

void StoreDigest(const Unit& unit) {
  switch (unit.args.kind) {
    case DigestKind::kMinMax:
      return StoreMinMax(unit);
    case DigestKind::kMean:
    case DigestKind::kRepresentatives:
    case DigestKind::kContent:
      return StoreMean(unit);
    case DigestKind::kCentreDeviation:
      return StoreCentreDeviation(unit);
    case DigestKind::kCentreRadius:
      return StoreCentreRadius(unit);
    case DigestKind::kDisc:
      return StoreDiscs(unit);
  }
}

}  // namespace

OpStatus Digest(const DigestArgs& args) {
  if (args.jobs != nullptr) return RunJobs(args, Digest);
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  for (int64_t u = 0; u < args.n_units; ++u) {
    StoreDigest({.args = args,
                 .first = u * args.unit_stride,
                 .rows = args.valid_rows != nullptr ? args.valid_rows[u] : args.page_tokens,
                 .out = u * DigestElements(args.kind, args.head_dim)});
  }
  return OpStatus::kOk;
}

}  // namespace quire::kernels::reference
