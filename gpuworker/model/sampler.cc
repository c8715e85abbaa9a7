// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/sampler.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_kernels.h"

namespace quire::worker {
namespace {

/// The largest number below 1.
constexpr float kLargestDraw = 0x1.fffffep-1f;

}  // namespace

StatusOr<Sampler> Sampler::Create(const SamplingOptions& options) {
  if (!std::isfinite(options.temperature) || options.temperature < 0) {
    return InvalidArgument("temperature is ", options.temperature,
                           ", must be 0 (greedy) or a positive number");
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    return InvalidArgument("top_p is ", options.top_p, ", must be above 0 and at most 1");
  }
  return Sampler(options);
}

Sampler::Sampler(const SamplingOptions& options)
    : random_(options.seed), next_{.temperature = options.temperature, .top_p = options.top_p} {
  Draw();
}

void Sampler::Draw() {
  next_.uniform = std::min(static_cast<float>(random_.Uniform()), kLargestDraw);
}

StatusOr<TokenId> Sampler::Advance(TokenId chosen, size_t vocab) {
  if (chosen < 0) {
    return InvalidArgument("none of the ", vocab,
                           " logits is a number; the model or its KV cache is damaged");
  }
  Draw();
  return chosen;
}

StatusOr<TokenId> Sampler::Sample(std::span<const float> logits) {
  TokenId token = -1;
  if (!logits.empty()) {
    QUIRE_RETURN_IF_ERROR(
        ToStatus(kernels::CpuKernels().sample({.logits = logits.data(),
                                               .draws = &next_,
                                               .tokens = &token,
                                               .rows = 1,
                                               .vocab = static_cast<int64_t>(logits.size())}),
                 "sample"));
  }
  return Advance(token, logits.size());
}

}  // namespace quire::worker
