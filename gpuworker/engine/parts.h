// SPDX-License-Identifier: Apache-2.0
//
// EngineParts: what an Engine shares with its ingestions and sequences. A plain value of pointers;
// everything outlives its users. Internal to gpuworker/engine.
#ifndef QUIRE_GPUWORKER_ENGINE_PARTS_H_
#define QUIRE_GPUWORKER_ENGINE_PARTS_H_

#include <cstdint>

#include "common/base/threads/executor.h"
#include "gpuworker/cache/host_tier.h"
#include "gpuworker/device/device.h"
#include "gpuworker/model/decoder.h"
#include "quire/client.h"
#include "quire/clock.h"
#include "quire/kv_spec.h"

namespace quire::worker {

class DocumentShares;
class HeadCalibration;
class JointStaging;
struct HeadWeights;
class ReuseCosts;
class SlotMemory;
class SessionSource;
class UnitBuffers;

struct EngineParts {
  const Decoder* decoder = nullptr;
  Client* client = nullptr;
  Device* device = nullptr;
  const KvSpec* spec = nullptr;
  Clock* clock = nullptr;
  uint32_t prefill_chunk_tokens = 0;
  uint64_t max_batch_bytes = 0;          ///< Payload of one call.
  uint32_t question_chunk_tokens = 0;    ///< EngineOptions::question_chunk_tokens.
  bool representatives = false;          ///< EngineOptions::representatives.
  bool statistics = false;               ///< EngineOptions::statistics.
  uint32_t statistics_block_tokens = 0;  ///< EngineOptions::statistics_block_tokens.
  Executor* recall_executor = nullptr;   ///< Takes recalled units in beside the model.
  Executor* offload_executor = nullptr;  ///< Sends completed pages beside the model.
  UnitBuffers* unit_buffers = nullptr;   ///< Buffers that pages are sent from, one each.
  HostTier* host_tier = nullptr;         ///< Null for none.
  DocumentShares* shares = nullptr;   ///< Shared by sequences of a batch; null: nothing is shared.
  SessionSource* sessions = nullptr;  ///< Null: each sequence opens a session of its own.
  JointStaging* staging = nullptr;    ///< Shared by caches of a batch; null: each has its own.
  HeadCalibration* heads = nullptr;   ///< Retrieval heads of the decoder; null: the policy chooses.
  const HeadWeights* head = nullptr;  ///< EngineOptions::head.
  /// Which layers are whole, of sequences of a batch; null: none that selects.
  const SlotMemory* slot_memory = nullptr;
  ReuseCosts* reuse_costs = nullptr;  ///< Measurements of reuse so far.
};

/// Pages of `page_bytes` that one call may carry; at least one.
inline uint32_t PagesPerBatch(const EngineParts& parts, uint64_t page_bytes) {
  const uint64_t pages = parts.max_batch_bytes / page_bytes;
  return pages == 0 ? 1 : static_cast<uint32_t>(pages < UINT32_MAX ? pages : UINT32_MAX);
}

/// Bound of the scores of the model's attention; 0 for none.
inline float SoftCapOf(const EngineParts& parts) {
  return static_cast<float>(parts.decoder->config().gemma.attention_soft_cap);
}

/// Seconds since `start`.
inline double SecondsSince(const Clock& clock, TimePoint start) {
  return std::chrono::duration<double>(clock.Now() - start).count();
}

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_PARTS_H_
