// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/checkpoint/random_checkpoint.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "common/base/random.h"

namespace quire::worker {
namespace {

using Json = nlohmann::json;

uint64_t CountOf(const RandomTensor& tensor) {
  uint64_t count = 1;
  for (const uint64_t extent : tensor.shape) count *= extent;
  return count;
}

std::vector<float> ValuesOf(const RandomTensor& tensor, Random& random) {
  std::vector<float> values(CountOf(tensor));
  for (float& value : values) value = tensor.mean + tensor.deviation * random.Normal();
  if (tensor.own_share == 0) return values;
  std::vector<float> common(tensor.shape[1]);
  for (float& value : common) value = random.Normal();
  for (uint64_t i = 0; i < values.size(); ++i) {
    values[i] = common[i % common.size()] + tensor.own_share * values[i];
  }
  return values;
}

bool IsLatent(const RandomCheckpoint& c) {
  return c.architecture == Architecture::kDeepseekV2 || c.architecture == Architecture::kDeepseekV3;
}

void AddLatents(const RandomCheckpoint& c, Json* config) {
  const LatentShape& s = c.latent;
  config->erase("head_dim");
  config->update({{"num_key_value_heads", c.num_query_heads},
                  {"kv_lora_rank", s.latent_dim},
                  {"qk_rope_head_dim", s.rope_dim},
                  {"qk_nope_head_dim", s.nope_dim},
                  {"v_head_dim", s.value_dim},
                  {"first_k_dense_replace", c.num_layers}});
  (*config)["q_lora_rank"] = s.query_rank > 0 ? Json(s.query_rank) : Json(nullptr);
}

Json ConfigOf(const RandomCheckpoint& c) {
  Json config = {{"architectures", Json::array({Name(c.architecture)})},
                 {"model_type", ModelType(c.architecture)},
                 {"hidden_size", c.hidden_size()},
                 {"intermediate_size", c.intermediate_size},
                 {"num_hidden_layers", c.num_layers},
                 {"num_attention_heads", c.num_query_heads},
                 {"num_key_value_heads", c.num_kv_heads},
                 {"head_dim", c.head_dim},
                 {"vocab_size", c.vocab_size},
                 {"max_position_embeddings", c.max_positions},
                 {"rms_norm_eps", 1e-5},
                 {"rope_theta", c.rope_theta},
                 {"hidden_act", "silu"},
                 {"tie_word_embeddings", true},
                 {"torch_dtype", "float32"}};
  if (c.architecture == Architecture::kMixtral) config["num_local_experts"] = c.num_experts;
  if (IsLatent(c)) AddLatents(c, &config);
  // Mistral's is 4096 when it is not given.
  if (c.architecture == Architecture::kMistral) config["sliding_window"] = nullptr;
  if (c.sliding_window > 0) {
    config["sliding_window"] = c.sliding_window;
    if (c.architecture == Architecture::kQwen2 || c.architecture == Architecture::kQwen3) {
      config["use_sliding_window"] = true;
      config["max_window_layers"] = c.full_layers;
    }
  }
  return config;
}

/// Calls add(name, shape, mean, deviation) for the projections to latents and from them.
template <typename Add>
void AddLatentTensors(const RandomCheckpoint& c, const std::string& at, const Add& add) {
  const LatentShape& s = c.latent;
  const uint64_t hidden = c.hidden_size(), heads = c.num_query_heads;
  const auto project = [&](const char* name, uint64_t out, uint64_t in) {
    add(at + name + ".weight", {out, in}, 0, c.gain / std::sqrt(static_cast<float>(in)));
  };
  if (s.query_rank > 0) {
    project("q_a_proj", s.query_rank, hidden);
    add(at + "q_a_layernorm.weight", {s.query_rank}, 1, 0.1f);
    project("q_b_proj", heads * s.query_dim(), s.query_rank);
  } else {
    project("q_proj", heads * s.query_dim(), hidden);
  }
  project("kv_a_proj_with_mqa", s.row_dim(), hidden);
  add(at + "kv_a_layernorm.weight", {s.latent_dim}, 1, 0.1f);
  project("kv_b_proj", heads * (s.nope_dim + s.value_dim), s.latent_dim);
  project("o_proj", hidden, heads * s.value_dim);
}

/// Weights are [out][in].
std::vector<RandomTensor> TensorsOf(const RandomCheckpoint& c) {
  const uint64_t hidden = c.hidden_size(), kv = uint64_t{c.num_kv_heads} * c.head_dim;
  const uint64_t inner = c.intermediate_size;
  const float deviation = c.gain / std::sqrt(static_cast<float>(hidden));
  std::vector<RandomTensor> tensors = {
      {"model.embed_tokens.weight", {c.vocab_size, hidden}, 0, 1, c.own_share},
      {"model.norm.weight", {hidden}, 1, 0.1f}};
  const auto add = [&](std::string name, std::vector<uint64_t> shape, float mean, float around) {
    tensors.push_back({std::move(name), std::move(shape), mean, around});
  };
  for (uint32_t i = 0; i < c.num_layers; ++i) {
    const std::string at = "model.layers." + std::to_string(i) + ".";
    add(at + "input_layernorm.weight", {hidden}, 1, 0.1f);
    add(at + "post_attention_layernorm.weight", {hidden}, 1, 0.1f);
    if (IsLatent(c)) {
      AddLatentTensors(c, at + "self_attn.", add);
    } else {
      add(at + "self_attn.q_proj.weight", {hidden, hidden}, 0, deviation);
      add(at + "self_attn.k_proj.weight", {kv, hidden}, 0, deviation);
      add(at + "self_attn.v_proj.weight", {kv, hidden}, 0, deviation);
      add(at + "self_attn.o_proj.weight", {hidden, hidden}, 0, deviation);
    }
    if (c.architecture == Architecture::kMixtral) {
      const std::string block = at + "block_sparse_moe.";
      add(block + "gate.weight", {c.num_experts, hidden}, 0, deviation);
      for (uint32_t expert = 0; expert < c.num_experts; ++expert) {
        const std::string of = block + "experts." + std::to_string(expert) + ".";
        add(of + "w1.weight", {inner, hidden}, 0, deviation);
        add(of + "w3.weight", {inner, hidden}, 0, deviation);
        add(of + "w2.weight", {hidden, inner}, 0, deviation / 2);
      }
    } else {
      add(at + "mlp.gate_proj.weight", {inner, hidden}, 0, deviation);
      add(at + "mlp.up_proj.weight", {inner, hidden}, 0, deviation);
      add(at + "mlp.down_proj.weight", {hidden, inner}, 0, deviation / 2);
    }
    if (c.architecture == Architecture::kQwen2) {
      add(at + "self_attn.q_proj.bias", {hidden}, 0, deviation);
      add(at + "self_attn.k_proj.bias", {kv}, 0, deviation);
      add(at + "self_attn.v_proj.bias", {kv}, 0, deviation);
    }
    if (c.architecture == Architecture::kQwen3) {
      add(at + "self_attn.q_norm.weight", {c.head_dim}, 1, 0.1f);
      add(at + "self_attn.k_norm.weight", {c.head_dim}, 1, 0.1f);
    }
  }
  return tensors;
}

}  // namespace

/// The header's length, the header, and the tensors one after the other, one in memory at a time.
Status WriteRandomTensors(const std::string& path, const std::vector<RandomTensor>& tensors,
                          uint64_t seed) {
  Json header;
  uint64_t end = 0;
  for (const RandomTensor& tensor : tensors) {
    const uint64_t begin = end;
    end += CountOf(tensor) * sizeof(float);
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << text;
  SeededRandom random(seed);
  for (const RandomTensor& tensor : tensors) {
    const std::vector<float> values = ValuesOf(tensor, random);
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
  }
  file.close();
  return file.good() ? OkStatus() : Unavailable("cannot write ", path);
}

Status WriteRandomCheckpoint(const std::string& directory, const RandomCheckpoint& checkpoint) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return Unavailable("cannot make ", directory, ": ", error.message());
  const std::string config = directory + "/config.json";
  std::ofstream file(config);
  file << ConfigOf(checkpoint).dump();
  file.close();
  if (!file.good()) return Unavailable("cannot write ", config);
  return WriteRandomTensors(directory + "/model.safetensors", TensorsOf(checkpoint),
                            checkpoint.seed);
}

}  // namespace quire::worker
