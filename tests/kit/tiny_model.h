// SPDX-License-Identifier: Apache-2.0
//
// WriteTinyModel: a random Llama checkpoint (config.json and model.safetensors) of any small shape,
// for tests that need a decoder and no particular answers. The same shape and seed make the same
// bytes.
#ifndef QUIRE_TESTS_KIT_TINY_MODEL_H_
#define QUIRE_TESTS_KIT_TINY_MODEL_H_

#include <cmath>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/random.h"

namespace quire::testing {

struct TinyModel {
  uint32_t num_layers = 2;
  uint32_t num_query_heads = 4;
  uint32_t num_kv_heads = 2;
  uint32_t head_dim = 8;
  uint32_t vocab_size = 64;
  uint32_t max_positions = 512;
  uint64_t seed = 1;
  uint32_t hidden_size() const { return num_query_heads * head_dim; }
};

/// Collects tensors of random floats and writes them as one safetensors file.
class TinyCheckpointWriter {
 public:
  explicit TinyCheckpointWriter(uint64_t seed) : random_(seed) {}

  /// A tensor of normal values around `mean`; weights are given as [out][in].
  void Add(const std::string& name, uint32_t out, uint32_t in, float mean, float deviation) {
    std::ostringstream entry;
    entry << (header_.empty() ? "" : ",") << '"' << name << R"(":{"dtype":"F32","shape":[)";
    if (out > 0) entry << out << ',';
    const size_t count = size_t{in} * (out > 0 ? out : 1);
    const size_t begin = data_.size() * sizeof(float);
    entry << in << R"(],"data_offsets":[)" << begin << ',' << begin + count * sizeof(float) << "]}";
    header_ += entry.str();
    for (size_t i = 0; i < count; ++i) data_.push_back(mean + deviation * random_.Normal());
  }
  void Write(const std::string& path) const {
    std::string header = "{" + header_ + "}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const uint64_t length = header.size();
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file << header;
    file.write(reinterpret_cast<const char*>(data_.data()),
               static_cast<std::streamsize>(data_.size() * sizeof(float)));
  }

 private:
  SeededRandom random_;
  std::string header_;
  std::vector<float> data_;
};

/// Writes the checkpoint into `directory`, which exists.
inline void WriteTinyModel(const std::string& directory, const TinyModel& m) {
  const uint32_t hidden = m.hidden_size();
  const uint32_t kv = m.num_kv_heads * m.head_dim;
  std::ofstream(directory + "/config.json")
      << R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":)" << hidden
      << R"(,"intermediate_size":)" << 2 * hidden << R"(,"num_hidden_layers":)" << m.num_layers
      << R"(,"num_attention_heads":)" << m.num_query_heads << R"(,"num_key_value_heads":)"
      << m.num_kv_heads << R"(,"head_dim":)" << m.head_dim << R"(,"vocab_size":)" << m.vocab_size
      << R"(,"max_position_embeddings":)" << m.max_positions
      << R"(,"rms_norm_eps":1e-5,"rope_theta":10000.0,"hidden_act":"silu",)"
      << R"("tie_word_embeddings":true,"torch_dtype":"float32"})";
  TinyCheckpointWriter writer(m.seed);
  // Twice the usual deviation, so that attention is peaked and pages differ in what they are worth.
  const float deviation = 2.0f / std::sqrt(static_cast<float>(hidden));
  writer.Add("model.embed_tokens.weight", m.vocab_size, hidden, 0, 1);
  writer.Add("model.norm.weight", 0, hidden, 1, 0.1f);
  for (uint32_t i = 0; i < m.num_layers; ++i) {
    const std::string at = "model.layers." + std::to_string(i) + ".";
    writer.Add(at + "input_layernorm.weight", 0, hidden, 1, 0.1f);
    writer.Add(at + "post_attention_layernorm.weight", 0, hidden, 1, 0.1f);
    writer.Add(at + "self_attn.q_proj.weight", hidden, hidden, 0, deviation);
    writer.Add(at + "self_attn.k_proj.weight", kv, hidden, 0, deviation);
    writer.Add(at + "self_attn.v_proj.weight", kv, hidden, 0, deviation);
    writer.Add(at + "self_attn.o_proj.weight", hidden, hidden, 0, deviation);
    writer.Add(at + "mlp.gate_proj.weight", 2 * hidden, hidden, 0, deviation);
    writer.Add(at + "mlp.up_proj.weight", 2 * hidden, hidden, 0, deviation);
    writer.Add(at + "mlp.down_proj.weight", hidden, 2 * hidden, 0, deviation / 2);
  }
  writer.Write(directory + "/model.safetensors");
}

}  // namespace quire::testing

#endif  // QUIRE_TESTS_KIT_TINY_MODEL_H_
