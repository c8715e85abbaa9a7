// SPDX-License-Identifier: Apache-2.0
//
// FrameClient and FrameServer over shared memory: the suites of transports, with payload copied for
// each connection, and with payload lent in place.
#include "transport/testing/pipe_connection.h"

#include "tests/kit/temp_dir.h"
#include "transport/shm/shm_listener.h"
#include "transport/shm/shm_pipe.h"
#include "transport/testing/lent_memory.h"
#include "transport/testing/parts_conformance.h"
#include "transport/testing/streaming_conformance.h"
#include "transport/testing/transport_conformance.h"

namespace quire::testing {
namespace {

class Shm final : public PipeKind {
 public:
  Shm() = default;
  explicit Shm(const std::shared_ptr<LentMemory>& lent) : PipeKind(lent), lent_(lent) {}
  StatusOr<std::unique_ptr<PipeListener>> Listen(PipeListener::Accept accept) override {
    ShmListener::Options options;
    options.path = directory_ / "socket";
    if (lent_ != nullptr) options.memory = {lent_->view()};
    options.share_memory = lent_ != nullptr;
    QUIRE_ASSIGN_OR_RETURN(auto listener, ShmListener::Listen(options, std::move(accept)));
    if (lent_ != nullptr) lent_->SentBy(*listener);
    return listener;
  }
  StatusOr<std::unique_ptr<FramePipe>> Dial(const std::string& address) override {
    return ConnectShm(address, {});
  }

 private:
  TempDir directory_;
  const std::shared_ptr<LentMemory> lent_;
};

std::unique_ptr<TransportUnderTest> MakeCopied(CallHandler* handler, uint64_t max_message_bytes) {
  return std::make_unique<PipeConnectionUnderTest>(std::make_unique<Shm>(), handler,
                                                   max_message_bytes);
}
/// Room for more than any test holds.
std::unique_ptr<TransportUnderTest> MakeLent(CallHandler* handler, uint64_t max_message_bytes) {
  auto kind = std::make_unique<Shm>(std::make_shared<LentMemory>(8 * max_message_bytes));
  return std::make_unique<PipeConnectionUnderTest>(std::move(kind), handler, max_message_bytes);
}

INSTANTIATE_TEST_SUITE_P(ShmCopied, TransportConformance, ::testing::Values(&MakeCopied));
INSTANTIATE_TEST_SUITE_P(ShmCopied, PartsConformance, ::testing::Values(&MakeCopied));
INSTANTIATE_TEST_SUITE_P(ShmCopied, StreamingConformance, ::testing::Values(&MakeCopied));
INSTANTIATE_TEST_SUITE_P(ShmLent, TransportConformance, ::testing::Values(&MakeLent));
INSTANTIATE_TEST_SUITE_P(ShmLent, PartsConformance, ::testing::Values(&MakeLent));
INSTANTIATE_TEST_SUITE_P(ShmLent, StreamingConformance, ::testing::Values(&MakeLent));

// The suite expects payload in place only if the connection reports it.
TEST(ShmConnectionTest, OnlyLentPayloadIsInPlace) {
  TestHandler handler;
  EXPECT_FALSE(MakeCopied(&handler, kTestMaxMessageBytes)->transport().capabilities().in_place);
  EXPECT_TRUE(MakeLent(&handler, kTestMaxMessageBytes)->transport().capabilities().in_place);
}

}  // namespace
}  // namespace quire::testing
