// SPDX-License-Identifier: Apache-2.0
#include "cluster/directory/testing/local_directory.h"

#include "cluster/directory/testing/directory_conformance.h"

namespace quire::cluster::testing {
namespace {

class LocalHarness final : public DirectoryHarness {
 public:
  DocumentAgreement& agreement() override { return directory_; }
  DirectoryFeed& feed() override { return directory_; }
  void ForgetChanges() override { directory_.ForgetChanges(); }

 private:
  LocalDirectory directory_;
};

std::unique_ptr<DirectoryHarness> MakeLocal() { return std::make_unique<LocalHarness>(); }

INSTANTIATE_TEST_SUITE_P(Local, DirectoryConformanceTest, ::testing::Values(&MakeLocal));

TEST(LocalDirectoryTest, RemembersTheLastChangesOnly) {
  LocalDirectory directory;
  const uint64_t since = directory.Reserve("t", {"books", "a"})->revision;
  for (size_t i = 0; i < LocalDirectory::kMostRemembered; ++i) {
    (void)directory.Reserve("t", {"books", "a"});
  }
  EXPECT_EQ(directory.Changes(since, TimePoint::min())->entries.size(),
            LocalDirectory::kMostRemembered);
  (void)directory.Reserve("t", {"books", "a"});
  EXPECT_EQ(directory.Changes(since, TimePoint::min()).status().code(), StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace quire::cluster::testing
