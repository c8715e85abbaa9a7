// SPDX-License-Identifier: Apache-2.0
//
// How many recorded stretches a device launches in each step of a generation, for tests of devices
// that record.
#ifndef QUIRE_GPUWORKER_TESTING_RECORDED_STEPS_H_
#define QUIRE_GPUWORKER_TESTING_RECORDED_STEPS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "gpuworker/cache/cache_layout.h"
#include "gpuworker/testing/device_answer.h"

namespace quire::worker::testing {

/// Asks `device`, whose launches so far `count` tells, for `new_tokens` tokens. Answers equal the
/// CPU's within `tolerance`. A step without host work is one launch. Other steps have one launch
/// per stretch around attention.
inline void ExpectLaunchesOfSteps(Device* device, const std::function<int64_t()>& count,
                                  std::string_view policy, uint32_t new_tokens, float tolerance) {
  const DeviceAnswer expected = AskDevice(&CpuDevice(), policy, {.new_tokens = new_tokens});
  std::vector<int64_t> counts;  // Before each step.
  const DeviceAnswer answer =
      AskDevice(device, policy,
                {.new_tokens = new_tokens, .before_step = [&] { counts.push_back(count()); }});
  ExpectSameAnswer(answer, expected, tolerance);

  const uint32_t p = EngineFixture::Small().page_tokens;
  const auto pooled = [&](uint64_t tokens) { return PooledPages((tokens + p - 1) / p); };
  constexpr int64_t kStretches = 3;  // Stretches of two layers.
  ASSERT_EQ(counts.size(), new_tokens);
  for (size_t step = 0; step + 1 < counts.size(); ++step) {
    const uint64_t tokens = kAskedTokens + step;  // Before it.
    const bool in_parts =
        policy != "streaming" && (policy != "full" || pooled(tokens + 1) != pooled(tokens));
    // Nothing is recorded at its first run.
    const int64_t launches = step == 0 ? 0 : in_parts ? kStretches : 1;
    EXPECT_EQ(counts[step + 1] - counts[step], launches) << policy << " step " << step;
  }
}

}  // namespace quire::worker::testing

#endif  // QUIRE_GPUWORKER_TESTING_RECORDED_STEPS_H_
