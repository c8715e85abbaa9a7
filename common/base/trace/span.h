// SPDX-License-Identifier: Apache-2.0
//
// Span: a piece of work of a trace, from its start to its end. A span without a tracer does
// nothing: tracing that is off costs a branch where a span would begin.
//
//   const SpanScope put(tracer.Begin("quire put"));            // The root, current in this scope.
//   Span call = ChildOfCurrent("quire.v1.Store/Fetch", SpanKind::kClient);
//   ... {.trace = call.context()} ...                          // Travels with the call.
//   call.End(status);
//
// Spans carry sizes and counts. They never carry token ids, keys, names of documents or text.
//
// The span that is current on a thread is the parent of those that begin there by ChildOfCurrent. A
// scope makes it so, and the scope's end takes it back; no other thread sees it.
//
// Thread-safety: one thread at a time uses a span, or its Child may be called by several while
// nobody ends it. Ownership: a span owns what it has recorded until its end; its tracer outlives
// it.
#ifndef QUIRE_COMMON_BASE_TRACE_SPAN_H_
#define QUIRE_COMMON_BASE_TRACE_SPAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/trace/trace_context.h"
#include "quire/status.h"

namespace quire {

/// Values are those of OTLP.
enum class SpanKind : uint8_t { kInternal = 1, kServer = 2, kClient = 3 };

/// A span that has ended.
struct SpanRecord {
  TraceContext context;
  SpanId parent = {};  ///< All zero: the trace begins here.
  std::string name;
  SpanKind kind = SpanKind::kInternal;
  int64_t start_unix_nanos = 0;
  int64_t end_unix_nanos = 0;
  StatusCode code = StatusCode::kOk;
  std::vector<std::pair<std::string_view, int64_t>> counts = {};  ///< Keys are literals.
};

class Tracer;

class Span {
 public:
  /// Most spans that one process records below one root of its own. Calls beyond are not recorded,
  /// neither here nor by servers.
  static constexpr uint32_t kMostSpans = 1024;

  Span() = default;  ///< Does nothing.
  ~Span() { End(); }
  Span(Span&& other) noexcept = default;
  Span& operator=(Span&& other) noexcept;

  bool is_recorded() const { return record_ != nullptr; }
  /// The place of calls that are made for it; invalid without a tracer.
  const TraceContext& context() const { return context_; }
  /// A span within this one. Beyond kMostSpans it is not recorded.
  [[nodiscard]] Span Child(std::string_view name, SpanKind kind = SpanKind::kInternal) const;
  /// Adds a count. `key` is a literal.
  void Count(std::string_view key, uint64_t value);
  /// Ends it now; a further end does nothing.
  void End(const Status& status = OkStatus());

 private:
  friend class Tracer;
  struct Local;
  Span(std::shared_ptr<Local> local, const TraceContext& context, const SpanId& parent,
       std::string_view name, SpanKind kind);

  std::shared_ptr<Local> local_;  ///< Shared with the spans below; null when not recorded.
  TraceContext context_;
  std::unique_ptr<SpanRecord> record_;
};

/// The span that is current on this thread; null without one.
const Span* CurrentSpan();
/// A child of it; does nothing without one.
[[nodiscard]] Span ChildOfCurrent(std::string_view name, SpanKind kind = SpanKind::kInternal);

/// Makes a span of somebody else current on this thread while the scope lasts.
class CurrentSpanScope {
 public:
  /// `span` may be null, and neither moves nor ends during the scope.
  explicit CurrentSpanScope(const Span* span);
  ~CurrentSpanScope();
  CurrentSpanScope(const CurrentSpanScope&) = delete;
  CurrentSpanScope& operator=(const CurrentSpanScope&) = delete;

 private:
  const Span* const before_;
};

/// A span that is current on this thread from its start to its end.
class SpanScope {
 public:
  explicit SpanScope(Span span) : span_(std::move(span)), current_(&span_) {}
  /// A child of the span that is current.
  explicit SpanScope(std::string_view name) : SpanScope(ChildOfCurrent(name)) {}
  Span& span() { return span_; }

 private:
  Span span_;
  const CurrentSpanScope current_;
};

/// Runs `step` within a child of the current span.
template <typename Step>
auto Traced(std::string_view name, const Step& step) {
  const SpanScope span(name);
  return step();
}

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_TRACE_SPAN_H_
