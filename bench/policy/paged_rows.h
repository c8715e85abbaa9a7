// SPDX-License-Identifier: Apache-2.0
//
// PagedRows: the keys and values of one layer as pages of float units, [pages][n_kv][2][p][d], with
// the min/max digests of the complete ones. Immutable. Ownership: the units outlive it.
#ifndef QUIRE_BENCH_POLICY_PAGED_ROWS_H_
#define QUIRE_BENCH_POLICY_PAGED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/page/kv_spec.h"
#include "kernels/api/digest.h"

namespace quire::bench {

class PagedRows {
 public:
  /// `spec` has one layer and dtype f32; `units` are whole pages, the last of which may be open.
  static StatusOr<PagedRows> Make(const KvSpec& spec, std::span<const float> units);

  const KvSpec& spec() const { return spec_; }
  uint32_t num_pages() const { return static_cast<uint32_t>(units_.size() / page_values()); }
  /// [n_kv][2][p][d]
  std::span<const float> page(uint32_t page) const {
    return units_.subspan(page * page_values(), page_values());
  }
  std::span<const float> key(uint32_t head, uint64_t token) const { return Row(head, token, 0); }
  std::span<const float> value(uint32_t head, uint64_t token) const { return Row(head, token, 1); }
  /// Products of `queries`, [count][d], with the keys of a KV head's first `tokens` tokens, times
  /// `scale`: [count][tokens].
  [[nodiscard]] Status Scores(uint32_t head, std::span<const float> queries, uint64_t tokens,
                              float scale, std::span<float> scores) const;
  /// Digests of the first `pages` pages, [pages][n_kv][DigestElements].
  [[nodiscard]] StatusOr<std::vector<std::byte>> Digests(kernels::DigestKind kind,
                                                         uint32_t pages) const;

 private:
  PagedRows(const KvSpec& spec, std::span<const float> units) : spec_(spec), units_(units) {}
  size_t unit_values() const { return size_t{2} * spec_.page_tokens * spec_.head_dim; }
  size_t page_values() const { return spec_.num_kv_heads * unit_values(); }
  std::span<const float> Row(uint32_t head, uint64_t token, size_t part) const {
    const size_t p = spec_.page_tokens, d = spec_.head_dim;
    const size_t unit = token / p * spec_.num_kv_heads + head;
    return units_.subspan(unit * unit_values() + (part * p + token % p) * d, d);
  }

  KvSpec spec_;
  std::span<const float> units_;
  std::vector<const void*> key_blocks_;  ///< [n_kv][pages] keys of a unit, [p][d]
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_POLICY_PAGED_ROWS_H_
