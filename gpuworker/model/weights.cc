// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/weights.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace quire::worker {
namespace {

using Shape = std::vector<uint64_t>;

constexpr char kEmbedding[] = "model.embed_tokens.weight";
constexpr char kOutput[] = "lm_head.weight";
/// Element types as configs and as tensors name them.
constexpr std::pair<std::string_view, std::string_view> kDtypes[] = {
    {"float32", "F32"}, {"float16", "F16"}, {"bfloat16", "BF16"}};

/// Copies tensors to the device and remembers which ones were asked for.
class Loader {
 public:
  Loader(const Checkpoint& checkpoint, Device* device) : checkpoint_(checkpoint), device_(device) {}

  /// The named tensors one after another in one buffer; each must have `shape`.
  StatusOr<DeviceBuffer> Stack(const std::vector<std::string>& names, const Shape& shape) {
    std::vector<const TensorView*> views;
    uint64_t elements = 0;
    for (const std::string& name : names) {
      QUIRE_ASSIGN_OR_RETURN(const TensorView* view, Find(name, shape));
      views.push_back(view);
      elements += view->elements();
    }
    QUIRE_ASSIGN_OR_RETURN(DeviceBuffer buffer, device_->Allocate(elements * sizeof(float)));
    float* to = buffer.as<float>();
    for (size_t i = 0; i < views.size(); ++i) {
      QUIRE_RETURN_IF_ERROR(Copy(*views[i], names[i], to));
      to += views[i]->elements();
    }
    return buffer;
  }

  StatusOr<DeviceBuffer> One(const std::string& name, const Shape& shape) {
    return Stack({name}, shape);
  }

  /// The projections called `names`, stacked, each [out][in].
  StatusOr<Linear> Project(const std::vector<std::string>& names, uint64_t out, uint64_t in,
                           bool has_bias) {
    std::vector<std::string> weights;
    std::vector<std::string> biases;
    for (const std::string& name : names) {
      weights.push_back(name + ".weight");
      biases.push_back(name + ".bias");
    }
    Linear linear;
    QUIRE_ASSIGN_OR_RETURN(linear.weight, Stack(weights, {out, in}));
    if (has_bias) {
      QUIRE_ASSIGN_OR_RETURN(linear.bias, Stack(biases, {out}));
    }
    return linear;
  }

  /// The named tensor in host memory.
  StatusOr<std::vector<float>> OnHost(const std::string& name, const Shape& shape) {
    QUIRE_ASSIGN_OR_RETURN(const TensorView* view, Find(name, shape));
    return Convert(*view, name);
  }

  StatusOr<DeviceBuffer> Put(const std::vector<float>& host) {
    QUIRE_ASSIGN_OR_RETURN(DeviceBuffer buffer, device_->Allocate(host.size() * sizeof(float)));
    QUIRE_RETURN_IF_ERROR(
        device_->CopyToDevice(buffer.data(), host.data(), host.size() * sizeof(float)));
    QUIRE_RETURN_IF_ERROR(device_->Synchronize());  // The host copy may go away.
    return buffer;
  }

  /// INVALID_ARGUMENT when the weights are not of the type that the config says: one of the two is
  /// of another export.
  Status CheckDtype(const ModelConfig& config) const {
    if (config.dtype.empty()) return OkStatus();
    const std::string_view stored = Name(checkpoint_.tensors().at(kEmbedding).type);
    for (const auto& [dtype, name] : kDtypes) {
      if (config.dtype == dtype && stored == name) return OkStatus();
    }
    return InvalidArgument(checkpoint_.path(), ": tensor ", kEmbedding, " is ", stored,
                           ", but config.json says ", config.dtype,
                           "; take both from the same checkpoint, or write what the tensors are as "
                           "torch_dtype");
  }

  /// INVALID_ARGUMENT when a config that ties the output to the embedding comes with another
  /// output.
  Status CheckTied(const ModelConfig& config) const {
    const auto output = checkpoint_.tensors().find(kOutput);
    if (!config.tied_embeddings || output == checkpoint_.tensors().end()) return OkStatus();
    const TensorView& embedding = checkpoint_.tensors().at(kEmbedding);
    const TensorView& view = output->second;
    if (view.type == embedding.type && view.shape == embedding.shape &&
        std::ranges::equal(view.data, embedding.data)) {
      return OkStatus();
    }
    return InvalidArgument(
        checkpoint_.path(), ": tensor ", kOutput, " differs from ", kEmbedding,
        ", which config.json ties it to; set tie_word_embeddings to false if the "
        "model has an output of its own");
  }

  /// INVALID_ARGUMENT for a tensor that nothing asked for: the config does not describe this
  /// checkpoint.
  Status CheckAllUsed(const ModelConfig& config) const {
    for (const auto& [name, view] : checkpoint_.tensors()) {
      // Old exports carry the RoPE frequencies; tied ones may repeat the embedding.
      if (used_.contains(name) || name.ends_with(".rotary_emb.inv_freq")) continue;
      if (config.tied_embeddings && name == kOutput) continue;
      return InvalidArgument(checkpoint_.path(), ": tensor ", name, " has no place in a ",
                             Name(config.architecture),
                             " of this config.json; do the two belong together?");
    }
    return OkStatus();
  }

 private:
  StatusOr<const TensorView*> Find(const std::string& name, const Shape& shape) {
    const auto it = checkpoint_.tensors().find(name);
    if (it == checkpoint_.tensors().end()) {
      return InvalidArgument(checkpoint_.path(), ": tensor ", name,
                             " is missing; does config.json belong to this checkpoint? If so, copy "
                             "or download it again");
    }
    if (it->second.shape != shape) {
      return InvalidArgument(checkpoint_.path(), ": tensor ", name, " has shape ",
                             ShapeText(it->second.shape), ", config.json asks for ",
                             ShapeText(shape), "; take both from the same checkpoint");
    }
    used_.insert(it->first);
    return &it->second;
  }

  Status Copy(const TensorView& view, const std::string& name, float* to) {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<float> host, Convert(view, name));
    QUIRE_RETURN_IF_ERROR(device_->CopyToDevice(to, host.data(), host.size() * sizeof(float)));
    return device_->Synchronize();  // The host copy goes away.
  }

  StatusOr<std::vector<float>> Convert(const TensorView& view, const std::string& name) {
    std::vector<float> host(view.elements());
    QUIRE_RETURN_IF_ERROR(Annotate(ConvertToFloat(view, name, host.data()), checkpoint_.path()));
    return host;
  }

  const Checkpoint& checkpoint_;
  Device* const device_;
  std::set<std::string_view> used_;
};

/// kv_b_proj is [n_q][nope_dim + value_dim][latent_dim]: the rows that make a head's key of a
/// latent, then those of its value. The first are moved to the query's side, the second behind
/// attention.
Status LoadAbsorbed(Loader& loader, const ModelConfig& c, const std::string& name,
                    LatentWeights* w) {
  const LatentShape& s = *c.latent;
  const size_t n_q = c.num_query_heads, latent = s.latent_dim, row = s.row_dim();
  const size_t head_rows = size_t{s.nope_dim} + s.value_dim;
  QUIRE_ASSIGN_OR_RETURN(const std::vector<float> both,
                         loader.OnHost(name, {n_q * head_rows, latent}));
  const double factor = s.score_scale * std::sqrt(static_cast<double>(row));
  std::vector<float> absorb(n_q * row * s.query_dim());
  std::vector<float> value_up;
  for (size_t head = 0; head < n_q; ++head) {
    const float* const key_up = both.data() + head * head_rows * latent;
    float* const to = absorb.data() + head * row * s.query_dim();
    for (size_t i = 0; i < latent; ++i) {
      for (size_t j = 0; j < s.nope_dim; ++j) {
        to[i * s.query_dim() + j] = static_cast<float>(factor * key_up[j * latent + i]);
      }
    }
    for (size_t i = 0; i < s.rope_dim; ++i) {
      to[(latent + i) * s.query_dim() + s.nope_dim + i] = static_cast<float>(factor);
    }
    value_up.insert(value_up.end(), key_up + s.nope_dim * latent, key_up + head_rows * latent);
  }
  QUIRE_ASSIGN_OR_RETURN(w->absorb, loader.Put(absorb));
  QUIRE_ASSIGN_OR_RETURN(w->value_up, loader.Put(value_up));
  return OkStatus();
}

StatusOr<LatentWeights> LoadLatent(Loader& loader, const ModelConfig& c, const std::string& at) {
  const LatentShape& s = *c.latent;
  const uint64_t hidden = c.hidden_size;
  const uint64_t query = uint64_t{c.num_query_heads} * s.query_dim();
  LatentWeights w;
  if (s.query_rank > 0) {
    QUIRE_ASSIGN_OR_RETURN(w.query_down,
                           loader.Project({at + "q_a_proj"}, s.query_rank, hidden, c.qkv_bias));
    QUIRE_ASSIGN_OR_RETURN(w.query_norm, loader.One(at + "q_a_layernorm.weight", {s.query_rank}));
    QUIRE_ASSIGN_OR_RETURN(w.query_up,
                           loader.Project({at + "q_b_proj"}, query, s.query_rank, false));
  } else {
    QUIRE_ASSIGN_OR_RETURN(w.query_up, loader.Project({at + "q_proj"}, query, hidden, false));
  }
  QUIRE_ASSIGN_OR_RETURN(
      w.row, loader.Project({at + "kv_a_proj_with_mqa"}, s.row_dim(), hidden, c.qkv_bias));
  QUIRE_ASSIGN_OR_RETURN(w.latent_norm, loader.One(at + "kv_a_layernorm.weight", {s.latent_dim}));
  QUIRE_RETURN_IF_ERROR(LoadAbsorbed(loader, c, at + "kv_b_proj.weight", &w));
  return w;
}

/// Queries, keys and values of attention that caches both. `at` is the layer's name.
Status LoadHeads(Loader& loader, const ModelConfig& c, const std::string& at, LayerWeights* w) {
  const uint64_t hidden = c.hidden_size;
  const uint64_t query_dim = uint64_t{c.num_query_heads} * c.head_dim;
  const uint64_t kv_dim = uint64_t{c.num_kv_heads} * c.head_dim;
  QUIRE_ASSIGN_OR_RETURN(w->q, loader.Project({at + "q_proj"}, query_dim, hidden, c.qkv_bias));
  QUIRE_ASSIGN_OR_RETURN(w->k, loader.Project({at + "k_proj"}, kv_dim, hidden, c.qkv_bias));
  QUIRE_ASSIGN_OR_RETURN(w->v, loader.Project({at + "v_proj"}, kv_dim, hidden, c.qkv_bias));
  if (!c.qk_norm) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(w->q_norm, loader.One(at + "q_norm.weight", {c.head_dim}));
  QUIRE_ASSIGN_OR_RETURN(w->k_norm, loader.One(at + "k_norm.weight", {c.head_dim}));
  return OkStatus();
}

StatusOr<LayerWeights> LoadLayer(Loader& loader, const ModelConfig& c, uint32_t index) {
  const std::string at = "model.layers." + std::to_string(index) + ".";
  const uint64_t hidden = c.hidden_size;
  const uint64_t attended =
      uint64_t{c.num_query_heads} * (c.latent ? c.latent->value_dim : c.head_dim);
  const auto project = [&](std::vector<std::string> names, uint64_t out, uint64_t in, bool bias) {
    for (std::string& name : names) name = at + name;
    return loader.Project(names, out, in, bias);
  };
  LayerWeights w;
  QUIRE_ASSIGN_OR_RETURN(w.attention_norm, loader.One(at + "input_layernorm.weight", {hidden}));
  if (c.latent) {
    QUIRE_ASSIGN_OR_RETURN(w.latent, LoadLatent(loader, c, at + "self_attn."));
  } else {
    QUIRE_RETURN_IF_ERROR(LoadHeads(loader, c, at + "self_attn.", &w));
  }
  QUIRE_ASSIGN_OR_RETURN(w.o, project({"self_attn.o_proj"}, hidden, attended, c.output_bias));
  QUIRE_ASSIGN_OR_RETURN(w.mlp_norm, loader.One(at + "post_attention_layernorm.weight", {hidden}));
  QUIRE_ASSIGN_OR_RETURN(w.gate_up, project({"mlp.gate_proj", "mlp.up_proj"}, c.intermediate_size,
                                            hidden, c.mlp_bias));
  QUIRE_ASSIGN_OR_RETURN(w.down,
                         project({"mlp.down_proj"}, hidden, c.intermediate_size, c.mlp_bias));
  return w;
}

}  // namespace

StatusOr<Weights> LoadWeights(const Checkpoint& checkpoint, const ModelConfig& config,
                              Device* device) {
  Loader loader(checkpoint, device);
  const uint64_t hidden = config.hidden_size;
  const Shape table = {config.vocab_size, hidden};
  Weights weights;
  QUIRE_ASSIGN_OR_RETURN(weights.embedding, loader.One(kEmbedding, table));
  QUIRE_RETURN_IF_ERROR(loader.CheckDtype(config));
  QUIRE_RETURN_IF_ERROR(loader.CheckTied(config));
  for (uint32_t i = 0; i < config.num_layers; ++i) {
    QUIRE_ASSIGN_OR_RETURN(LayerWeights layer, LoadLayer(loader, config, i));
    weights.layers.push_back(std::move(layer));
  }
  QUIRE_ASSIGN_OR_RETURN(weights.final_norm, loader.One("model.norm.weight", {hidden}));
  if (!config.tied_embeddings) {
    QUIRE_ASSIGN_OR_RETURN(weights.lm_head, loader.One(kOutput, table));
  }
  QUIRE_RETURN_IF_ERROR(loader.CheckAllUsed(config));
  return weights;
}

}  // namespace quire::worker
