// SPDX-License-Identifier: Apache-2.0
#include "kvserver/store/policy/eviction/eviction_factory.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>

#include "kvserver/store/policy/eviction/hinted_eviction.h"
#include "kvserver/store/policy/testing/eviction_conformance.h"

namespace quire::kvserver::testing {
namespace {

using ::testing::HasSubstr;

std::vector<MakeEviction> EveryPolicy() {
  std::vector<MakeEviction> all;
  for (const std::string& name : EvictionPolicyNames()) {
    all.push_back([name] { return MakeEvictionPolicy(name).value(); });
  }
  all.push_back([] {
    return std::make_unique<HintedEviction>(MakeEvictionPolicy("lru").value(),
                                            HintedEviction::Limits());
  });
  return all;
}

INSTANTIATE_TEST_SUITE_P(ByName, EvictionConformanceTest, ::testing::ValuesIn(EveryPolicy()),
                         [](const auto& info) {
                           const std::vector<std::string> names = EvictionPolicyNames();
                           std::string name =
                               info.index < names.size() ? names[info.index] : "hinted";
                           std::erase_if(name, [](unsigned char c) { return !std::isalnum(c); });
                           return name;
                         });

TEST(EvictionFactoryTest, AnUnknownNameIsRefusedNamingTheKnownOnes) {
  const Status status = MakeEvictionPolicy("belady").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("'belady'"));
  for (const std::string& name : EvictionPolicyNames()) {
    EXPECT_THAT(std::string(Message(status)), HasSubstr(name));
  }
}

}  // namespace
}  // namespace quire::kvserver::testing
