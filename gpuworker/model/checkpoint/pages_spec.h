// SPDX-License-Identifier: Apache-2.0
//
// The spec of the KV pages that a checkpoint's decoder makes. It follows from the checkpoint's
// contents alone, so that every program that computes with it finds the same pages.
// Thread-safety: pure functions, but for reading files.
#ifndef QUIRE_GPUWORKER_MODEL_CHECKPOINT_PAGES_SPEC_H_
#define QUIRE_GPUWORKER_MODEL_CHECKPOINT_PAGES_SPEC_H_

#include <array>
#include <cstdint>
#include <string>

#include "gpuworker/model/checkpoint/checkpoint.h"
#include "gpuworker/model/checkpoint/config.h"
#include "quire/dtype.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::worker {

using WeightsHash = std::array<uint8_t, 32>;

/// Choices of a program about its pages.
struct PageForm {
  DType dtype = DType::kF32;
  uint32_t page_tokens = 32;   ///< `p`
  uint32_t segment_pages = 8;  ///< `g`
};

/// Hash of the weights, and of settings that change numbers and have no field in KvSpec. Reads
/// every byte of the checkpoint.
WeightsHash HashOf(const Checkpoint& checkpoint, const ModelConfig& config);

/// Shapes, RoPE and weights of the config and the hash; the rest as `form` says. The name is the
/// config's, or else follows from the hash.
KvSpec SpecOfPages(const ModelConfig& config, const WeightsHash& hash, const PageForm& form);

/// The same of the checkpoint in `directory`, without loading it. Errors name the file and the
/// field, as those of Decoder::Load.
StatusOr<KvSpec> ReadSpecOfPages(const std::string& directory, const PageForm& form);

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_CHECKPOINT_PAGES_SPEC_H_
