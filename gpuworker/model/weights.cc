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
  Loader(const Checkpoint& checkpoint, const ModelConfig& config, Device* device)
      : checkpoint_(checkpoint), device_(device), norm_offset_(config.is_gemma() ? 1.0f : 0.0f) {}

  /// The weights of a norm of `dim` channels, times `factor`.
  StatusOr<DeviceBuffer> Norm(const std::string& name, uint64_t dim, double factor = 1) {
    QUIRE_ASSIGN_OR_RETURN(const TensorView* view, Find(name, {dim}));
    QUIRE_ASSIGN_OR_RETURN(DeviceBuffer buffer, device_->Allocate(dim * sizeof(float)));
    QUIRE_RETURN_IF_ERROR(Copy(*view, name, buffer.as<float>(),
                               {.offset = norm_offset_, .factor = static_cast<float>(factor)}));
    return buffer;
  }

  /// The named tensors one after another in one buffer; each must have `shape`.
  StatusOr<DeviceBuffer> Stack(const std::vector<std::string>& names, const Shape& shape,
                               double factor = 1) {
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
      QUIRE_RETURN_IF_ERROR(Copy(*views[i], names[i], to, {.factor = static_cast<float>(factor)}));
      to += views[i]->elements();
    }
    return buffer;
  }

  /// Rows [first, first + count) of a tensor of `shape`.
  StatusOr<DeviceBuffer> Rows(const std::string& name, const Shape& shape, uint64_t first,
                              uint64_t count) {
    QUIRE_ASSIGN_OR_RETURN(const TensorView* view, Find(name, shape));
    const uint64_t row_bytes = view->data.size() / shape.front();
    TensorView part = *view;
    part.shape.front() = count;
    part.data = view->data.subspan(first * row_bytes, count * row_bytes);
    QUIRE_ASSIGN_OR_RETURN(DeviceBuffer buffer, device_->Allocate(part.elements() * sizeof(float)));
    QUIRE_RETURN_IF_ERROR(Copy(part, name, buffer.as<float>(), {}));
    return buffer;
  }

  StatusOr<DeviceBuffer> One(const std::string& name, const Shape& shape) {
    return Stack({name}, shape);
  }

  /// The projections called `names`, stacked, each [out][in], times `factor`.
  StatusOr<Linear> Project(const std::vector<std::string>& names, uint64_t out, uint64_t in,
                           bool has_bias, double factor = 1) {
    std::vector<std::string> weights;
    std::vector<std::string> biases;
    for (const std::string& name : names) {
      weights.push_back(name + ".weight");
      biases.push_back(name + ".bias");
    }
    Linear linear;
    QUIRE_ASSIGN_OR_RETURN(linear.weight, Stack(weights, {out, in}, factor));
    if (has_bias) {
      QUIRE_ASSIGN_OR_RETURN(linear.bias, Stack(biases, {out}, factor));
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

  /// Change of a stored number x to (x + offset) * factor.
  struct Change {
    float offset = 0;
    float factor = 1;
  };
  Status Copy(const TensorView& view, const std::string& name, float* to, Change change) {
    QUIRE_ASSIGN_OR_RETURN(std::vector<float> host, Convert(view, name));
    if (change.offset != 0 || change.factor != 1) {
      for (float& x : host) x = (x + change.offset) * change.factor;
    }
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
  const float norm_offset_;
  std::set<std::string_view> used_;
};

/// The names that the two families give to an expert's gate, up and down projections.
struct ExpertNames {
  const char* block;
  const char* gate;
  const char* up;
  const char* down;
};
constexpr ExpertNames kMixtralNames = {"block_sparse_moe.", "w1", "w3", "w2"};
constexpr ExpertNames kQwenNames = {"mlp.", "gate_proj", "up_proj", "down_proj"};

/// The experts of the layer whose tensors begin with `at`.
StatusOr<ExpertWeights> LoadExperts(Loader& loader, const ModelConfig& c, const std::string& at) {
  const ExpertNames& names = c.architecture == Architecture::kMixtral ? kMixtralNames : kQwenNames;
  const ExpertsConfig& e = c.experts;
  std::vector<std::string> gate_up;
  std::vector<std::string> down;
  for (uint32_t i = 0; i < e.num_experts; ++i) {
    const std::string expert = at + names.block + "experts." + std::to_string(i) + ".";
    gate_up.push_back(expert + names.gate + ".weight");
    gate_up.push_back(expert + names.up + ".weight");
    down.push_back(expert + names.down + ".weight");
  }
  ExpertWeights w;
  QUIRE_ASSIGN_OR_RETURN(
      w.router, loader.One(at + names.block + "gate.weight", {e.num_experts, c.hidden_size}));
  QUIRE_ASSIGN_OR_RETURN(w.gate_up, loader.Stack(gate_up, {e.intermediate_size, c.hidden_size}));
  QUIRE_ASSIGN_OR_RETURN(w.down, loader.Stack(down, {c.hidden_size, e.intermediate_size}));
  return w;
}

/// The norms before the feed-forward block and behind both blocks. One name means two of them.
Status LoadBlockNorms(Loader& loader, const ModelConfig& c, const std::string& at,
                      LayerWeights* w) {
  const std::string after_attention = at + "post_attention_layernorm.weight";
  if (!c.is_gemma()) {
    QUIRE_ASSIGN_OR_RETURN(w->mlp_norm, loader.Norm(after_attention, c.hidden_size));
    return OkStatus();
  }
  QUIRE_ASSIGN_OR_RETURN(w->attention_end, loader.Norm(after_attention, c.hidden_size));
  QUIRE_ASSIGN_OR_RETURN(w->mlp_norm,
                         loader.Norm(at + "pre_feedforward_layernorm.weight", c.hidden_size));
  QUIRE_ASSIGN_OR_RETURN(w->mlp_end,
                         loader.Norm(at + "post_feedforward_layernorm.weight", c.hidden_size));
  return OkStatus();
}

/// The three projections of Phi-3, which stores them one after the other.
Status LoadFusedQueries(Loader& loader, const ModelConfig& c, const std::string& at,
                        LayerWeights* w) {
  const uint64_t query_dim = uint64_t{c.num_query_heads} * c.head_dim;
  const uint64_t kv_dim = uint64_t{c.num_kv_heads} * c.head_dim;
  const std::string name = at + "self_attn.qkv_proj.weight";
  const Shape shape = {query_dim + 2 * kv_dim, c.hidden_size};
  QUIRE_ASSIGN_OR_RETURN(w->q.weight, loader.Rows(name, shape, 0, query_dim));
  QUIRE_ASSIGN_OR_RETURN(w->k.weight, loader.Rows(name, shape, query_dim, kv_dim));
  QUIRE_ASSIGN_OR_RETURN(w->v.weight, loader.Rows(name, shape, query_dim + kv_dim, kv_dim));
  return OkStatus();
}

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

/// Queries, keys and values of attention that caches both. `at` is the layer's name. The factor of
/// queries is in their norm, which would undo one before it, or in what makes them.
Status LoadHeads(Loader& loader, const ModelConfig& c, const std::string& at, LayerWeights* w) {
  const uint64_t hidden = c.hidden_size;
  const uint64_t query_dim = uint64_t{c.num_query_heads} * c.head_dim;
  const uint64_t kv_dim = uint64_t{c.num_kv_heads} * c.head_dim;
  const double scale = c.gemma.query_scale;
  QUIRE_ASSIGN_OR_RETURN(
      w->q, loader.Project({at + "q_proj"}, query_dim, hidden, c.qkv_bias, c.qk_norm ? 1 : scale));
  QUIRE_ASSIGN_OR_RETURN(w->k, loader.Project({at + "k_proj"}, kv_dim, hidden, c.qkv_bias));
  QUIRE_ASSIGN_OR_RETURN(w->v, loader.Project({at + "v_proj"}, kv_dim, hidden, c.qkv_bias));
  if (!c.qk_norm) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(w->q_norm, loader.Norm(at + "q_norm.weight", c.head_dim, scale));
  QUIRE_ASSIGN_OR_RETURN(w->k_norm, loader.Norm(at + "k_norm.weight", c.head_dim));
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
  QUIRE_ASSIGN_OR_RETURN(w.attention_norm, loader.Norm(at + "input_layernorm.weight", hidden));
  const bool fused = c.architecture == Architecture::kPhi3;
  if (c.latent) {
    QUIRE_ASSIGN_OR_RETURN(w.latent, LoadLatent(loader, c, at + "self_attn."));
  } else if (fused) {
    QUIRE_RETURN_IF_ERROR(LoadFusedQueries(loader, c, at, &w));
  } else {
    QUIRE_RETURN_IF_ERROR(LoadHeads(loader, c, at + "self_attn.", &w));
  }
  QUIRE_ASSIGN_OR_RETURN(w.o, project({"self_attn.o_proj"}, hidden, attended, c.output_bias));
  QUIRE_RETURN_IF_ERROR(LoadBlockNorms(loader, c, at, &w));
  if (c.experts.Has(index)) {
    QUIRE_ASSIGN_OR_RETURN(w.experts, LoadExperts(loader, c, at));
    return w;
  }
  if (fused) {
    QUIRE_ASSIGN_OR_RETURN(
        w.gate_up, project({"mlp.gate_up_proj"}, 2 * uint64_t{c.intermediate_size}, hidden, false));
  } else {
    QUIRE_ASSIGN_OR_RETURN(w.gate_up, project({"mlp.gate_proj", "mlp.up_proj"}, c.intermediate_size,
                                              hidden, c.mlp_bias));
  }
  QUIRE_ASSIGN_OR_RETURN(w.down,
                         project({"mlp.down_proj"}, hidden, c.intermediate_size, c.mlp_bias));
  return w;
}

}  // namespace

StatusOr<Weights> LoadWeights(const Checkpoint& checkpoint, const ModelConfig& config,
                              Device* device) {
  Loader loader(checkpoint, config, device);
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
  QUIRE_ASSIGN_OR_RETURN(weights.final_norm, loader.Norm("model.norm.weight", hidden));
  if (!config.tied_embeddings) {
    QUIRE_ASSIGN_OR_RETURN(weights.lm_head, loader.One(kOutput, table));
  }
  QUIRE_RETURN_IF_ERROR(loader.CheckAllUsed(config));
  return weights;
}

}  // namespace quire::worker
