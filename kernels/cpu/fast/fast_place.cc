// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <vector>

#include "kernels/cpu/checks.h"
#include "kernels/cpu/fast/fast.h"
#include "kernels/cpu/rotate.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/unit_coder.h"

namespace quire::kernels::fast {
namespace {

/// K or V rows of one encoded unit, and the place of row 0.
struct Side {
  bool keys;
  const uint8_t* params;
  const uint8_t* codes;
  int64_t valid;
  uint8_t* to;
};

/// Places the sides of units of one shape, one after the other, through scratch that stays in the
/// cache.
class Placer {
 public:
  explicit Placer(const PlaceUnitsArgs& args)
      : args_(args),
        p_(args.shape.page_tokens),
        d_(args.shape.head_dim),
        coder_(args.codec, args.shape),
        wide_coder_(args.codec, AsFloats(args.shape)) {
    if (!args.fp8_pools) rows_.resize(static_cast<size_t>(args.shape.side_elements() * element()));
    if (args.rotations != nullptr) wide_.resize(static_cast<size_t>(args.shape.side_elements()));
  }

  void Place(const Side& side, int32_t rotation) {
    const bool rotated = rotation >= 0 && args_.rotary_dim > 0;
    const bool raw = args_.codec == UnitCodec::kRaw;
    const bool decoded = !args_.fp8_pools && (rotated || !raw);
    if (decoded && (raw || !rotated || args_.rotary_dim < d_)) {
      coder_.Decode(side.keys, side.params, side.codes, side.valid, rows_.data());
    }
    if (rotated) Rotate(side, rotation);
    const uint8_t* from = decoded ? rows_.data() : side.codes;
    const auto bytes = static_cast<size_t>(row_bytes());
    const int64_t stride = args_.n_kv * row_bytes();
    for (int64_t r = 0; r < side.valid; ++r) {
      memcpy(side.to + r * stride, from + r * row_bytes(), bytes);
    }
    for (int64_t r = side.valid; r < p_; ++r) memset(side.to + r * stride, 0, bytes);
  }

  /// Bytes of an element in the pools.
  int64_t element() const { return args_.fp8_pools ? 1 : ElementBytes(args_.shape.dtype); }

 private:
  static UnitShape AsFloats(UnitShape shape) {
    shape.dtype = DType::kF32;
    return shape;
  }
  int64_t row_bytes() const { return d_ * element(); }

  /// Rotates the rotary channels of the valid rows, from their unrounded values, into rows_. Raw
  /// rows are already in rows_, aligned.
  void Rotate(const Side& side, int32_t rotation) {
    if (args_.codec == UnitCodec::kRaw) {
      simd::WidenRows(rows_.data(), d_, args_.shape.dtype, side.valid, d_, wide_.data());
    } else {
      wide_coder_.Decode(side.keys, side.params, side.codes, side.valid,
                         reinterpret_cast<uint8_t*>(wide_.data()));
    }
    const int64_t half = args_.rotary_dim / 2;
    const float largest = codec::LargestOf(args_.shape.dtype);
    for (int64_t r = 0; r < side.valid; ++r) {
      const int64_t first = r * d_ + args_.rotary_first;
      float* row = wide_.data() + first;
      fast::Rotate(row, args_.cos_table + rotation * half, args_.sin_table + rotation * half, half,
                   args_.interleaved);
      for (int64_t c = 0; c < 2 * half; ++c) {
        const float bounded = row[c] > largest ? largest : row[c];
        row[c] = bounded < -largest ? -largest : bounded;
      }
      simd::Narrow(row, 2 * half, args_.shape.dtype, rows_.data() + first * element());
    }
  }

  const PlaceUnitsArgs& args_;
  const int64_t p_, d_;
  UnitCoder coder_;
  UnitCoder wide_coder_;
  std::vector<uint8_t> rows_;  ///< [p][d] dtype
  std::vector<float> wide_;    ///< [p][d]
};

}  // namespace

OpStatus PlaceUnits(const PlaceUnitsArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.n_units == 0) return OpStatus::kOk;
  const EncodedLayout layout = LayoutOf(args.codec, args.shape);
  Placer placer(args);
  for (int64_t i = 0; i < args.n_units; ++i) {
    const UnitPlacement& place = args.placements[i];
    const auto* unit = args.unit_ptrs != nullptr
                           ? static_cast<const uint8_t*>(args.unit_ptrs[i])
                           : static_cast<const uint8_t*>(args.encoded) + i * layout.bytes;
    const int64_t head = place.slot * args.n_kv + place.kv_head;
    const int64_t token = place.slot * args.shape.page_tokens * args.n_kv + place.kv_head;
    const int64_t to = token * args.shape.head_dim * placer.element();
    const int64_t valid = args.valid_rows != nullptr ? args.valid_rows[i] : args.shape.page_tokens;
    placer.Place({true, unit + layout.key_params, unit + layout.key_codes, valid,
                  static_cast<uint8_t*>(args.k_pool) + to},
                 args.rotations != nullptr ? args.rotations[i] : -1);
    if (args.fp8_pools) args.k_scales[head] = Get<float>(unit + layout.key_params, 0);
    if (!args.shape.has_values) continue;
    placer.Place({false, unit + layout.value_params, unit + layout.value_codes, valid,
                  static_cast<uint8_t*>(args.v_pool) + to},
                 -1);
    if (args.fp8_pools) args.v_scales[head] = Get<float>(unit + layout.value_params, 0);
  }
  return OpStatus::kOk;
}

}  // namespace quire::kernels::fast
