// SPDX-License-Identifier: Apache-2.0
#include "bench/policy/paged_rows.h"

#include "kernels/api/page_digest.h"
#include "kernels/cpu/cpu_kernels.h"

namespace quire::bench {

StatusOr<PagedRows> PagedRows::Make(const KvSpec& spec, std::span<const float> units) {
  PagedRows rows(spec, units);
  for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
    for (uint32_t page = 0; page < rows.num_pages(); ++page) {
      rows.key_blocks_.push_back(rows.key(head, uint64_t{page} * spec.page_tokens).data());
    }
  }
  return rows;
}

StatusOr<std::vector<std::byte>> PagedRows::Digests(kernels::DigestKind kind,
                                                    uint32_t pages) const {
  std::vector<std::byte> digests(pages * kernels::PageDigestBytes(spec_, kind));
  kernels::DigestArgs args = kernels::PageDigestArgs(spec_, kind);
  args.units = units_.data();
  args.digests = digests.data();
  args.n_units = int64_t{pages} * spec_.num_kv_heads;
  const kernels::OpStatus status = kernels::CpuKernels().digest(args);
  if (status == kernels::OpStatus::kOk) return digests;
  return Internal("kernel digest: ", kernels::Describe(status));
}

Status PagedRows::Scores(uint32_t head, std::span<const float> queries, uint64_t tokens,
                         float scale, std::span<float> scores) const {
  // The score of a mean is a product, and a unit's keys are a row of means.
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
