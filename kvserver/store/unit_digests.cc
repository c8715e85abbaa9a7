// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/unit_digests.h"

#include <vector>

#include "common/page/rope_rotation.h"
#include "kernels/api/page_digest.h"
#include "kernels/cpu/cpu_kernels.h"

namespace quire::kvserver {
namespace {

using kernels::DigestKind;

Status FromOp(kernels::OpStatus status) {
  if (status == kernels::OpStatus::kOk) return OkStatus();
  return Internal("cannot compute digests: ", kernels::Describe(status));
}

/// Moves of the channels that a spec rotates, each by a fixed number of positions.
class Moves {
 public:
  explicit Moves(const KvSpec& spec)
      : spec_(spec),
        rotation_(spec.rope),
        pairs_(spec.rope.state == RopeState::kPost ? spec.rope.rotary_dim / 2 : 0) {}

  /// Appends the move by `delta` positions.
  void Add(int64_t delta) {
    const size_t at = cosines_.size();
    cosines_.resize(at + pairs_);
    sines_.resize(at + pairs_);
    if (pairs_ > 0) rotation_.FillMove(delta, cosines_.data() + at, sines_.data() + at);
  }
  /// Applies the move with number `move` to one row, [key_dim].
  Status Turn(size_t move, float* row) const {
    if (pairs_ == 0) return OkStatus();
    constexpr int32_t kOnlyPosition = 0;
    const auto width = static_cast<int64_t>(2 * pairs_);
    // Rotated channels are the first; in MLA they follow the latent ones.
    const size_t first = spec_.attention == AttentionKind::kMla ? spec_.latent_dim : 0;
    return FromOp(kernels::CpuKernels().rope({.rows = row + first,
                                              .positions = &kOnlyPosition,
                                              .cos_table = cosines_.data() + move * pairs_,
                                              .sin_table = sines_.data() + move * pairs_,
                                              .t = 1,
                                              .heads = 1,
                                              .head_dim = width,
                                              .rotary_dim = width,
                                              .n_positions = 1,
                                              .interleaved = spec_.rope.interleaved}));
  }

 private:
  const KvSpec& spec_;
  const RopeRotation rotation_;
  const size_t pairs_;
  std::vector<float> cosines_;  ///< [moves][pairs]
  std::vector<float> sines_;
};

/// Content means. Rotations compose and are linear. Keys are turned to their page's first position,
/// which is the same for all pages, and the mean from there to position 0.
class ContentMeans {
 public:
  explicit ContentMeans(const KvSpec& spec)
      : spec_(spec), in_page_(spec), keys_(size_t{spec.page_tokens} * spec.key_dim()) {
    for (uint32_t row = 0; row < spec.page_tokens; ++row) in_page_.Add(-int64_t{row});
  }

  Status Compute(const UnitsToDigest& from, std::byte* digests) {
    const size_t d = spec_.key_dim();
    std::vector<float> mean(d);
    Moves pages(spec_);
    int64_t at = 0;
    for (size_t unit = 0; unit < from.valid_rows.size(); ++unit) {
      const size_t page = unit / spec_.num_kv_heads;
      if (unit % spec_.num_kv_heads == 0) {
        pages.Add(-static_cast<int64_t>(from.first_token + page * spec_.page_tokens));
      }
      QUIRE_RETURN_IF_ERROR(MeanInPage(from, unit, mean.data()));
      QUIRE_RETURN_IF_ERROR(pages.Turn(page, mean.data()));
      for (const float value : mean) StoreElement(digests, at++, spec_.dtype, value);
    }
    return OkStatus();
  }

 private:
  Status MeanInPage(const UnitsToDigest& from, size_t unit, float* mean) {
    const size_t d = spec_.key_dim();
    const int32_t rows = from.valid_rows[unit];
    const auto first = static_cast<int64_t>(unit * spec_.rows_per_unit() * d);
    for (size_t i = 0; i < static_cast<size_t>(rows) * d; ++i) {
      keys_[i] = LoadElement(from.units, first + static_cast<int64_t>(i), spec_.dtype);
    }
    for (int32_t row = 0; row < rows; ++row) {
      QUIRE_RETURN_IF_ERROR(in_page_.Turn(row, keys_.data() + row * d));
    }
    return FromOp(kernels::CpuKernels().digest({.units = keys_.data(),
                                                .unit_stride = static_cast<int64_t>(keys_.size()),
                                                .valid_rows = &rows,
                                                .digests = mean,
                                                .n_units = 1,
                                                .page_tokens = spec_.page_tokens,
                                                .head_dim = static_cast<int64_t>(d),
                                                .dtype = DType::kF32,
                                                .out_dtype = DType::kF32,
                                                .kind = DigestKind::kContent}));
  }

  const KvSpec& spec_;
  Moves in_page_;            ///< [page_tokens] Back to the page's first position.
  std::vector<float> keys_;  ///< [page_tokens][key_dim] of one unit
};

}  // namespace

Status ComputeDigests(const KvSpec& spec, DigestKind kind, const UnitsToDigest& from,
                      std::byte* digests) {
  if (kind == DigestKind::kContent) return ContentMeans(spec).Compute(from, digests);
  kernels::DigestArgs args = kernels::PageDigestArgs(spec, kind);
  args.units = from.units;
  args.valid_rows = from.valid_rows.data();
  args.digests = digests;
  args.n_units = static_cast<int64_t>(from.valid_rows.size());
  return FromOp(kernels::CpuKernels().digest(args));
}

}  // namespace quire::kvserver
