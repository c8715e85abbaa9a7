// SPDX-License-Identifier: Apache-2.0
//
// KV heads of a model that look back for what they have just seen (RazorAttention, arXiv
// 2407.15891, section 3.2). They need every page. The others need only sinks and a window. A text
// of random tokens is read several times over. An echo head attends to where its token was before,
// an induction head to what followed there. Nothing but position and repetition can tell it where
// that is, so the attention that goes there is the head's score.
#ifndef QUIRE_GPUWORKER_ENGINE_INGEST_RETRIEVAL_HEADS_H_
#define QUIRE_GPUWORKER_ENGINE_INGEST_RETRIEVAL_HEADS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/threads/mutex.h"
#include "gpuworker/device/device.h"
#include "gpuworker/model/decoder.h"
#include "quire/status.h"

namespace quire::worker {

/// Shares of attention in 0..1, a mean over the repeated text, [num_layers * n_kv]. Each is the
/// largest of the query heads in the KV head's group.
struct HeadScores {
  std::vector<float> echo;
  std::vector<float> induction;
};

/// Reads 128 random tokens four times, or fewer where the model's context or vocabulary is smaller.
/// The same model gives the same scores. INVALID_ARGUMENT for a context below 8 tokens.
StatusOr<HeadScores> ScoreHeads(const Decoder& decoder, Device* device);

/// The published 15 % of all heads, ascending: for one that echoes most, 14 that induce most.
std::vector<uint32_t> RetrievalHeads(const HeadScores& scores);

/// Those of one model, found when they are asked for first. Thread-safe. Both outlive it.
class HeadCalibration {
 public:
  HeadCalibration(const Decoder* decoder, Device* device) : decoder_(decoder), device_(device) {}
  StatusOr<std::vector<uint32_t>> Heads() QUIRE_EXCLUDES(mutex_);

 private:
  const Decoder* const decoder_;
  Device* const device_;
  Mutex mutex_;
  std::optional<std::vector<uint32_t>> heads_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_INGEST_RETRIEVAL_HEADS_H_
