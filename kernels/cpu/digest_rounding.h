// SPDX-License-Identifier: Apache-2.0
//
// Rounding up of numbers in a digest that must not be too small (digest.h): radii.
#ifndef QUIRE_KERNELS_CPU_DIGEST_ROUNDING_H_
#define QUIRE_KERNELS_CPU_DIGEST_ROUNDING_H_

#include <cmath>
#include <cstdint>
#include <limits>

#include "common/page/dtype.h"

namespace quire::kernels {

/// Stores `value`, or the next larger number of `dtype`; value >= 0 or NaN.
inline void StoreRoundedUp(void* digests, int64_t element, DType dtype, double value) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  auto rounded = static_cast<float>(value);
  if (rounded < value) rounded = std::nextafter(rounded, kInfinity);
  StoreElement(digests, element, dtype, rounded);
  if (dtype == DType::kF32 || !(LoadElement(digests, element, dtype) < rounded)) return;
  // Adds one step: numbers >= 0 of a 16-bit type order like their bits, and infinity follows the
  // largest.
  ++static_cast<uint16_t*>(digests)[element];
}

/// The larger one, or NaN if either is.
inline double MaxOrNaN(double a, double b) { return std::isnan(b) || b > a ? b : a; }

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_CPU_DIGEST_ROUNDING_H_
