// SPDX-License-Identifier: Apache-2.0
#include "bench/policy/paged_rows.h"

#include "kernels/cpu/cpu_kernels.h"

namespace quire::bench {

StatusOr<PagedRows> PagedRows::Make(const KvSpec& spec, std::span<const float> units) {
  PagedRows rows(spec, units);
  rows.digests_.resize(rows.num_pages() * rows.page_digest_bytes() / sizeof(float));
  const kernels::OpStatus status =
      kernels::CpuKernels().digest({.units = units.data(),
                                    .unit_stride = static_cast<int64_t>(rows.unit_values()),
                                    .digests = rows.digests_.data(),
                                    .n_units = int64_t{rows.num_pages()} * spec.num_kv_heads,
                                    .page_tokens = spec.page_tokens,
                                    .head_dim = spec.head_dim,
                                    .dtype = DType::kF32,
                                    .out_dtype = DType::kF32});
  if (status != kernels::OpStatus::kOk) {
    return Internal("kernel digest: ", kernels::Describe(status));
  }
  for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
    for (uint32_t page = 0; page < rows.num_pages(); ++page) {
      rows.key_blocks_.push_back(rows.key(head, uint64_t{page} * spec.page_tokens).data());
    }
  }
  return rows;
}

Status PagedRows::Scores(uint32_t head, std::span<const float> queries, uint64_t tokens,
                         float scale, std::span<float> scores) const {
  // The score of a mean is a product, and a unit's keys are as many means in a row.
  const kernels::OpStatus status =
      kernels::CpuKernels().score({.q = queries.data(),
                                   .blocks = key_blocks_.data() + size_t{head} * num_pages(),
                                   .n_blocks = num_pages(),
                                   .pages_per_block = spec_.page_tokens,
                                   .scores = scores.data(),
                                   .n_pages = static_cast<int64_t>(tokens),
                                   .n_q = static_cast<int64_t>(queries.size() / spec_.head_dim),
                                   .n_kv = 1,
                                   .head_dim = spec_.head_dim,
                                   .scale = scale,
                                   .dtype = DType::kF32,
                                   .kind = kernels::DigestKind::kMean});
  if (status == kernels::OpStatus::kOk) return OkStatus();
  return Internal("kernel score: ", kernels::Describe(status));
}

}  // namespace quire::bench
