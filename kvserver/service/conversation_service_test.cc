// SPDX-License-Identifier: Apache-2.0
//
// Hints and conversations on the wire.
#include <gtest/gtest.h>

#include <string>

#include "kvserver/service/testing/service_fixture.h"
#include "quire/v1/conversation.pb.h"

namespace quire::kvserver::testing {
namespace {

class ConversationServiceTest : public ServiceFixture {
 protected:
  static v1::Hints HintsOf(const std::string& conversation, uint64_t keep_seconds = 0) {
    v1::Hints hints;
    hints.set_conversation(conversation);
    hints.set_keep_seconds(keep_seconds);
    return hints;
  }
  /// A sealed context of `pages` whose segments have hints.
  v1::ContextInfo SealedWith(const v1::Hints& hints, uint32_t pages) {
    v1::OpenContextRequest open;
    *open.mutable_spec() = SpecProto();
    *open.mutable_hints() = hints;
    const auto opened = Call<v1::OpenContextReply>("Store/OpenContext", open);
    EXPECT_TRUE(opened.ok()) << opened.status();
    EXPECT_TRUE(Append(opened->context_id(), 0, pages).ok());
    return Seal(opened->context_id(), pages, 0)->context();
  }
  StatusOr<v1::PrefetchReply> Prefetch(const std::string& conversation, uint32_t first = 0) {
    v1::PrefetchRequest request;
    request.set_conversation(conversation);
    request.set_first_segment(first);
    return Call<v1::PrefetchReply>("Conversations/Prefetch", request);
  }
  StatusOr<v1::ReleaseReply> Release(const std::string& conversation) {
    v1::ReleaseRequest request;
    request.set_conversation(conversation);
    return Call<v1::ReleaseReply>("Conversations/Release", request);
  }
  uint64_t Metric(const std::string& name) {
    const auto stats = Call<v1::StatsReply>("Admin/Stats", v1::StatsRequest());
    for (const v1::CounterValue& counter : stats->counters()) {
      if (counter.name() == name) return counter.value();
    }
    ADD_FAILURE() << "no metric " << name;
    return 0;
  }
};

TEST_F(ConversationServiceTest, HintsComeWithPutsLookUpsAndSessionsAndEndWithARelease) {
  const v1::ContextInfo context = SealedWith(HintsOf("a", 60), 8);
  const auto segments = static_cast<uint64_t>(context.segment_keys_size());
  ASSERT_GE(segments, 2u);
  EXPECT_GT(Metric("dram_bytes_raised"), 0u);
  v1::LookupRequest lookup;
  *lookup.mutable_spec() = SpecProto();
  for (const TokenId id : TestTokens(8 * spec_.page_tokens, 100)) lookup.add_tokens(id);
  *lookup.mutable_hints() = HintsOf("b");
  EXPECT_EQ(Call<v1::LookupReply>("Store/Lookup", lookup)->segment_keys_size(),
            context.segment_keys_size());
  v1::OpenSessionRequest session;
  v1::SequenceSpec& sequence = *session.add_sequences();
  *sequence.add_members()->mutable_context() = RefTo(context.chain_tip());
  *sequence.mutable_hints() = HintsOf("c");
  *session.mutable_spec() = SpecProto();
  session.set_slots_per_head(2);
  ASSERT_TRUE(Call<v1::OpenSessionReply>("Session/Open", session).ok());
  EXPECT_EQ(Metric("conversations"), 3u);
  EXPECT_EQ(Metric("segments_hinted"), segments);

  for (const char* const name : {"a", "b", "c"}) {
    const auto prefetched = Prefetch(name);
    ASSERT_TRUE(prefetched.ok()) << prefetched.status();
    EXPECT_EQ(prefetched->chain_tip(), context.chain_tip()) << name;
    EXPECT_EQ(prefetched->segments_in_dram(), segments);
    EXPECT_EQ(prefetched->next_segment(), prefetched->num_segments());
  }
  EXPECT_EQ(Prefetch("a", static_cast<uint32_t>(segments)).status().code(),
            StatusCode::kOutOfRange);
  tenant_ = "team-b";
  EXPECT_EQ(Release("a").status().code(), StatusCode::kNotFound) << "another tenant's";
  tenant_ = "default";
  EXPECT_EQ(Release("a")->segments_released(), 0u) << "others use them";
  EXPECT_EQ(Metric("dram_bytes_raised"), 0u);
  EXPECT_EQ(Release("b")->segments_released(), 0u);
  EXPECT_EQ(Release("c")->segments_released(), segments);
  EXPECT_EQ(Prefetch("c").status().code(), StatusCode::kNotFound);
}

TEST_F(ConversationServiceTest, HintsThatCannotBeAreRefusedBeforeAnythingIsDone) {
  v1::Hints priority;
  priority.set_priority(static_cast<v1::KeepPriority>(4));
  const v1::Hints hints[] = {HintsOf("a", kMaxKeepSeconds + 1), HintsOf("a\n"),
                             HintsOf(std::string(kMaxConversationBytes + 1, 'a')), priority};
  for (const v1::Hints& one : hints) {
    v1::OpenContextRequest open;
    *open.mutable_spec() = SpecProto();
    *open.mutable_hints() = one;
    const Status refused = Call<v1::OpenContextReply>("Store/OpenContext", open).status();
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << refused;
  }
  EXPECT_EQ(Metric("contexts_open"), 0u);
  EXPECT_EQ(Release("").status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quire::kvserver::testing
