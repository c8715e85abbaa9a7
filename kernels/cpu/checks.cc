// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/checks.h"

#include <algorithm>
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

/// Checks that channels can be paired as the kind requires.
template <typename Args>
bool PairsUp(const Args& args) {
  if (args.kind != DigestKind::kDisc) return true;
  return args.head_dim % 2 == 0 && args.rotary_dim % 2 == 0 && args.rotary_dim >= 0 &&
         args.rotary_dim <= args.head_dim;
}

/// Checks that every placement is inside the pools, and every listed address is given.
template <typename Args>
bool PlacesExist(const Args& args) {
  for (int64_t i = 0; i < args.n_units; ++i) {
    const UnitPlacement& place = args.placements[i];
    if (place.slot < 0 || place.slot >= args.num_slots) return false;
    if (place.kv_head < 0 || place.kv_head >= args.n_kv) return false;
    if (args.unit_ptrs != nullptr && args.unit_ptrs[i] == nullptr) return false;
  }
  return true;
}
/// Checks that each of `lists` rows of `n` counts has one above 0, and all are 0..p.
bool TokensFor(const int32_t* valid_tokens, int64_t lists, int64_t n, int64_t p) {
  for (int64_t i = 0; i < lists; ++i) {
    const int32_t* list = valid_tokens + i * n;
    if (!AllIn(list, n, 0, p) || AllIn(list, n, 0, 0)) return false;
  }
  return true;
}

/// The same for rows that are not hidden: those from `first` [n] on.
bool RowsFor(const int32_t* valid_tokens, const int32_t* first, int64_t lists, int64_t n) {
  for (int64_t i = 0; i < lists; ++i) {
    int64_t rows = 0;
    for (int64_t s = 0; s < n; ++s) {
      rows += std::max<int64_t>(0, int64_t{valid_tokens[i * n + s]} - first[s]);
    }
    if (rows == 0) return false;
  }
  return true;
}
/// Checks `first_tokens` of paged attention against its other lists, which are good.
bool FirstTokensFit(const PagedAttentionArgs& args) {
  if (args.first_tokens == nullptr) return true;
  if (!AllIn(args.first_tokens, args.batch * args.n_slots, 0, args.page_tokens)) return false;
  for (int64_t b = 0; b < args.batch; ++b) {
    if (!RowsFor(args.valid_tokens + b * args.n_kv * args.n_slots,
                 args.first_tokens + b * args.n_slots, args.n_kv, args.n_slots)) {
      return false;
    }
  }
  return true;
}
bool IsCap(float soft_cap) { return std::isfinite(soft_cap) && soft_cap >= 0; }

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
  if (args.pages != nullptr) return BadUnless(args.last_page_rows == args.page_tokens);
  return BadUnless(args.n_pages == 0 || (Given(args.k_pool, args.slots, args.units) &&
                                         (!args.has_values || args.v_pool != nullptr)));
}

OpStatus CheckSizes(const HndToNhdArgs& args) {
  if (!IsKnown(args.dtype)) return OpStatus::kUnsupported;
  if (args.n_units < 0 || !Positive(args.num_slots, args.page_tokens, args.n_kv, args.head_dim)) {
    return OpStatus::kBadShape;
  }
  const bool units = args.units != nullptr || args.unit_ptrs != nullptr;
  if (args.addresses != nullptr) return BadUnless(args.n_units == 0 || units);
  return BadUnless(args.n_units == 0 || (units && Given(args.placements, args.k_pool) &&
                                         (!args.has_values || args.v_pool != nullptr)));
}

OpStatus Check(const NhdToHndArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  return BadUnless(AllIn(args.slots, args.n_pages, 0, args.num_slots - 1));
}

OpStatus Check(const HndToNhdArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  return BadUnless(PlacesExist(args));
}

OpStatus CheckSizes(const EncodeUnitArgs& args) { return CheckCodecSizes(args); }
OpStatus CheckSizes(const DecodeUnitArgs& args) { return CheckCodecSizes(args); }
OpStatus Check(const EncodeUnitArgs& args) { return CheckCodec(args); }
OpStatus Check(const DecodeUnitArgs& args) { return CheckCodec(args); }

namespace {

bool RotationFits(const PlaceUnitsArgs& args) {
  if (args.rotations == nullptr) return true;
  return args.n_rotations >= 1 && args.rotary_first >= 0 && args.rotary_dim >= 0 &&
         args.rotary_dim % 2 == 0 && args.rotary_first + args.rotary_dim <= args.shape.head_dim &&
         (args.rotary_dim == 0 || Given(args.cos_table, args.sin_table));
}

bool PoolsGiven(const PlaceUnitsArgs& args) {
  const bool values = !args.shape.has_values || args.v_pool != nullptr;
  const bool scales = !args.fp8_pools || (args.k_scales != nullptr &&
                                          (!args.shape.has_values || args.v_scales != nullptr));
  return args.k_pool != nullptr && values && scales;
}

}  // namespace

OpStatus CheckSizes(const PlaceUnitsArgs& args) {
  if (!IsKnown(args.shape.dtype) || !IsKnown(args.codec)) return OpStatus::kUnsupported;
  if (args.fp8_pools && (args.codec != UnitCodec::kFp8E4M3 || args.rotations != nullptr)) {
    return OpStatus::kUnsupported;
  }
  if (args.n_units < 0 || !RotationFits(args) ||
      !Positive(args.num_slots, args.n_kv, args.shape.page_tokens, args.shape.head_dim)) {
    return OpStatus::kBadShape;
  }
  if (args.n_units == 0) return OpStatus::kOk;
  const bool units = args.encoded != nullptr || args.unit_ptrs != nullptr;
  return BadUnless(units && args.placements != nullptr && PoolsGiven(args));
}

OpStatus Check(const PlaceUnitsArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  return BadUnless(PlacesExist(args) &&
                   (args.valid_rows == nullptr ||
                    AllIn(args.valid_rows, args.n_units, 1, args.shape.page_tokens)) &&
                   (args.rotations == nullptr ||
                    AllIn(args.rotations, args.n_units, std::numeric_limits<int32_t>::min(),
                          args.n_rotations - 1)));
}

OpStatus CheckSizes(const DigestArgs& args) {
  if (!IsKnown(args.dtype) || !IsKnown(args.kind) ||
      (args.out_dtype != args.dtype && args.out_dtype != DType::kF32)) {
    return OpStatus::kUnsupported;
  }
  if (args.n_units < 0 || !Positive(args.page_tokens, args.head_dim) || !PairsUp(args) ||
      args.unit_stride < args.page_tokens * args.head_dim) {
    return OpStatus::kBadShape;
  }
  if (args.jobs != nullptr) return BadUnless(args.n_jobs >= 0 && args.valid_rows == nullptr);
  return BadUnless(args.n_units == 0 || Given(args.units, args.digests));
}

OpStatus Check(const DigestArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  return BadUnless(args.valid_rows == nullptr ||
                   AllIn(args.valid_rows, args.n_units, 1, args.page_tokens));
}

OpStatus CheckSizes(const ScoreArgs& args) {
  if (!IsKnown(args.dtype) || !IsKnown(args.kind)) return OpStatus::kUnsupported;
  if (args.n_pages < 0 || args.first_page < 0 || args.head_dim < 1 || !PairsUp(args) ||
      !Groups(args.n_q, args.n_kv)) {
    return OpStatus::kBadShape;
  }
  if (args.jobs != nullptr) return BadUnless(args.n_jobs >= 0 && args.blocks == nullptr);
  if (args.score_stride != 0 && args.score_stride < args.n_pages) return OpStatus::kBadShape;
  if (args.n_pages == 0) return OpStatus::kOk;
  if (!Given(args.q, args.scores)) return OpStatus::kBadShape;
  if (args.blocks == nullptr) return BadUnless(args.digests != nullptr);
  if (!Positive(args.n_blocks, args.pages_per_block)) return OpStatus::kBadShape;
  const int64_t last_block = (args.first_page + args.n_pages - 1) / args.pages_per_block;
  return BadUnless(last_block < args.n_blocks);
}

OpStatus Check(const ScoreArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  if (args.n_pages == 0 || args.blocks == nullptr) return OpStatus::kOk;
  const int64_t last_block = (args.first_page + args.n_pages - 1) / args.pages_per_block;
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
  if (args.jobs != nullptr) return BadUnless(args.n_jobs >= 0);
  return BadUnless(args.n_pages == 0 || Given(args.scores, args.pooled));
}

OpStatus Check(const TopKArgs& args) {
  if (args.n_rows < 1 || args.n_pages < 0 || args.k < 0) return OpStatus::kBadShape;
  if (args.jobs != nullptr) return BadUnless(args.n_jobs >= 0);
  if (args.n_pages + args.index_offset > kMaxIndex + 1) return OpStatus::kBadShape;
  const bool reads = args.n_pages > 0 && (args.k > 0 || args.nan_counts != nullptr);
  const bool writes = TopKWidth(args.k, args.n_pages) > 0;
  return BadUnless((!reads || args.scores != nullptr) && (!writes || args.indices != nullptr));
}

OpStatus Check(const CorrectHeadsArgs& args) {
  if (args.batch < 0 || args.head_dim < 1 || !Groups(args.n_q, args.n_kv) ||
      args.batch * args.n_kv > kMaxIndex || std::isnan(args.tau) || args.n_corrected == nullptr) {
    return OpStatus::kBadShape;
  }
  const bool queries = args.heads != nullptr || Given(args.q, args.before);
  return BadUnless(args.batch == 0 || (queries && Given(args.cosines, args.corrected)));
}

OpStatus CheckSizes(const PagedAttentionArgs& args) {
  if (!args.fp8_pools && !IsKnown(args.dtype)) return OpStatus::kUnsupported;
  const bool scales = !args.fp8_pools || Given(args.k_scales, args.v_scales);
  return BadUnless(
      Positive(args.batch, args.num_slots, args.n_slots, args.page_tokens, args.head_dim) &&
      Groups(args.n_q, args.n_kv) && std::isfinite(args.scale) && IsCap(args.soft_cap) &&
      args.workspace_bytes >= 0 && scales && Given(args.q, args.out) &&
      (args.pools != nullptr ? !args.fp8_pools : Given(args.k_pool, args.v_pool)) &&
      (args.tokens != nullptr ? args.first_tokens == nullptr
                              : Given(args.slots, args.valid_tokens)));
}

OpStatus Check(const PagedAttentionArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  return BadUnless(
      AllIn(args.slots, args.batch * args.n_slots, 0, args.num_slots - 1) &&
      TokensFor(args.valid_tokens, args.batch * args.n_kv, args.n_slots, args.page_tokens) &&
      FirstTokensFit(args));
}

OpStatus CheckSizes(const MlaAttentionArgs& args) {
  if (!args.fp8_pool && !IsKnown(args.dtype)) return OpStatus::kUnsupported;
  return BadUnless(Positive(args.batch, args.num_slots, args.n_slots, args.page_tokens, args.n_q,
                            args.latent_dim) &&
                   args.rope_dim >= 0 && std::isfinite(args.scale) && args.workspace_bytes >= 0 &&
                   (!args.fp8_pool || args.scales != nullptr) &&
                   Given(args.q, args.pool, args.slots, args.valid_tokens, args.out));
}

OpStatus Check(const MlaAttentionArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  return BadUnless(AllIn(args.slots, args.batch * args.n_slots, 0, args.num_slots - 1) &&
                   TokensFor(args.valid_tokens, args.batch, args.n_slots, args.page_tokens));
}

OpStatus Check(const MergeAttentionArgs& args) {
  if (args.rows < 0 || !Positive(args.n_parts, args.dim)) return OpStatus::kBadShape;
  return BadUnless(args.rows == 0 || Given(args.parts, args.part_lse, args.out));
}

OpStatus CheckSizes(const DenseAttentionArgs& args) {
  if (!IsKnown(args.dtype)) return OpStatus::kUnsupported;
  if (args.t < 0 || !Positive(args.n, args.head_dim) || !Groups(args.n_q, args.n_kv) ||
      !std::isfinite(args.scale) || !IsCap(args.soft_cap) || args.window < 0 ||
      args.workspace_bytes < 0) {
    return OpStatus::kBadShape;
  }
  if (args.t == 0) return OpStatus::kOk;
  const int64_t value_dim = ValueDim(args);
  return BadUnless(Given(args.q, args.k, args.out) && value_dim >= 1 &&
                   value_dim <= args.head_dim && (args.last_key != nullptr || args.t <= args.n));
}

OpStatus Check(const DenseAttentionArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  return BadUnless(args.t == 0 || args.last_key == nullptr ||
                   AllIn(args.last_key, args.t, 0, args.n - 1));
}

OpStatus Check(const RmsNormArgs& args) {
  if (args.rows < 0 || args.dim < 1 || !(args.eps >= 0)) return OpStatus::kBadShape;
  if (args.stride != 0 && args.stride < args.dim) return OpStatus::kBadShape;
  return BadUnless(args.rows == 0 || Given(args.x, args.weight, args.y));
}

OpStatus CheckSizes(const RopeArgs& args) {
  if (!IsKnown(args.dtype)) return OpStatus::kUnsupported;
  if (args.t < 0 || !Positive(args.heads, args.head_dim, args.n_positions) || args.rotary_dim < 0 ||
      args.rotary_dim % 2 != 0 || args.rotary_first < 0 ||
      args.rotary_dim > args.head_dim - args.rotary_first) {
    return OpStatus::kBadShape;
  }
  if (args.t == 0) return OpStatus::kOk;
  if (!Given(args.rows, args.positions)) return OpStatus::kBadShape;
  return BadUnless(args.rotary_dim == 0 || Given(args.cos_table, args.sin_table));
}

OpStatus Check(const RopeArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  return BadUnless(args.t == 0 || AllIn(args.positions, args.t, 0, args.n_positions - 1));
}

OpStatus Check(const SiluMulArgs& args) {
  if (args.function > GateFunction::kGeluTanh) return OpStatus::kUnsupported;
  const auto stride_ok = [&](int64_t stride) { return stride == 0 || stride >= args.dim; };
  if (args.rows < 0 || args.dim < 1 || !stride_ok(args.gate_stride) || !stride_ok(args.up_stride)) {
    return OpStatus::kBadShape;
  }
  return BadUnless(args.rows == 0 || Given(args.gate, args.up, args.y));
}

OpStatus Check(const MatmulArgs& args) {
  if (args.rows < 0 || !Positive(args.in, args.out, args.heads)) return OpStatus::kBadShape;
  return BadUnless(args.rows == 0 || Given(args.x, args.weight, args.y));
}

OpStatus CheckSizes(const NarrowArgs& args) {
  if (args.n < 0 || args.rows < 0 || !IsKnown(args.dtype)) return OpStatus::kBadShape;
  if (args.places != nullptr && args.y_rows < 1) return OpStatus::kBadShape;
  if (args.n == 0 || args.rows == 0 || args.list != nullptr) return OpStatus::kOk;
  return BadUnless(Given(args.x, args.y));
}

OpStatus Check(const NarrowArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  if (args.list == nullptr) {
    return BadUnless(args.places == nullptr || AllIn(args.places, args.rows, 0, args.y_rows - 1));
  }
  for (int64_t r = 0; args.n > 0 && r < args.rows; ++r) {
    if (!Given(args.list[r].from, args.list[r].to)) return OpStatus::kBadShape;
  }
  return OpStatus::kOk;
}

OpStatus Check(const AddArgs& args) {
  return BadUnless(args.n == 0 || (args.n > 0 && Given(args.a, args.b, args.y)));
}

OpStatus CheckSizes(const EmbedArgs& args) {
  if (args.rows < 0 || !Positive(args.vocab, args.dim)) return OpStatus::kBadShape;
  return BadUnless(args.rows == 0 || Given(args.table, args.ids, args.y));
}

OpStatus Check(const EmbedArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  return BadUnless(args.rows == 0 || AllIn(args.ids, args.rows, 0, args.vocab - 1));
}

OpStatus Check(const ChooseExpertsArgs& args) {
  if (args.rows < 0 || args.n_experts < 1 || args.n_experts > kMaxIndex || args.k < 1 ||
      args.k > args.n_experts) {
    return OpStatus::kBadShape;
  }
  return BadUnless(args.rows == 0 || Given(args.logits, args.experts, args.weights));
}

OpStatus CheckSizes(const ExpertMatmulArgs& args) {
  if (args.rows < 0 || !Positive(args.share, args.n_experts, args.in, args.out) ||
      args.rows % args.share != 0) {
    return OpStatus::kBadShape;
  }
  if (args.rows > kMaxIndex || args.in > kMaxIndex || args.out > kMaxIndex) {
    return OpStatus::kUnsupported;
  }
  return BadUnless(args.rows == 0 || Given(args.x, args.weight, args.experts, args.y));
}

OpStatus Check(const ExpertMatmulArgs& args) {
  if (const OpStatus status = CheckSizes(args); status != OpStatus::kOk) return status;
  return BadUnless(args.rows == 0 || AllIn(args.experts, args.rows, 0, args.n_experts - 1));
}

OpStatus Check(const CombineExpertsArgs& args) {
  if (args.rows < 0 || !Positive(args.k, args.dim)) return OpStatus::kBadShape;
  return BadUnless(args.rows == 0 || Given(args.parts, args.weights, args.y));
}

OpStatus Check(const SoftCapArgs& args) {
  if (args.n < 0 || !IsCap(args.cap) || args.cap == 0) return OpStatus::kBadShape;
  return BadUnless(args.n == 0 || Given(args.x, args.y));
}

OpStatus Check(const SampleArgs& args) {
  if (args.rows < 0 || args.vocab < 1 || args.vocab > kMaxIndex) return OpStatus::kBadShape;
  return BadUnless(args.rows == 0 || Given(args.logits, args.tokens));
}

bool InRange(const SampleDraw& draw) {
  return draw.top_k >= 0 && draw.top_p > 0 && draw.top_p <= 1 && draw.temperature >= 0 &&
         std::isfinite(draw.temperature);
}

}  // namespace quire::kernels
