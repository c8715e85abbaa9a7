// SPDX-License-Identifier: Apache-2.0
//
// For tests: drafts of random weights on disk, and retrieval heads of them.
// Thread-safety: none.
#ifndef QUIRE_GPUWORKER_TESTING_RANDOM_DRAFT_H_
#define QUIRE_GPUWORKER_TESTING_RANDOM_DRAFT_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "gpuworker/head/head_weights.h"
#include "gpuworker/model/checkpoint/safetensors_builder.h"
#include "tests/kit/temp_dir.h"

namespace quire::testing {

/// Shapes and values by name.
using FloatTensors = std::map<std::string, std::pair<std::vector<uint64_t>, std::vector<float>>>;

inline void WriteTensors(const std::string& path, const FloatTensors& tensors) {
  std::string header = "{", data;
  for (const auto& [name, tensor] : tensors) {
    const auto& [shape, values] = tensor;
    const size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    header += (begin == 0 ? "\"" : ",\"") + name + R"(":{"dtype":"F32","shape":[)";
    for (size_t i = 0; i < shape.size(); ++i) {
      header += (i == 0 ? "" : ",") + std::to_string(shape[i]);
    }
    header +=
        "],\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(data.size()) + "]}";
  }
  WriteFile(path, Safetensors(header + "}", data));
}

struct DraftShape {
  uint32_t hidden = 0, query_heads = 0, kv_heads = 0, head_dim = 0, vocabulary = 0;
};

/// The tensors of an EAGLE-3 draft, whose fc takes three times the hidden size.
inline FloatTensors RandomDraftTensors(const DraftShape& shape, SeededRandom* random) {
  FloatTensors tensors;
  const auto add = [&](const std::string& name, std::vector<uint64_t> sizes) {
    uint64_t count = 1;
    for (const uint64_t size : sizes) count *= size;
    std::vector<float> values(count);
    for (float& value : values) value = random->Normal();
    tensors[name] = {std::move(sizes), std::move(values)};
  };
  const uint64_t h = shape.hidden;
  add("fc.weight", {h, 3 * h});
  add("midlayer.input_layernorm.weight", {h});
  add("midlayer.hidden_norm.weight", {h});
  add("midlayer.self_attn.q_proj.weight", {uint64_t{shape.query_heads} * shape.head_dim, 2 * h});
  add("midlayer.self_attn.k_proj.weight", {uint64_t{shape.kv_heads} * shape.head_dim, 2 * h});
  return tensors;
}

/// Writes config.json and model.safetensors of a draft. `more` is appended to the config's fields.
inline void WriteDraft(const std::string& directory, const DraftShape& shape,
                       const FloatTensors& tensors, const std::string& more = {}) {
  std::filesystem::create_directories(directory);
  WriteFile(directory + "/config.json",
            "{\"hidden_size\": " + std::to_string(shape.hidden) +
                ", \"num_attention_heads\": " + std::to_string(shape.query_heads) +
                ", \"num_key_value_heads\": " + std::to_string(shape.kv_heads) +
                ", \"head_dim\": " + std::to_string(shape.head_dim) +
                ", \"vocab_size\": " + std::to_string(shape.vocabulary) + more + "}");
  WriteTensors(directory + "/model.safetensors", tensors);
}

/// A head with embeddings of its own, for a model of `layers` layers. By default it looks at the
/// three tokens before each.
class RandomHead {
 public:
  explicit RandomHead(const DraftShape& shape, uint64_t seed = 1,
                      worker::HeadMode mode = worker::HeadMode::kTrained, uint32_t layers = 3) {
    SeededRandom random(seed);
    FloatTensors tensors = RandomDraftTensors(shape, &random);
    std::vector<float> table(uint64_t{shape.vocabulary} * shape.hidden);
    for (float& value : table) value = random.Normal();
    tensors["embed_tokens.weight"] = {{shape.vocabulary, shape.hidden}, std::move(table)};
    WriteDraft(dir_ / "draft", shape, tensors);
    worker::HeadTarget target;
    target.config.vocab_size = shape.vocabulary;
    target.config.hidden_size = shape.hidden;
    target.config.num_layers = layers;
    weights_ = worker::LoadHeadWeights(dir_ / "draft", target, mode).value();
  }
  const worker::HeadWeights& weights() const { return weights_; }

 private:
  TempDir dir_;
  worker::HeadWeights weights_;
};

}  // namespace quire::testing

#endif  // QUIRE_GPUWORKER_TESTING_RANDOM_DRAFT_H_
