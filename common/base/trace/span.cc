// SPDX-License-Identifier: Apache-2.0
#include "common/base/trace/span.h"

#include <atomic>

#include "common/base/random.h"
#include "common/base/trace/tracer.h"

namespace quire {
namespace {

thread_local const Span* current_span = nullptr;

/// Ids need not be secret, only different, so each thread has a generator of its own.
template <typename Id>
Id NewId() {
  thread_local SeededRandom random(SystemRandom().Next());
  Id id;
  do {
    random.Fill(id);
  } while (id == Id{});
  return id;
}

}  // namespace

/// Parts that the spans below one root of this process share.
struct Span::Local {
  SpanSink* sink;
  const Clock* clock;
  int64_t unix_minus_clock_nanos;  ///< At the root's start, so that spans fit into each other.
  std::atomic<uint32_t> spans = 0;

  int64_t UnixNanos() const {
    return clock->Now().time_since_epoch().count() + unix_minus_clock_nanos;
  }
};

Span::Span(std::shared_ptr<Local> local, const TraceContext& context, const SpanId& parent,
           std::string_view name, SpanKind kind)
    : local_(std::move(local)),
      context_(context),
      record_(std::make_unique<SpanRecord>(SpanRecord{.context = context,
                                                      .parent = parent,
                                                      .name = std::string(name),
                                                      .kind = kind,
                                                      .start_unix_nanos = local_->UnixNanos()})) {}

Span& Span::operator=(Span&& other) noexcept {
  if (this == &other) return *this;
  End();
  local_ = std::move(other.local_);
  context_ = other.context_;
  record_ = std::move(other.record_);
  return *this;
}

Span Span::Child(std::string_view name, SpanKind kind) const {
  if (local_ == nullptr || local_->spans.fetch_add(1, std::memory_order_relaxed) >= kMostSpans) {
    Span unrecorded;
    unrecorded.context_ = context_;
    unrecorded.context_.sampled = false;
    if (local_ != nullptr) local_->sink->NoteDropped();
    return unrecorded;
  }
  TraceContext child = context_;
  child.span_id = NewId<SpanId>();
  return {local_, child, context_.span_id, name, kind};
}

void Span::Count(std::string_view key, uint64_t value) {
  if (record_ != nullptr) record_->counts.emplace_back(key, static_cast<int64_t>(value));
}

void Span::End(const Status& status) {
  if (record_ == nullptr) return;
  record_->end_unix_nanos = local_->UnixNanos();
  record_->code = status.code();
  local_->sink->Take(std::move(*record_));
  record_.reset();
}

const Span* CurrentSpan() { return current_span; }

Span ChildOfCurrent(std::string_view name, SpanKind kind) {
  return current_span == nullptr ? Span() : current_span->Child(name, kind);
}

CurrentSpanScope::CurrentSpanScope(const Span* span) : before_(current_span) {
  current_span = span;
}
CurrentSpanScope::~CurrentSpanScope() { current_span = before_; }

Span Tracer::Make(std::string_view name, SpanKind kind, const TraceContext& parent) const {
  TraceContext own = parent;
  if (!parent.valid()) own.trace_id = NewId<TraceId>();
  own.span_id = NewId<SpanId>();
  own.sampled = sampler_.Samples(own.trace_id, parent);
  if (!own.sampled) {
    Span unrecorded;
    unrecorded.context_ = own;
    return unrecorded;
  }
  auto local = std::make_shared<Span::Local>();
  local->sink = &sink_;
  local->clock = &clock_;
  local->unix_minus_clock_nanos =
      clock_.UnixMicros() * 1000 - clock_.Now().time_since_epoch().count();
  return {std::move(local), own, parent.span_id, name, kind};
}

Span Tracer::Begin(std::string_view name, SpanKind kind) const { return Make(name, kind, {}); }
Span Tracer::Serve(std::string_view name, const TraceContext& caller) const {
  return Make(name, SpanKind::kServer, caller);
}

}  // namespace quire
