// SPDX-License-Identifier: Apache-2.0
//
// Tracer: begins the spans of a process that no other span of it contains, and decides which traces
// are recorded. Ended spans go to a SpanSink. A component that may be traced takes a Tracer* that
// is null when tracing is off.
//
// Thread-safety: all methods may be called concurrently. Ownership: sink and clock outlive it.
#ifndef QUIRE_COMMON_BASE_TRACE_TRACER_H_
#define QUIRE_COMMON_BASE_TRACE_TRACER_H_

#include <string_view>

#include "common/base/trace/span.h"
#include "common/base/trace/trace_sampler.h"
#include "quire/clock.h"

namespace quire {

/// Receives ended spans. Thread-safety: any thread.
class SpanSink {
 public:
  virtual ~SpanSink() = default;
  /// Takes a span, or drops it. Never waits.
  virtual void Take(SpanRecord span) = 0;
  /// Notes a span that was not recorded, because its trace had enough.
  virtual void NoteDropped() = 0;
};

class Tracer {
 public:
  Tracer(const TraceSampler& sampler, SpanSink* sink, const Clock* clock = &SystemClock())
      : sampler_(sampler), sink_(*sink), clock_(*clock) {}

  /// The root of a new trace.
  [[nodiscard]] Span Begin(std::string_view name, SpanKind kind = SpanKind::kInternal) const;
  /// The span of a call that came in as part of `caller`'s trace. Without one it is a root.
  [[nodiscard]] Span Serve(std::string_view name, const TraceContext& caller) const;

 private:
  friend class Span;
  Span Make(std::string_view name, SpanKind kind, const TraceContext& parent) const;

  const TraceSampler sampler_;
  SpanSink& sink_;
  const Clock& clock_;
};

/// `tracer`'s Serve; a span that does nothing when that is null.
[[nodiscard]] inline Span Serve(const Tracer* tracer, std::string_view name,
                                const TraceContext& caller) {
  return tracer == nullptr ? Span() : tracer->Serve(name, caller);
}

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_TRACE_TRACER_H_
