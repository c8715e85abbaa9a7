// SPDX-License-Identifier: Apache-2.0
#include "common/base/trace/span.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "common/base/trace/tracer.h"

namespace quire {
namespace {

/// Keeps spans; only one thread ends them.
class KeptSpans final : public SpanSink {
 public:
  void Take(SpanRecord span) override { spans.push_back(std::move(span)); }
  void NoteDropped() override { ++dropped; }
  std::vector<SpanRecord> spans;
  int dropped = 0;
};

TEST(SpanTest, WithoutATracerNothingBegins) {
  EXPECT_EQ(CurrentSpan(), nullptr);
  const SpanScope scope("work");
  Span child = ChildOfCurrent("call");
  EXPECT_FALSE(child.is_recorded());
  EXPECT_FALSE(child.context().valid());
  EXPECT_FALSE(Serve(nullptr, "call", {}).context().valid());
}

TEST(SpanTest, SpansJoinTheirParentsAndLieWithinThem) {
  KeptSpans kept;
  const Tracer client({}, &kept), server({}, &kept);
  {
    const SpanScope root(client.Begin("root"));
    {
      Span call = ChildOfCurrent("call", SpanKind::kClient);
      Span served = server.Serve("call", call.context());
      served.Child("ssd").End();
      served.Count("bytes", 7);
      served.End(NotFound("a name that stays here"));
      call.End();
    }
    std::thread([] { EXPECT_EQ(CurrentSpan(), nullptr); }).join();
  }
  EXPECT_EQ(CurrentSpan(), nullptr);
  ASSERT_EQ(kept.spans.size(), 4u);
  const SpanRecord &ssd = kept.spans[0], &served = kept.spans[1], &call = kept.spans[2],
                   &root = kept.spans[3];
  EXPECT_EQ(root.parent, SpanId{});
  EXPECT_EQ(call.parent, root.context.span_id);
  EXPECT_EQ(served.parent, call.context.span_id);
  EXPECT_EQ(ssd.parent, served.context.span_id);
  EXPECT_EQ(call.kind, SpanKind::kClient);
  EXPECT_EQ(served.kind, SpanKind::kServer);
  EXPECT_EQ(served.code, StatusCode::kNotFound);
  EXPECT_EQ(served.counts.front().second, 7);
  for (const SpanRecord& span : kept.spans) {
    EXPECT_EQ(span.context.trace_id, root.context.trace_id);
    EXPECT_LE(span.start_unix_nanos, span.end_unix_nanos);
  }
  EXPECT_LE(root.start_unix_nanos, call.start_unix_nanos);
  EXPECT_LE(call.end_unix_nanos, root.end_unix_nanos);
}

TEST(SpanTest, WhatIsNotSampledTravelsAsSuchAndIsNotRecorded) {
  KeptSpans kept;
  const Tracer never({.ratio = 0}, &kept);
  const SpanScope root(never.Begin("root"));
  const Span call = ChildOfCurrent("call");
  EXPECT_TRUE(call.context().valid());
  EXPECT_FALSE(call.context().sampled);
  const Tracer always({}, &kept);
  EXPECT_FALSE(always.Serve("call", call.context()).is_recorded()) << "it follows its caller";
  EXPECT_TRUE(kept.spans.empty());
}

TEST(SpanTest, ATraceIsBounded) {
  KeptSpans kept;
  const Tracer tracer({}, &kept);
  {
    const SpanScope root(tracer.Begin("root"));
    for (uint32_t i = 0; i < Span::kMostSpans; ++i) ChildOfCurrent("call").End();
    const Span beyond = ChildOfCurrent("call");
    EXPECT_FALSE(beyond.is_recorded());
    EXPECT_FALSE(beyond.context().sampled) << "servers do not record it either";
    EXPECT_EQ(beyond.context().trace_id, CurrentSpan()->context().trace_id);
  }
  EXPECT_EQ(kept.spans.size(), Span::kMostSpans + 1);
  EXPECT_EQ(kept.dropped, 1);
}

TEST(SpanTest, IdsDiffer) {
  KeptSpans kept;
  const Tracer tracer({}, &kept);
  std::map<TraceId, int> traces;
  std::map<SpanId, int> spans;
  for (int i = 0; i < 1000; ++i) {
    const Span span = tracer.Begin("root");
    EXPECT_EQ(traces[span.context().trace_id]++, 0);
    EXPECT_EQ(spans[span.context().span_id]++, 0);
  }
}

}  // namespace
}  // namespace quire
