// SPDX-License-Identifier: Apache-2.0
//
// WriteTinyModel: a random checkpoint (config.json and model.safetensors) of any small shape,
// for tests that need some decoder. The same shape and seed make the same bytes. For a family that
// has no random ones it copies a checkpoint. Tests that use it link `model`.
#ifndef QUIRE_TESTS_KIT_TINY_MODEL_H_
#define QUIRE_TESTS_KIT_TINY_MODEL_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "gpuworker/model/checkpoint/random_checkpoint.h"

namespace quire::testing {

struct TinyModel {
  worker::Architecture architecture = worker::Architecture::kLlama;
  uint32_t num_layers = 2;
  uint32_t num_query_heads = 4;
  uint32_t num_kv_heads = 2;
  uint32_t head_dim = 8;
  uint32_t vocab_size = 64;
  uint32_t max_positions = 512;
  uint32_t sliding_window = 0;  ///< As RandomCheckpoint's.
  uint32_t full_layers = 0;
  worker::LatentShape latent = {};  ///< For DeepSeek models.
  uint64_t seed = 1;
  std::string copied = {};  ///< Directory of a checkpoint, in place of all of the above.
  uint32_t hidden_size() const { return num_query_heads * head_dim; }
};

/// A model with latent attention. Its rows of 20 channels are cached.
inline TinyModel TinyLatentModel(uint64_t seed = 1) {
  return {
      .architecture = worker::Architecture::kDeepseekV3,
      .num_kv_heads = 1,
      .latent = {.query_rank = 12, .latent_dim = 16, .rope_dim = 4, .nope_dim = 6, .value_dim = 10},
      .seed = seed};
}

/// Writes the checkpoint into `directory`.
inline void WriteTinyModel(const std::string& directory, const TinyModel& m) {
  if (!m.copied.empty()) {
    std::filesystem::copy(m.copied, directory,
                          std::filesystem::copy_options::recursive |
                              std::filesystem::copy_options::overwrite_existing);
    return;
  }
  const Status written =
      worker::WriteRandomCheckpoint(directory, {.architecture = m.architecture,
                                                .num_layers = m.num_layers,
                                                .num_query_heads = m.num_query_heads,
                                                .num_kv_heads = m.num_kv_heads,
                                                .head_dim = m.head_dim,
                                                .intermediate_size = 2 * m.hidden_size(),
                                                .vocab_size = m.vocab_size,
                                                .max_positions = m.max_positions,
                                                .sliding_window = m.sliding_window,
                                                .full_layers = m.full_layers,
                                                .latent = m.latent,
                                                // Peaks attention, so that pages differ in
                                                // importance.
                                                .gain = 2,
                                                .seed = m.seed});
  ASSERT_TRUE(written.ok()) << written;
}

}  // namespace quire::testing

#endif  // QUIRE_TESTS_KIT_TINY_MODEL_H_
