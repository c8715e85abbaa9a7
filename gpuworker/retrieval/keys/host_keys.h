// SPDX-License-Identifier: Apache-2.0
//
// Keys and queries in host memory, for policies whose bookkeeping has no kernel. They read little:
// a query each step, and each complete page.
#ifndef QUIRE_GPUWORKER_RETRIEVAL_KEYS_HOST_KEYS_H_
#define QUIRE_GPUWORKER_RETRIEVAL_KEYS_HOST_KEYS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "gpuworker/device/device.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::worker {

/// The keys of `units`, [n_kv] units on the device, as [n_kv][p][d].
StatusOr<std::vector<float>> ReadKeys(const KvSpec& spec, Device* device, const void* units);
/// A query [n_q][d] on the device.
StatusOr<std::vector<float>> ReadQuery(const KvSpec& spec, Device* device, const float* q);

/// a.b
float Dot(std::span<const float> a, std::span<const float> b);
/// sum += a
void AddTo(std::span<const float> a, std::span<float> sum);

/// How many of `scores` are NaN.
uint64_t CountNan(std::span<const float> scores);
/// The indices of `scores`, the highest first; ties go to the lower index, NaN after every
/// number.
std::vector<uint32_t> BestFirst(std::span<const float> scores);
/// The `count` pages of highest weight, ascending; weight i is of page `first` + i, and pages are
/// ordered as BestFirst does.
std::vector<uint32_t> BestPages(std::span<const float> weights, uint32_t first, uint32_t count);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RETRIEVAL_KEYS_HOST_KEYS_H_
