// SPDX-License-Identifier: Apache-2.0
#include "transport/local/inproc_pipe.h"

#include "transport/testing/frame_pipe_conformance.h"

namespace quire::testing {
namespace {

class InprocUnderTest final : public PipesUnderTest {
 public:
  explicit InprocUnderTest(const InprocOptions& options) : pair_(MakeInprocPair(options)) {}
  FramePipe& client() override { return *pair_.client; }
  FramePipe& server() override { return *pair_.server; }
  void KillClient() override { DropInprocConnection(*pair_.client); }
  void KillServer() override { DropInprocConnection(*pair_.server); }

 private:
  InprocPair pair_;
};

std::unique_ptr<PipesUnderTest> MakeInproc() {
  return std::make_unique<InprocUnderTest>(InprocOptions{});
}
std::unique_ptr<PipesUnderTest> MakeDirectPipes() {
  return std::make_unique<InprocUnderTest>(
      InprocOptions{.queue_frames = 1, .direct_landing = true});
}

INSTANTIATE_TEST_SUITE_P(Inproc, FramePipeConformance, ::testing::Values(&MakeInproc));
INSTANTIATE_TEST_SUITE_P(Direct, FramePipeConformance, ::testing::Values(&MakeDirectPipes));

}  // namespace
}  // namespace quire::testing
