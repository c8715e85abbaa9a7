// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "kernels/cpu/checks.h"
#include "kernels/cpu/codec_scalar.h"
#include "kernels/cpu/reference/reference.h"

namespace quire::kernels::reference {
namespace {

using codec::Extremes;
using codec::Fp8Params;
using codec::Int4Params;
using codec::Int8Params;

/// K or V rows of one unit and their places in the encoded one. `valid` rows are encoded.
template <typename Byte>
struct Side {
  Byte* params;
  Byte* codes;
  int64_t valid, p, d;
  DType dtype;
  bool keys;
};
using EncodedSide = Side<uint8_t>;
using ConstEncodedSide = Side<const uint8_t>;

template <typename T>
void Put(uint8_t* base, int64_t index, T value) {
  memcpy(base + index * static_cast<int64_t>(sizeof value), &value, sizeof value);
}
template <typename T>
T Get(const uint8_t* base, int64_t index) {
  T value;
  memcpy(&value, base + index * static_cast<int64_t>(sizeof value), sizeof value);
  return value;
}
float GetF16(const uint8_t* base, int64_t index) { return F16ToFloat(Get<uint16_t>(base, index)); }

void EncodeFp8(const void* rows, const EncodedSide& out) {
  const int64_t n = out.valid * out.d;
  Extremes values;
  for (int64_t i = 0; i < n; ++i) values.Add(LoadElement(rows, i, out.dtype));
  const Fp8Params params(values);
  Put(out.params, 0, params.scale);
  for (int64_t i = 0; i < n; ++i) {
    out.codes[i] = codec::ToFp8(LoadElement(rows, i, out.dtype) * params.inverse);
  }
}

void DecodeFp8(const ConstEncodedSide& in, void* rows) {
  const float scale = Get<float>(in.params, 0);
  for (int64_t i = 0; i < in.valid * in.d; ++i) {
    codec::StoreDecoded(rows, i, in.dtype, codec::FromFp8(in.codes[i]) * scale);
  }
}

void EncodeInt8(const void* rows, const EncodedSide& out) {
  for (int64_t t = 0; t < out.valid; ++t) {
    Extremes values;
    for (int64_t c = 0; c < out.d; ++c) values.Add(LoadElement(rows, t * out.d + c, out.dtype));
    const Int8Params params(values.OrNaN(values.AbsMax()));
    Put(out.params, t, params.scale);
    for (int64_t i = t * out.d; i < (t + 1) * out.d; ++i) {
      const int8_t code = codec::ToInt8(LoadElement(rows, i, out.dtype), params.inverse);
      out.codes[i] = static_cast<uint8_t>(code);
    }
  }
}

void DecodeInt8(const ConstEncodedSide& in, void* rows) {
  for (int64_t i = 0; i < in.valid * in.d; ++i) {
    const auto code = static_cast<int8_t>(in.codes[i]);
    codec::StoreDecoded(rows, i, in.dtype, static_cast<float>(code) * GetF16(in.params, i / in.d));
  }
}

/// Location of the minima and scales of int4: K has one group per channel, V Int4Groups per token.
struct Int4Index {
  explicit Int4Index(const auto& side)
      : keys(side.keys), d(side.d), groups(keys ? d : side.p * Int4Groups(d)) {}
  int64_t Minimum(int64_t t, int64_t c) const {
    return keys ? c : t * Int4Groups(d) + c / kInt4Group;
  }
  int64_t Scale(int64_t t, int64_t c) const { return groups + Minimum(t, c); }
  bool keys;
  int64_t d, groups;
};

/// Extremes of the values that share parameters with token t, channel c.
Extremes GroupOf(const void* rows, const EncodedSide& side, int64_t t, int64_t c) {
  Extremes values;
  if (side.keys) {
    for (int64_t r = 0; r < side.valid; ++r) {
      values.Add(LoadElement(rows, r * side.d + c, side.dtype));
    }
  } else {
    const int64_t first = c / kInt4Group * kInt4Group;
    for (int64_t i = first; i < std::min(first + kInt4Group, side.d); ++i) {
      values.Add(LoadElement(rows, t * side.d + i, side.dtype));
    }
  }
  return values;
}

/// Packs channel c into the low half of byte c of its row, or into the high half of byte c - row
/// bytes.
void EncodeInt4(const void* rows, const EncodedSide& out) {
  const Int4Index at(out);
  const int64_t row_bytes = Int4RowBytes(out.d);
  for (int64_t t = 0; t < out.valid; ++t) {
    for (int64_t c = 0; c < out.d; ++c) {
      const Extremes values = GroupOf(rows, out, t, c);
      const Int4Params params(values.OrNaN(values.low), values.high);
      Put(out.params, at.Minimum(t, c), params.minimum);
      Put(out.params, at.Scale(t, c), params.scale);
      const float x = LoadElement(rows, t * out.d + c, out.dtype);
      const int code = codec::ToInt4(x, params.base, params.inverse);
      const bool high = c >= row_bytes;
      uint8_t& byte = out.codes[t * row_bytes + (high ? c - row_bytes : c)];
      byte = static_cast<uint8_t>(high ? byte | code << 4 : code);
    }
  }
}

void DecodeInt4(const ConstEncodedSide& in, void* rows) {
  const Int4Index at(in);
  const int64_t row_bytes = Int4RowBytes(in.d);
  for (int64_t t = 0; t < in.valid; ++t) {
    for (int64_t c = 0; c < in.d; ++c) {
      const bool high = c >= row_bytes;
      const uint8_t byte = in.codes[t * row_bytes + (high ? c - row_bytes : c)];
      const uint8_t code = high ? byte >> 4 : byte & 15;
      const float value = codec::FromInt4(code, GetF16(in.params, at.Minimum(t, c)),
                                          GetF16(in.params, at.Scale(t, c)));
      codec::StoreDecoded(rows, t * in.d + c, in.dtype, value);
    }
  }
}

void EncodeSide(UnitCodec codec, const void* rows, const EncodedSide& out) {
  switch (codec) {
    case UnitCodec::kRaw:
      memcpy(out.codes, rows, out.valid * out.d * ElementBytes(out.dtype));
      break;
    case UnitCodec::kFp8E4M3:
      return EncodeFp8(rows, out);
    case UnitCodec::kInt8:
      return EncodeInt8(rows, out);
    case UnitCodec::kInt4:
      return EncodeInt4(rows, out);
  }
}

void DecodeSide(UnitCodec codec, const ConstEncodedSide& in, void* rows) {
  switch (codec) {
    case UnitCodec::kRaw:
      memcpy(rows, in.codes, in.valid * in.d * ElementBytes(in.dtype));
      break;
    case UnitCodec::kFp8E4M3:
      return DecodeFp8(in, rows);
    case UnitCodec::kInt8:
      return DecodeInt8(in, rows);
    case UnitCodec::kInt4:
      return DecodeInt4(in, rows);
  }
}

/// K (side 0) or V (side 1) of unit `unit`.
template <typename Byte, typename Args>
Side<Byte> SideOf(const Args& args, Byte* encoded, int64_t unit, int64_t side) {
  const EncodedLayout layout = LayoutOf(args.codec, args.shape);
  Byte* base = encoded + unit * layout.bytes;
  return {.params = base + (side == 0 ? layout.key_params : layout.value_params),
          .codes = base + (side == 0 ? layout.key_codes : layout.value_codes),
          .valid = args.valid_rows != nullptr ? args.valid_rows[unit] : args.shape.page_tokens,
          .p = args.shape.page_tokens,
          .d = args.shape.head_dim,
          .dtype = args.shape.dtype,
          .keys = side == 0};
}

}  // namespace

OpStatus EncodeUnit(const EncodeUnitArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.n_units == 0) return OpStatus::kOk;
  const auto* from = static_cast<const uint8_t*>(args.units);
  auto* encoded = static_cast<uint8_t*>(args.encoded);
  const int64_t side_bytes = args.shape.side_elements() * ElementBytes(args.shape.dtype);
  memset(encoded, 0, args.encoded_bytes);
  for (int64_t i = 0; i < args.n_units; ++i) {
    for (int64_t side = 0; side < args.shape.sides(); ++side) {
      EncodeSide(args.codec, from, SideOf(args, encoded, i, side));
      from += side_bytes;
    }
  }
  return OpStatus::kOk;
}

OpStatus DecodeUnit(const DecodeUnitArgs& args) {
  if (const OpStatus status = Check(args); status != OpStatus::kOk) return status;
  if (args.n_units == 0) return OpStatus::kOk;
  const auto* encoded = static_cast<const uint8_t*>(args.encoded);
  auto* to = static_cast<uint8_t*>(args.units);
  const int64_t side_bytes = args.shape.side_elements() * ElementBytes(args.shape.dtype);
  memset(to, 0, args.n_units * args.shape.raw_bytes());
  for (int64_t i = 0; i < args.n_units; ++i) {
    for (int64_t side = 0; side < args.shape.sides(); ++side) {
      DecodeSide(args.codec, SideOf(args, encoded, i, side), to);
      to += side_bytes;
    }
  }
  return OpStatus::kOk;
}

}  // namespace quire::kernels::reference
