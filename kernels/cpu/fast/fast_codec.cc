// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "kernels/cpu/checks.h"
#include "kernels/cpu/fast/fast.h"
#include "kernels/cpu/unit_coder.h"

namespace quire::kernels::fast {
namespace {

int64_t ValidRows(const int32_t* valid_rows, int64_t unit, const UnitShape& shape) {
  return valid_rows != nullptr ? valid_rows[unit] : shape.page_tokens;
}

}  // namespace

OpStatus EncodeUnit(const EncodeUnitArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.n_units == 0) return OpStatus::kOk;
  const EncodedLayout layout = LayoutOf(args.codec, args.shape);
  const int64_t side_bytes = args.shape.side_elements() * ElementBytes(args.shape.dtype);
  UnitCoder coder(args.codec, args.shape);
  const auto* rows = static_cast<const uint8_t*>(args.units);
  auto* unit = static_cast<uint8_t*>(args.encoded);
  for (int64_t i = 0; i < args.n_units; ++i, unit += layout.bytes) {
    const int64_t valid = ValidRows(args.valid_rows, i, args.shape);
    if (valid < args.shape.page_tokens) memset(unit, 0, layout.bytes);
    coder.Encode(true, rows, valid, unit + layout.key_params, unit + layout.key_codes);
    rows += side_bytes;
    if (!args.shape.has_values) continue;
    coder.Encode(false, rows, valid, unit + layout.value_params, unit + layout.value_codes);
    rows += side_bytes;
  }
  return OpStatus::kOk;
}

OpStatus DecodeUnit(const DecodeUnitArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.n_units == 0) return OpStatus::kOk;
  const EncodedLayout layout = LayoutOf(args.codec, args.shape);
  const int64_t side_bytes = args.shape.side_elements() * ElementBytes(args.shape.dtype);
  UnitCoder coder(args.codec, args.shape);
  const auto* unit = static_cast<const uint8_t*>(args.encoded);
  auto* rows = static_cast<uint8_t*>(args.units);
  for (int64_t i = 0; i < args.n_units; ++i, unit += layout.bytes) {
    const int64_t valid = ValidRows(args.valid_rows, i, args.shape);
    if (valid < args.shape.page_tokens) memset(rows, 0, args.shape.raw_bytes());
    coder.Decode(true, unit + layout.key_params, unit + layout.key_codes, valid, rows);
    rows += side_bytes;
    if (!args.shape.has_values) continue;
    coder.Decode(false, unit + layout.value_params, unit + layout.value_codes, valid, rows);
    rows += side_bytes;
  }
  return OpStatus::kOk;
}

}  // namespace quire::kernels::fast
