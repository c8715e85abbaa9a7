// SPDX-License-Identifier: Apache-2.0
//
// TraceContext: the place of a call in a trace, as it travels with the call (W3C Trace Context). It
// names the trace and the span that made the call, and says whether that span is recorded. Plain
// values; thread-safety: none needed.
#ifndef QUIRE_COMMON_BASE_TRACE_TRACE_CONTEXT_H_
#define QUIRE_COMMON_BASE_TRACE_TRACE_CONTEXT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

using TraceId = std::array<uint8_t, 16>;  ///< All zero: none.
using SpanId = std::array<uint8_t, 8>;    ///< All zero: none.

/// Name of the header or call metadata that carries FormatTraceparent's text.
inline constexpr char kTraceparent[] = "traceparent";

struct TraceContext {
  TraceId trace_id = {};
  SpanId span_id = {};
  bool sampled = false;  ///< The span is recorded, and so are those below it.

  /// False for a call that belongs to no trace.
  bool valid() const { return trace_id != TraceId{} && span_id != SpanId{}; }
  bool operator==(const TraceContext&) const = default;
};

/// "00-<32 hex digits>-<16 hex digits>-<flags>". REQUIRES: the context is valid.
std::string FormatTraceparent(const TraceContext& context);

/// Nullopt for text that is no traceparent, which callers ignore. A later version's text is read as
/// far as this version goes, as the standard asks.
std::optional<TraceContext> ParseTraceparent(std::string_view text);

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_TRACE_TRACE_CONTEXT_H_
