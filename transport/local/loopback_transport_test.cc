// SPDX-License-Identifier: Apache-2.0
#include "transport/local/loopback_transport.h"

#include "transport/testing/parts_conformance.h"
#include "transport/testing/transport_conformance.h"

namespace quire::testing {
namespace {

class LoopbackUnderTest final : public TransportUnderTest {
 public:
  LoopbackUnderTest(CallHandler* handler, uint64_t max_message_bytes)
      : transport_(handler, {.max_message_bytes = max_message_bytes}) {}
  Transport& transport() override { return transport_; }
  void KillPeer() override { transport_.Close(); }

 private:
  LoopbackTransport transport_;
};

std::unique_ptr<TransportUnderTest> MakeLoopback(CallHandler* handler, uint64_t max_message_bytes) {
  return std::make_unique<LoopbackUnderTest>(handler, max_message_bytes);
}

INSTANTIATE_TEST_SUITE_P(Loopback, TransportConformance, ::testing::Values(&MakeLoopback));
INSTANTIATE_TEST_SUITE_P(Loopback, PartsConformance, ::testing::Values(&MakeLoopback));

class MirrorHandler final : public CallHandler {
 public:
  std::vector<std::string> Methods() const override { return {"m"}; }
  Status Handle(const CallContext&, std::string_view, const CallMessage& request,
                ReplyWriter& reply) override {
    return reply.Write(request);
  }
};

TEST(LoopbackTransportTest, HandsSlicesOverWithoutCopying) {
  MirrorHandler handler;
  LoopbackTransport transport(&handler, {});
  CallMessage request, reply;
  request.payload.Append(std::vector<std::byte>(100));
  ASSERT_TRUE(transport.Call("m", request, &reply, {}).ok());
  EXPECT_EQ(reply.payload.slices()[0].bytes.data(), request.payload.slices()[0].bytes.data());
}

}  // namespace
}  // namespace quire::testing
