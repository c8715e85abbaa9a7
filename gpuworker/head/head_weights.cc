// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/head/head_weights.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "common/json/json.h"

namespace quire::worker {
namespace {

using TensorShape = std::vector<uint64_t>;

constexpr size_t kMostConfigBytes = 1 << 20;
constexpr char kInputNorm[] = "midlayer.input_layernorm.weight";
constexpr char kHiddenNorm[] = "midlayer.hidden_norm.weight";
constexpr char kFeatures[] = "fc.weight";
constexpr char kQueries[] = "midlayer.self_attn.q_proj.weight";
constexpr char kKeys[] = "midlayer.self_attn.k_proj.weight";
constexpr char kOwnEmbedding[] = "embed_tokens.weight";
constexpr char kTargetEmbedding[] = "model.embed_tokens.weight";

/// Reads the tensors of one draft.
class HeadReader {
 public:
  HeadReader(const Checkpoint& checkpoint, HeadWeights* weights)
      : checkpoint_(checkpoint), weights_(weights) {}

  Status Read(const HeadTarget& target) {
    const DraftConfig& c = weights_->config;
    const uint64_t h = c.hidden_size;
    const uint64_t q_rows = uint64_t{c.num_query_heads} * c.head_dim;
    const uint64_t k_rows = uint64_t{c.num_kv_heads} * c.head_dim;
    QUIRE_ASSIGN_OR_RETURN(weights_->input_norm, Tensor(kInputNorm, {h}));
    QUIRE_ASSIGN_OR_RETURN(weights_->q, Tensor(kQueries, {q_rows, 2 * h}));
    QUIRE_ASSIGN_OR_RETURN(weights_->k, Tensor(kKeys, {k_rows, 2 * h}));
    if (weights_->mode == HeadMode::kEmbedOnly) {
      weights_->q = FirstHalf(weights_->q, h);
      weights_->k = FirstHalf(weights_->k, h);
      return OkStatus();
    }
    QUIRE_RETURN_IF_ERROR(CheckFeatures(target.config.hidden_size, target.config.num_layers));
    QUIRE_ASSIGN_OR_RETURN(weights_->hidden_norm, Tensor(kHiddenNorm, {h}));
    QUIRE_ASSIGN_OR_RETURN(weights_->fc, Tensor(kFeatures, {h, weights_->num_features}));
    return OkStatus();
  }

 private:
  StatusOr<const TensorView*> Find(const std::string& name) const {
    const auto found = checkpoint_.tensors().find(name);
    if (found != checkpoint_.tensors().end()) return &found->second;
    return InvalidArgument(
        checkpoint_.path(), ": tensor ", name,
        " is missing; a retrieval head is made of an EAGLE-3 draft, which has it");
  }

  StatusOr<std::vector<float>> Tensor(const std::string& name, const TensorShape& shape) const {
    QUIRE_ASSIGN_OR_RETURN(const TensorView* view, Find(name));
    if (view->shape != shape) {
      return InvalidArgument(checkpoint_.path(), ": tensor ", name, " has shape ",
                             ShapeText(view->shape), ", the draft's config.json asks for ",
                             ShapeText(shape), "; take both from the same draft");
    }
    std::vector<float> values(view->elements());
    QUIRE_RETURN_IF_ERROR(Annotate(ConvertToFloat(*view, name, values.data()), checkpoint_.path()));
    return values;
  }

  /// Takes the width of fc's input, which the mode must be able to fill.
  Status CheckFeatures(uint64_t target_hidden, uint32_t target_layers) {
    QUIRE_ASSIGN_OR_RETURN(const TensorView* view, Find(kFeatures));
    const uint64_t width = view->shape.size() == 2 ? view->shape[1] : 0;
    const bool eagle = weights_->mode == HeadMode::kEagle;
    const uint64_t part = eagle ? target_hidden : weights_->config.hidden_size;
    const bool fits = eagle ? width == 3 * part : width > 0 && width % part == 0;
    if (!fits) {
      return InvalidArgument(checkpoint_.path(), ": tensor ", kFeatures, " has shape ",
                             ShapeText(view->shape), ", but mode ", Name(weights_->mode),
                             eagle ? " has 3 hidden states of " : " has embeddings of ", part,
                             " values; use the model that the draft was trained for, or the mode "
                             "embed_only");
    }
    weights_->num_features = static_cast<uint32_t>(width);
    if (eagle) weights_->feature_layers = FeatureLayers(target_layers);
    return OkStatus();
  }

  /// The first `columns` of rows of twice as many.
  static std::vector<float> FirstHalf(const std::vector<float>& matrix, uint64_t columns) {
    std::vector<float> half;
    half.reserve(matrix.size() / 2);
    for (size_t at = 0; at < matrix.size(); at += 2 * columns) {
      const auto row = matrix.begin() + static_cast<ptrdiff_t>(at);
      half.insert(half.end(), row, row + static_cast<ptrdiff_t>(columns));
    }
    return half;
  }

  const Checkpoint& checkpoint_;
  HeadWeights* const weights_;
};

Status CheckVocabulary(const DraftConfig& draft, const std::string& name,
                       const ModelConfig& target) {
  if (draft.vocab_size == target.vocab_size) return OkStatus();
  return InvalidArgument(name, ": vocab_size is ", draft.vocab_size, ", the model has ",
                         target.vocab_size, " tokens; use the draft of this model");
}

/// Finds the file to read embeddings from.
Status FindEmbedding(const std::shared_ptr<const Checkpoint>& draft, const HeadTarget& target,
                     HeadWeights* weights) {
  weights->embedding_file = draft;
  weights->embedding_name = kOwnEmbedding;
  if (!draft->tensors().contains(weights->embedding_name)) {
    QUIRE_ASSIGN_OR_RETURN(Checkpoint opened, Checkpoint::Open(target.directory));
    weights->embedding_file = std::make_shared<const Checkpoint>(std::move(opened));
    weights->embedding_name = kTargetEmbedding;
  }
  const auto& tensors = weights->embedding_file->tensors();
  const auto found = tensors.find(weights->embedding_name);
  const DraftConfig& c = weights->config;
  const TensorShape shape = {c.vocab_size, c.hidden_size};
  if (found != tensors.end() && found->second.shape == shape) return OkStatus();
  return InvalidArgument(
      weights->embedding_file->path(), ": tensor ", weights->embedding_name,
      found == tensors.end() ? " is missing" : " has shape " + ShapeText(found->second.shape),
      ", the draft needs embeddings of shape ", ShapeText(shape), "; use the draft of this model");
}

/// Settings that decide the keys besides the draft's tensors, the model and the rotation.
std::string Settings(const HeadWeights& weights) {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "retrieval head, mode=%s, rms_norm_eps=%.17g",
                std::string(Name(weights.mode)).c_str(), weights.config.rms_norm_eps);
  return text.data();
}

}  // namespace

Status HeadWeights::Embed(TokenId token, float* row) const {
  const TensorView& table = embedding_file->tensors().at(embedding_name);
  const size_t bytes = size_t{config.hidden_size} * ElementBytes(table.type);
  const TensorView view{.type = table.type,
                        .shape = {config.hidden_size},
                        .data = table.data.subspan(token * bytes, bytes)};
  return ConvertToFloat(view, embedding_name, row);
}

StatusOr<HeadWeights> LoadHeadWeights(const std::string& directory, const HeadTarget& target,
                                      std::optional<HeadMode> mode) {
  const std::string name = directory + "/config.json";
  QUIRE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(name, kMostConfigBytes));
  HeadWeights weights;
  QUIRE_ASSIGN_OR_RETURN(weights.config, ParseDraftConfig(text, name));
  weights.mode = mode.value_or(weights.config.mode);
  QUIRE_RETURN_IF_ERROR(CheckVocabulary(weights.config, name, target.config));
  QUIRE_ASSIGN_OR_RETURN(Checkpoint opened, Checkpoint::Open(directory));
  const auto draft = std::make_shared<const Checkpoint>(std::move(opened));
  QUIRE_RETURN_IF_ERROR(HeadReader(*draft, &weights).Read(target));
  QUIRE_RETURN_IF_ERROR(FindEmbedding(draft, target, &weights));
  weights.hash = draft->Hash(Settings(weights));
  return weights;
}

}  // namespace quire::worker
