// SPDX-License-Identifier: Apache-2.0
//
// ./dev cluster-demo as people run it. It checks its answers itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/kit/child_process.h"
#include "tests/kit/paths.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

TEST(ClusterDemoProcessTest, ItsAnswersStayTheSame) {
  const testing::ChildResult demo = testing::RunChild(
      QUIRE_SOURCE_DIR "/tools/cluster_demo/cluster_demo.sh", {QUIRE_BINARY_DIR "/bin"});
  EXPECT_EQ(demo.exit_code, 0) << demo.out << demo.err;
  for (const char* const step :
       {"6 documents were put, each to its two owners", "b was killed during the questions",
        "during and after that: all as before", "every document is at its owners again",
        "7 answers with four servers: all as before", "7 answers without a: all as before",
        "done: nothing was lost"}) {
    EXPECT_THAT(demo.out, HasSubstr(step));
  }
}

}  // namespace
}  // namespace quire
