// SPDX-License-Identifier: Apache-2.0
//
// A server's recall, from request bytes to reply bytes, allocates as often for ten thousand units
// as for a thousand. Only vectors that grow by doubling add some.
#include <gtest/gtest.h>

#include <bit>
#include <numeric>

#include "common/wire/unit_list.h"
#include "kvserver/service/adapters/session_convert.h"
#include "kvserver/session/testing/session_fixture.h"
#include "quire/v1/session.pb.h"
#include "tests/kit/allocation_count.h"

namespace quire::kvserver::testing {
namespace {

using quire::testing::AllocationsOfThisThread;

constexpr uint32_t kFew = 1000, kMany = 10000;
constexpr uint32_t kSlots = kMany / 2;  ///< Two heads.

/// Serializes its parts, like the service.
class EncodingSink final : public RecallSink {
 public:
  explicit EncodingSink(const RecallArgs* args) : args_(args) {}
  Status CheckWanted() const override { return OkStatus(); }
  Status Write(ReplyPart part) override {
    units_ += part.payload.slices().size();
    v1::RecallReply reply;
    RecallPartToProto(*args_, part, &reply);
    EXPECT_TRUE(reply.SerializeToString(&bytes_));
    return OkStatus();
  }
  size_t units() const { return units_; }

 private:
  const RecallArgs* const args_;
  std::string bytes_;
  size_t units_ = 0;
};

class RecallAllocationTest : public SessionFixture {
 protected:
  RecallAllocationTest() {
    const auto opened = OpenWith(0);
    for (uint32_t page = 0; page < kSlots; page += kStep) {
      EXPECT_TRUE(Append(*opened.context, page, kStep).ok());
    }
    const SessionManager::SequenceArgs sequence = {{{ContextRef(opened.id)}}};
    const auto session = manager_.Open(kTenant, {{sequence}, spec_, kSlots, {}});
    EXPECT_TRUE(session.ok()) << session.status();
    id_ = session->id;
  }

  /// The request of a recall for `units` units of one layer, with no earlier one applied.
  std::string Request(uint32_t units) {
    std::vector<uint32_t> pages(units / 2);
    std::iota(pages.begin(), pages.end(), 0u);
    PageLists lists;
    lists.AppendHead(pages);
    lists.RepeatHead();
    v1::RecallRequest request;
    request.set_session_id(id_);
    request.set_epoch(1);
    request.set_exchange(++exchange_);
    request.set_place(true);
    v1::LayerWant& want = *request.add_wants();
    want.add_applied(0);
    wire::EncodeUnitList(lists, want.mutable_units());
    return request.SerializeAsString();
  }
  /// Allocations of a recall of `units` units, all of which are sent.
  uint64_t AllocationsOf(uint32_t units) {
    const std::string bytes = Request(units);
    const auto session = *manager_.Find(kTenant, id_);
    const uint64_t before = AllocationsOfThisThread();
    v1::RecallRequest request;
    EXPECT_TRUE(request.ParseFromString(bytes));
    const auto args = RecallArgsFromProto(request, session->shape(), session->SlotsOfSequences());
    EXPECT_TRUE(args.ok()) << args.status();
    EncodingSink sink(&*args);
    EXPECT_EQ(session->Recall(*args, {}, sink), OkStatus());
    EXPECT_EQ(sink.units(), units);
    return AllocationsOfThisThread() - before;
  }

  static constexpr uint32_t kStep = 40;
  SessionManager manager_{{.max_sessions_per_tenant = 4,
                           .max_reply_bytes = 1 << 30,
                           .store = &store_,
                           .resolver = &resolver_,
                           .ops = &kernels::CpuReference(),
                           .clock = &clock_}};
  uint64_t id_ = 0;
  uint64_t exchange_ = 0;
};

TEST_F(RecallAllocationTest, ARecallOfManyUnitsAllocatesAsOftenAsOneOfFew) {
  AllocationsOf(kMany);  // Reused memory grows to its size.
  const uint64_t few = AllocationsOf(kFew), many = AllocationsOf(kMany);
  // The reply's slices and places, and the buffers of this test's store, grow by doubling.
  const uint64_t doublings = 3 * static_cast<uint64_t>(std::bit_width(kMany / kFew));
  EXPECT_LE(many, few + doublings);
  EXPECT_LT(few, kFew / 8) << "they are not counted in units";
}

}  // namespace
}  // namespace quire::kvserver::testing
