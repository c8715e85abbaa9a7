// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/checks.h"

#include <cmath>
#include <limits>

namespace quire::kernels {
namespace {

constexpr int64_t kMaxIndex = std::numeric_limits<int32_t>::max();

template <typename... Sizes>
bool Positive(Sizes... sizes) {
  return ((sizes >= 1) && ...);
}
template <typename... Pointers>
bool Given(Pointers... pointers) {
  return ((pointers != nullptr) && ...);
}
bool AllIn(const int32_t* list, int64_t n, int64_t low, int64_t high) {
  for (int64_t i = 0; i < n; ++i) {
    if (list[i] < low || list[i] > high) return false;
  }
  return true;
}
bool Groups(int64_t n_q, int64_t n_kv) { return Positive(n_q, n_kv) && n_q % n_kv == 0; }

/// Channels can be paired as the kind needs it.
template <typename Args>
bool PairsUp(const Args& args) {
  if (args.kind != DigestKind::kDisc) return true;
  return args.head_dim % 2 == 0 && args.rotary_dim % 2 == 0 && args.rotary_dim >= 0 &&
         args.rotary_dim <= args.head_dim;
}

OpStatus BadUnless(bool good) { return good ? OpStatus::kOk : OpStatus::kBadShape; }

template <typename Args>
OpStatus CheckCodecSizes(const Args& args) {
  if (!IsKnown(args.shape.dtype) || !IsKnown(args.codec)) return OpStatus::kUnsupported;
  if (args.n_units < 0 || !Positive(args.shape.page_tokens, args.shape.head_dim) ||
      args.encoded_bytes != args.n_units * EncodedUnitBytes(args.codec, args.shape)) {
    return OpStatus::kBadShape;
  }
  return BadUnless(args.n_units == 0 || Given(args.units, args.encoded));
}
template <typename Args>
OpStatus CheckCodec(const Args& args) {
  if (const OpStatus status = CheckCodecSizes(args); status != OpStatus::kOk) return status;
  return BadUnless(args.valid_rows == nullptr ||
                   AllIn(args.valid_rows, args.n_units, 1, args.shape.page_tokens));
}

}  // namespace

OpStatus CheckSizes(const NhdToHndArgs& args) {
  if (!IsKnown(args.dtype)) return OpStatus::kUnsupported;
  if (args.n_pages < 0 ||
      !Positive(args.num_slots, args.page_tokens, args.n_kv, args.head_dim, args.last_page_rows) ||
      args.last_page_rows > args.page_tokens) {
    return OpStatus::kBadShape;
  }
  return BadUnless(args.n_pages == 0 || (Given(args.k_pool, args.slots, args.units) &&
                                         (!args.has_values || args.v_pool != nullptr)));
}

OpStatus CheckSizes(const HndToNhdArgs& args) {
  if (!IsKnown(args.dtype)) return OpStatus::kUnsupported;
  if (args.n_units < 0 || !Positive(args.num_slots, args.page_tokens, args.n_kv, args.head_dim)) {
    return OpStatus::kBadShape;
  }
  const bool units = args.units != nullptr || args.unit_ptrs != nullptr;
  return BadUnless(args.n_units == 0 || (units && Given(args.placements, args.k_pool) &&
                                         (!args.has_values || args.v_pool != nullptr)));
}

OpStatus Check(const NhdToHndArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  return BadUnless(AllIn(args.slots, args.n_pages, 0, args.num_slots - 1));
}

OpStatus Check(const HndToNhdArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  for (int64_t i = 0; i < args.n_units; ++i) {
    const UnitPlacement& place = args.placements[i];
    if (place.slot < 0 || place.slot >= args.num_slots) return OpStatus::kBadShape;
    if (place.kv_head < 0 || place.kv_head >= args.n_kv) return OpStatus::kBadShape;
    if (args.unit_ptrs != nullptr && args.unit_ptrs[i] == nullptr) return OpStatus::kBadShape;
  }
  return OpStatus::kOk;
}

OpStatus CheckSizes(const EncodeUnitArgs& args) { return CheckCodecSizes(args); }
OpStatus CheckSizes(const DecodeUnitArgs& args) { return CheckCodecSizes(args); }
OpStatus Check(const EncodeUnitArgs& args) { return CheckCodec(args); }
OpStatus Check(const DecodeUnitArgs& args) { return CheckCodec(args); }

OpStatus Check(const DigestArgs& args) {
  if (!IsKnown(args.dtype) || !IsKnown(args.kind) ||
      (args.out_dtype != args.dtype && args.out_dtype != DType::kF32)) {
    return OpStatus::kUnsupported;
  }
  if (args.n_units < 0 || !Positive(args.page_tokens, args.head_dim) || !PairsUp(args) ||
      args.unit_stride < args.page_tokens * args.head_dim) {
    return OpStatus::kBadShape;
  }
  if (args.n_units == 0) return OpStatus::kOk;
  if (!Given(args.units, args.digests)) return OpStatus::kBadShape;
  return BadUnless(args.valid_rows == nullptr ||
                   AllIn(args.valid_rows, args.n_units, 1, args.page_tokens));
}

OpStatus Check(const ScoreArgs& args) {
  if (!IsKnown(args.dtype) || !IsKnown(args.kind)) return OpStatus::kUnsupported;
  if (args.n_pages < 0 || args.first_page < 0 || args.head_dim < 1 || !PairsUp(args) ||
      !Groups(args.n_q, args.n_kv)) {
    return OpStatus::kBadShape;
  }
  if (args.score_stride != 0 && args.score_stride < args.n_pages) return OpStatus::kBadShape;
  if (args.n_pages == 0) return OpStatus::kOk;
  if (!Given(args.q, args.scores)) return OpStatus::kBadShape;
  if (args.blocks == nullptr) return BadUnless(args.digests != nullptr);
  if (!Positive(args.n_blocks, args.pages_per_block)) return OpStatus::kBadShape;
  const int64_t last_block = (args.first_page + args.n_pages - 1) / args.pages_per_block;
  if (last_block >= args.n_blocks) return OpStatus::kBadShape;
  for (int64_t b = args.first_page / args.pages_per_block; b <= last_block; ++b) {
    if (args.blocks[b] == nullptr) return OpStatus::kBadShape;
  }
  return OpStatus::kOk;
}

OpStatus Check(const PoolQueryArgs& args) {
  if (!PoolsQuery(args.pooling)) return OpStatus::kUnsupported;
  return BadUnless(Groups(args.n_q, args.n_kv) && args.head_dim >= 1 && Given(args.q, args.pooled));
}

OpStatus Check(const PoolArgs& args) {
  if (!IsKnown(args.pooling)) return OpStatus::kUnsupported;
  if (args.n_pages < 0 || !Groups(args.n_q, args.n_kv)) return OpStatus::kBadShape;
  if (PoolsQuery(args.pooling) && args.n_q != args.n_kv) return OpStatus::kBadShape;
  if (args.pooling == Pooling::kAvgSdM && args.head_dim < 1) return OpStatus::kBadShape;
  return BadUnless(args.n_pages == 0 || Given(args.scores, args.pooled));
}

OpStatus Check(const TopKArgs& args) {
  if (args.n_rows < 1 || args.n_pages < 0 || args.k < 0) return OpStatus::kBadShape;
  if (args.n_pages + args.index_offset > kMaxIndex + 1) return OpStatus::kBadShape;
  const bool reads = args.n_pages > 0 && (args.k > 0 || args.nan_counts != nullptr);
  const bool writes = TopKWidth(args.k, args.n_pages) > 0;
  return BadUnless((!reads || args.scores != nullptr) && (!writes || args.indices != nullptr));
}

OpStatus Check(const PagedAttentionArgs& args) {
  if (!IsKnown(args.dtype)) return OpStatus::kUnsupported;
  if (!Positive(args.num_slots, args.n_slots, args.page_tokens, args.head_dim) ||
      !Groups(args.n_q, args.n_kv) || !std::isfinite(args.scale) ||
      !Given(args.q, args.k_pool, args.v_pool, args.slots, args.valid_tokens, args.out) ||
      !AllIn(args.slots, args.n_slots, 0, args.num_slots - 1) ||
      !AllIn(args.valid_tokens, args.n_kv * args.n_slots, 0, args.page_tokens)) {
    return OpStatus::kBadShape;
  }
  for (int64_t g = 0; g < args.n_kv; ++g) {
    if (AllIn(args.valid_tokens + g * args.n_slots, args.n_slots, 0, 0)) return OpStatus::kBadShape;
  }
  return OpStatus::kOk;
}

OpStatus Check(const DenseAttentionArgs& args) {
  if (!IsKnown(args.dtype)) return OpStatus::kUnsupported;
  if (args.t < 0 || !Positive(args.n, args.head_dim) || !Groups(args.n_q, args.n_kv) ||
      !std::isfinite(args.scale)) {
    return OpStatus::kBadShape;
  }
  if (args.t == 0) return OpStatus::kOk;
  if (!Given(args.q, args.k, args.v, args.out)) return OpStatus::kBadShape;
  if (args.last_key == nullptr) return BadUnless(args.t <= args.n);
  return BadUnless(AllIn(args.last_key, args.t, 0, args.n - 1));
}

OpStatus Check(const RmsNormArgs& args) {
  if (args.rows < 0 || args.dim < 1 || !(args.eps >= 0)) return OpStatus::kBadShape;
  return BadUnless(args.rows == 0 || Given(args.x, args.weight, args.y));
}

OpStatus Check(const RopeArgs& args) {
  if (!IsKnown(args.dtype)) return OpStatus::kUnsupported;
  if (args.t < 0 || !Positive(args.heads, args.head_dim, args.n_positions) || args.rotary_dim < 0 ||
      args.rotary_dim % 2 != 0 || args.rotary_dim > args.head_dim) {
    return OpStatus::kBadShape;
  }
  if (args.t == 0) return OpStatus::kOk;
  if (!Given(args.rows, args.positions)) return OpStatus::kBadShape;
  if (args.rotary_dim > 0 && !Given(args.cos_table, args.sin_table)) return OpStatus::kBadShape;
  return BadUnless(AllIn(args.positions, args.t, 0, args.n_positions - 1));
}

OpStatus Check(const SiluMulArgs& args) {
  const auto stride_ok = [&](int64_t stride) { return stride == 0 || stride >= args.dim; };
  if (args.rows < 0 || args.dim < 1 || !stride_ok(args.gate_stride) || !stride_ok(args.up_stride)) {
    return OpStatus::kBadShape;
  }
  return BadUnless(args.rows == 0 || Given(args.gate, args.up, args.y));
}

OpStatus Check(const MatmulArgs& args) {
  if (args.rows < 0 || !Positive(args.in, args.out)) return OpStatus::kBadShape;
  return BadUnless(args.rows == 0 || Given(args.x, args.weight, args.y));
}

OpStatus Check(const AddArgs& args) {
  return BadUnless(args.n == 0 || (args.n > 0 && Given(args.a, args.b, args.y)));
}

OpStatus Check(const EmbedArgs& args) {
  if (args.rows < 0 || !Positive(args.vocab, args.dim)) return OpStatus::kBadShape;
  if (args.rows == 0) return OpStatus::kOk;
  if (!Given(args.table, args.ids, args.y)) return OpStatus::kBadShape;
  return BadUnless(AllIn(args.ids, args.rows, 0, args.vocab - 1));
}

}  // namespace quire::kernels
