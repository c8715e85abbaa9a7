// SPDX-License-Identifier: Apache-2.0
#include "kvserver/session/session_landings.h"

#include <gtest/gtest.h>

#include <optional>

namespace quire::kvserver {
namespace {

class FakeLanding final : public CallLanding {
 public:
  bool Claim(const void* owner) override {
    if (owner_ == nullptr) owner_ = owner;
    return owner_ == owner;
  }
  void Revoke() override { ++revoked; }

  int revoked = 0;

 private:
  const void* owner_ = nullptr;
};

TEST(SessionLandingsTest, ALandingIsOfTheSessionThatUsedItFirst) {
  const auto landing = std::make_shared<FakeLanding>();
  SessionLandings mine, another;
  EXPECT_EQ(mine.Use(landing), OkStatus());
  EXPECT_EQ(mine.Use(landing), OkStatus());
  EXPECT_EQ(another.Use(landing).code(), StatusCode::kPermissionDenied);
}

TEST(SessionLandingsTest, LandingsEndWithTheirSession) {
  const auto first = std::make_shared<FakeLanding>(), second = std::make_shared<FakeLanding>(),
             unused = std::make_shared<FakeLanding>();
  std::optional<SessionLandings> session(std::in_place);
  for (const auto& landing : {first, second, first}) ASSERT_EQ(session->Use(landing), OkStatus());
  session->End();
  EXPECT_EQ(first->revoked, 1);
  EXPECT_EQ(second->revoked, 1);
  EXPECT_EQ(session->Use(unused).code(), StatusCode::kNotFound);
  session.reset();
  EXPECT_EQ(first->revoked, 1);
  EXPECT_EQ(unused->revoked, 0);
}

TEST(SessionLandingsTest, ASessionThatIsForgottenEndsThemToo) {
  const auto landing = std::make_shared<FakeLanding>();
  {
    SessionLandings session;
    ASSERT_EQ(session.Use(landing), OkStatus());
  }
  EXPECT_EQ(landing->revoked, 1);
}

TEST(SessionLandingsTest, ALandingMayGoBeforeItsSession) {
  SessionLandings session;
  ASSERT_EQ(session.Use(std::make_shared<FakeLanding>()), OkStatus());
  ASSERT_EQ(session.Use(std::make_shared<FakeLanding>()), OkStatus());
  session.End();
}

}  // namespace
}  // namespace quire::kvserver
