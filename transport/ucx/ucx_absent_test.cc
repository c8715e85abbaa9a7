// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string_view>

#include "transport/ucx/ucx.h"

namespace quire {
namespace {

TEST(UcxAbsentTest, BothEndsSayThatAndHowToGetIt) {
  EXPECT_FALSE(UcxAvailable());
  const Status connecting = ConnectUcx("127.0.0.1:1", {}).status();
  EXPECT_EQ(connecting.code(), StatusCode::kUnimplemented);
  EXPECT_NE(Message(connecting).find("QUIRE_WITH_UCX"), std::string_view::npos);
  const Status listening = ListenUcx("127.0.0.1:0", {}, [](auto) {}).status();
  EXPECT_EQ(listening.code(), StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace quire
