// SPDX-License-Identifier: Apache-2.0
//
// TraceSampler: which traces are recorded. A pure decision; plain values.
#ifndef QUIRE_COMMON_BASE_TRACE_TRACE_SAMPLER_H_
#define QUIRE_COMMON_BASE_TRACE_TRACE_SAMPLER_H_

#include <cstdint>

#include "common/base/trace/trace_context.h"

namespace quire {

struct TraceSampler {
  double ratio = 1;          ///< Share of the traces that begin here, 0 to 1.
  bool parent_based = true;  ///< A call that is part of a trace follows its caller.

  /// Decides for a span of trace `id`. `parent` is invalid where the trace begins here. The same id
  /// has the same answer in every process.
  bool Samples(const TraceId& id, const TraceContext& parent) const {
    if (parent_based && parent.valid()) return parent.sampled;
    if (ratio >= 1) return true;
    uint64_t low = 0;  // The last bytes, which the standard asks to be random.
    for (size_t i = 8; i < id.size(); ++i) low = low << 8 | id[i];
    return static_cast<double>(low >> 11) * 0x1.0p-53 < ratio;
  }
};

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_TRACE_TRACE_SAMPLER_H_
