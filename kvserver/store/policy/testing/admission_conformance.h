// SPDX-License-Identifier: Apache-2.0
//
// Conformance suite of AdmissionPolicy, whatever it admits.
#ifndef QUIRE_KVSERVER_STORE_POLICY_TESTING_ADMISSION_CONFORMANCE_H_
#define QUIRE_KVSERVER_STORE_POLICY_TESTING_ADMISSION_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>

#include "common/base/random.h"
#include "kvserver/store/policy/admission_policy.h"

namespace quire::kvserver::testing {

using MakeAdmission = std::function<std::unique_ptr<AdmissionPolicy>()>;

class AdmissionConformanceTest : public ::testing::TestWithParam<MakeAdmission> {
 protected:
  std::unique_ptr<AdmissionPolicy> policy_ = GetParam()();
};

TEST_P(AdmissionConformanceTest, WhatMustPersistIsAlwaysAdmitted) {
  const uint64_t seed = 3;
  SCOPED_TRACE("seed " + std::to_string(seed));
  SeededRandom random(seed);
  TimePoint now{};
  for (int i = 0; i < 10000; ++i) {
    now += Duration(random.Below(1000000));
    const uint64_t bytes = random.Next() >> random.Below(64);
    const bool must_persist = random.Below(2) == 0;
    const bool admitted = policy_->Admit({.bytes = bytes, .must_persist = must_persist}, now);
    if (must_persist) {
      ASSERT_TRUE(admitted);
    }
  }
}

TEST_P(AdmissionConformanceTest, TakesTheEndsOfTimeAndSize) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  EXPECT_TRUE(policy_->Admit({.bytes = kMost, .must_persist = true}, TimePoint::min()));
  EXPECT_TRUE(policy_->Admit({.bytes = kMost, .must_persist = true}, TimePoint::max()));
}

}  // namespace quire::kvserver::testing

#endif  // QUIRE_KVSERVER_STORE_POLICY_TESTING_ADMISSION_CONFORMANCE_H_
