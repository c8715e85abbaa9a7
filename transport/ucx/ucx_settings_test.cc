// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/ucx_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace quire {
namespace {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

using Variables = std::set<std::string>;

UcxSettings Choose(const UcxOptions& options, const Variables& variables = {},
                   bool loopback = false) {
  return ChooseUcxSettings(options, loopback,
                           [&](const std::string& name) { return variables.contains(name); });
}

TEST(UcxSettingsTest, LargeMessagesGoFromWhereTheyLieAndAreNeverFetchedUnlessSomebodySaysSo) {
  const UcxSettings settings = Choose({.segment_bytes = 1000});
  EXPECT_THAT(settings.values,
              UnorderedElementsAre(Pair("RNDV_THRESH", "inf"), Pair("ZCOPY_THRESH", "65536"),
                                   Pair("MAX_IOV", "16"), Pair("TX_SEG_SIZE", "1000"),
                                   Pair("RX_SEG_SIZE", "1000")));
  EXPECT_EQ(settings.gather_bytes, UINT64_MAX);
}

TEST(UcxSettingsTest, PutsOfDirectLandingsMayGoWithoutACopy) {
  const UcxSettings settings = Choose({.direct_landings = true});
  EXPECT_FALSE(settings.values.contains("ZCOPY_THRESH"));
  EXPECT_EQ(settings.values.at("RNDV_THRESH"), "inf") << "that is of messages alone";
  EXPECT_EQ(settings.gather_bytes, UINT64_MAX);
}

TEST(UcxSettingsTest, RendezvousLeavesUcxItsZeroCopyAndTellsWhatHasToBeInOnePiece) {
  const UcxSettings settings = Choose({.rendezvous_bytes = 5000});
  EXPECT_EQ(settings.values.at("RNDV_THRESH"), "5000");
  EXPECT_FALSE(settings.values.contains("ZCOPY_THRESH"));
  EXPECT_EQ(settings.gather_bytes, 5000u);
}

TEST(UcxSettingsTest, WithoutDetectionOfDeadPeersNothingGoesByRendezvous) {
  const UcxOptions options{.peer_failure_detection = false, .rendezvous_bytes = 5000};
  const UcxSettings settings = Choose(options, {"UCX_RNDV_THRESH"});
  EXPECT_EQ(settings.values.at("RNDV_THRESH"), "inf") << "whatever the variable says";
  EXPECT_EQ(settings.gather_bytes, UINT64_MAX);
}

TEST(UcxSettingsTest, LoopbackMeansItsDevice) {
  EXPECT_EQ(Choose({}, {}, /*loopback=*/true).values.at("NET_DEVICES"), "lo");
  EXPECT_EQ(Choose({.devices = "eth0"}, {}, /*loopback=*/true).values.at("NET_DEVICES"), "eth0");
  EXPECT_FALSE(Choose({}).values.contains("NET_DEVICES"));
}

TEST(UcxSettingsTest, VariablesOfTheAdministratorGoOverDefaults) {
  const Variables all = {"UCX_TLS",          "UCX_NET_DEVICES", "UCX_RNDV_THRESH",
                         "UCX_ZCOPY_THRESH", "UCX_TX_SEG_SIZE", "UCX_TCP_RX_SEG_SIZE",
                         "UCX_TCP_MAX_IOV"};
  const UcxSettings settings = Choose({}, all, /*loopback=*/true);
  EXPECT_TRUE(settings.values.empty());
  EXPECT_EQ(settings.gather_bytes, 0u) << "any message may go by rendezvous";

  // Each variable affects its own setting only.
  for (const std::string& variable : all) {
    SCOPED_TRACE(variable);
    UcxSettings expected = Choose({}, {}, /*loopback=*/true);
    std::string name = variable.substr(4);
    if (name.starts_with("TCP_")) name = name.substr(4);
    expected.values.erase(name);
    if (name == "RNDV_THRESH") expected.gather_bytes = 0;
    EXPECT_EQ(Choose({}, {variable}, /*loopback=*/true), expected);
  }
}

TEST(UcxSettingsTest, WhatOptionsAskForByNameGoesOverVariables) {
  const UcxOptions options{.transports = "tcp", .devices = "eth0", .rendezvous_bytes = 5000};
  const UcxSettings settings =
      Choose(options, {"UCX_TLS", "UCX_NET_DEVICES", "UCX_RNDV_THRESH", "UCX_ZCOPY_THRESH",
                       "UCX_TX_SEG_SIZE", "UCX_RX_SEG_SIZE"});
  EXPECT_THAT(settings.values,
              UnorderedElementsAre(Pair("TLS", "tcp"), Pair("NET_DEVICES", "eth0"),
                                   Pair("RNDV_THRESH", "5000"), Pair("MAX_IOV", "16")));
  EXPECT_EQ(settings.gather_bytes, 5000u);
}

}  // namespace
}  // namespace quire
