// SPDX-License-Identifier: Apache-2.0
//
// AddFields: figures that are summed field by field.
#ifndef QUIRE_BENCH_POLICY_ADD_FIELDS_H_
#define QUIRE_BENCH_POLICY_ADD_FIELDS_H_

namespace quire::bench {

/// Adds each of the named fields of `from` to that of `*to`.
template <typename Figures, typename... Fields>
void AddFields(const Figures& from, Figures* to, Fields Figures::*... fields) {
  ((to->*fields += from.*fields), ...);
}

}  // namespace quire::bench

#endif  // QUIRE_BENCH_POLICY_ADD_FIELDS_H_
