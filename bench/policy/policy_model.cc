// SPDX-License-Identifier: Apache-2.0
#include "bench/policy/policy_model.h"

#include <algorithm>
#include <memory>
#include <span>

#include "apps/kit/output/progress.h"
#include "apps/kit/worker/local_worker.h"
#include "bench/kit/model_questions.h"
#include "gpuworker/head/draft_config.h"
#include "gpuworker/model/checkpoint/companions.h"
#include "gpuworker/model/decoder.h"
#include "gpuworker/model/dense_cache.h"
#include "gpuworker/model/hidden_tap.h"
#include "gpuworker/model/sampler.h"
#include "gpuworker/text/tokenizer.h"
#include "quire/layout.h"

namespace quire::bench {
namespace {

constexpr size_t kChunkTokens = 512;

/// Dense attention that keeps the queries of every step since Record, and the hidden states of all.
class RecordingCache final : public worker::AttentionBackend, public worker::HiddenTap {
 public:
  RecordingCache(const worker::ModelConfig& config, uint64_t max_tokens)
      : cache_(config, &worker::CpuDevice(), max_tokens),
        row_(size_t{config.num_query_heads} * config.head_dim),
        queries_(config.num_layers) {
    for (const uint32_t layer : worker::FeatureLayers(config.num_layers)) hidden_[layer];
  }

  Status Attend(const worker::LayerStep& step) override {
    if (recording_) {
      queries_[step.layer].insert(queries_[step.layer].end(), step.q,
                                  step.q + step.num_tokens * row_);
    }
    return cache_.Attend(step);
  }
  HiddenTap* hidden_tap() override { return this; }
  bool Wants(uint32_t layer) const override { return hidden_.contains(layer); }
  void Take(uint32_t layer, std::span<const float> rows) override {
    hidden_[layer].insert(hidden_[layer].end(), rows.begin(), rows.end());
  }
  /// Drops the queries so far, and keeps later ones.
  void Record() {
    recording_ = true;
    for (std::vector<float>& queries : queries_) queries.clear();
  }

  const worker::DenseCache& cache() const { return cache_; }
  const std::map<uint32_t, std::vector<float>>& hidden() const { return hidden_; }
  const std::vector<float>& queries(uint32_t layer) const { return queries_[layer]; }

 private:
  worker::DenseCache cache_;
  const size_t row_;
  bool recording_ = false;
  std::vector<std::vector<float>> queries_;  ///< [num_layers]
  std::map<uint32_t, std::vector<float>> hidden_;
};

/// Converts the rows of a layer to units.
std::vector<float> ToUnits(const KvSpec& spec, const worker::DenseCache& cache, uint32_t layer) {
  const size_t p = spec.page_tokens, d = spec.head_dim, n_kv = spec.num_kv_heads;
  std::vector<float> units(DivideRoundUp(cache.length(), p) * n_kv * 2 * p * d);
  for (size_t token = 0; token < cache.length(); ++token) {
    for (size_t head = 0; head < n_kv; ++head) {
      const size_t unit = (token / p * n_kv + head) * 2 * p * d;
      const size_t row = (token * n_kv + head) * d;
      std::copy_n(cache.keys(layer) + row, d, units.data() + unit + token % p * d);
      std::copy_n(cache.values(layer) + row, d, units.data() + unit + (p + token % p) * d);
    }
  }
  return units;
}

Status ReadDocument(const worker::Decoder& decoder, std::span<const TokenId> document,
                    RecordingCache* cache) {
  for (size_t at = 0; at < document.size(); at += kChunkTokens) {
    const auto chunk = document.subspan(at, std::min(kChunkTokens, document.size() - at));
    QUIRE_RETURN_IF_ERROR(
        decoder.Forward(chunk, at, *cache, worker::Decoder::Logits::kNone, nullptr));
  }
  return OkStatus();
}

/// Decodes greedily from `logits`, those after the last token of `cache`. Stops at the end of the
/// sequence or after `tokens` tokens, each of which is run and added to `ids`. Returns their
/// number.
StatusOr<uint64_t> Decode(const worker::Decoder& decoder, TokenId eos, uint64_t tokens,
                          std::vector<float>* logits, RecordingCache* cache,
                          std::vector<TokenId>* ids) {
  QUIRE_ASSIGN_OR_RETURN(worker::Sampler greedy, worker::Sampler::Create({}));
  for (uint64_t decoded = 0; decoded < tokens; ++decoded) {
    QUIRE_ASSIGN_OR_RETURN(const TokenId token, greedy.Sample(*logits));
    if (token == eos) return decoded;
    QUIRE_RETURN_IF_ERROR(decoder.Forward(std::span(&token, 1), cache->cache().length(), *cache,
                                          worker::Decoder::Logits::kLast, logits->data()));
    ids->push_back(token);
  }
  return tokens;
}

/// Asks `question` after the content of `cache`, whose tokens are `ids`, and decodes.
Status RecordQuestion(const worker::Decoder& decoder, const worker::Tokenizer& tokenizer,
                      const std::string& document, const cli::DemoQuestion& question,
                      const RecordOptions& options, RecordingCache* cache,
                      std::vector<TokenId>* ids, const RecordedLayerVisitor& visit) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> prompt, tokenizer.Encode(question.prompt));
  QUIRE_ASSIGN_OR_RETURN(const std::vector<TokenId> answer, tokenizer.Encode(question.answer));
  const uint64_t before = cache->cache().length();
  std::vector<float> logits(decoder.config().vocab_size);
  cache->Record();
  QUIRE_RETURN_IF_ERROR(
      decoder.Forward(prompt, before, *cache, worker::Decoder::Logits::kLast, logits.data()));
  ids->insert(ids->end(), prompt.begin(), prompt.end());
  QUIRE_ASSIGN_OR_RETURN(
      const uint64_t decoded,
      Decode(decoder, tokenizer.ends().front(),
             std::max<uint64_t>(answer.size(), options.decoded_tokens), &logits, cache, ids));
  RecordedLayer recorded{.spec = decoder.MakeKvSpec(DType::kF32, options.page_tokens, 1),
                         .layer = 0,
                         .document = document,
                         .tokens = before,
                         .steps = prompt.size() + decoded,
                         .question_steps = prompt.size(),
                         .answer_steps = std::min<uint64_t>(answer.size(), decoded),
                         .ids = *ids,
                         .hidden = &cache->hidden(),
                         .units = {},
                         .queries = {}};
  recorded.spec.num_layers = 1;
  for (uint32_t layer = 0; layer < decoder.config().num_layers; ++layer) {
    recorded.layer = layer;
    recorded.units = ToUnits(recorded.spec, cache->cache(), layer);
    recorded.queries = cache->queries(layer);
    QUIRE_RETURN_IF_ERROR(visit(recorded));
  }
  return OkStatus();
}

}  // namespace

Status RecordModel(const std::string& model_directory, const RecordOptions& options,
                   const RecordedLayerVisitor& visit) {
  QUIRE_ASSIGN_OR_RETURN(const auto decoder,
                         worker::Decoder::Load(model_directory, &worker::CpuDevice()));
  const std::string tokens_file = model_directory + "/tokenizer.json";
  QUIRE_ASSIGN_OR_RETURN(const worker::Tokenizer tokenizer, worker::Tokenizer::Load(tokens_file));
  QUIRE_RETURN_IF_ERROR(worker::CheckTokenizer(tokenizer, tokens_file, decoder->config()));
  cli::ProgressBar progress("following a model", options.questions);
  return VisitQuestions(
      model_directory, options.questions,
      [&](const cli::DemoDocument& text, std::span<const cli::DemoQuestion> asked) -> Status {
        QUIRE_ASSIGN_OR_RETURN(std::vector<TokenId> tokens,
                               cli::DocumentTokens(tokenizer, text.text));
        RecordingCache cache(decoder->config(), decoder->config().max_positions);
        QUIRE_RETURN_IF_ERROR(ReadDocument(*decoder, tokens, &cache));
        for (const cli::DemoQuestion& question : asked) {
          QUIRE_RETURN_IF_ERROR(RecordQuestion(*decoder, tokenizer, text.name, question, options,
                                               &cache, &tokens, visit));
          progress.Advance(1, text.name);
        }
        return OkStatus();
      });
}

}  // namespace quire::bench
