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
  return rows;
}

}  // namespace quire::bench
