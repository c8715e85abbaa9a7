// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/decoder.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "gpuworker/model/checkpoint/checkpoint.h"
#include "gpuworker/model/checkpoint/companions.h"
#include "gpuworker/model/checkpoint/pages_spec.h"
#include "gpuworker/model/forward_pass.h"
#include "gpuworker/model/pass_pool.h"
#include "gpuworker/model/sparse/sparse_pass.h"

namespace quire::worker {
namespace {

Status CheckKernels(const Device& device) {
  const kernels::KernelTable& ops = device.kernels();
  const std::pair<const char*, bool> needed[] = {{"soft_cap", ops.soft_cap != nullptr},
                                                 {"embed", ops.embed != nullptr},
                                                 {"rmsnorm", ops.rmsnorm != nullptr},
                                                 {"matmul", ops.matmul != nullptr},
                                                 {"rope", ops.rope != nullptr},
                                                 {"silu_mul", ops.silu_mul != nullptr},
                                                 {"add", ops.add != nullptr}};
  for (const auto& [name, present] : needed) {
    if (!present) return Unimplemented("device ", device.name(), " has no kernel ", name);
  }
  return OkStatus();
}

/// A batch of one.
class OneSequence final : public BatchAttention {
 public:
  explicit OneSequence(AttentionBackend* backend) : backend_(backend) {}
  Status Attend(std::span<const LayerStep> steps) override {
    return backend_->Attend(steps.front());
  }
  RecordableAttention* AsRecordable() override { return backend_->AsRecordable(); }

 private:
  AttentionBackend* const backend_;
};

}  // namespace

class Decoder::Impl {
 public:
  Impl(Model model, const WeightsHash& hash)
      : model_(std::move(model)), hash_(hash), passes_(model_) {}

  PassPool& passes() const { return passes_; }
  const ModelConfig& config() const { return model_.config; }
  const Model& model() const { return model_; }

  KvSpec MakeKvSpec(DType dtype, uint32_t page_tokens, uint32_t segment_pages) const;
  Status Check(std::span<const TokenId> tokens, uint64_t first_position) const;

 private:
  const Model model_;
  const WeightsHash hash_;
  mutable PassPool passes_;  ///< Thread-safe.
};

KvSpec Decoder::Impl::MakeKvSpec(DType dtype, uint32_t page_tokens, uint32_t segment_pages) const {
  return SpecOfPages(config(), hash_, {dtype, page_tokens, segment_pages});
}

Status Decoder::Impl::Check(std::span<const TokenId> tokens, uint64_t first_position) const {
  const uint64_t context = config().max_positions;
  if (tokens.empty()) return InvalidArgument("no tokens to run");
  if (first_position >= context || tokens.size() > context - first_position) {
    return InvalidArgument(tokens.size(), " tokens from position ", first_position,
                           " on pass the end of the model's context of ", context,
                           " positions; use a shorter prompt or fewer new tokens");
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && static_cast<uint32_t>(tokens[i]) < config().vocab_size) continue;
    return InvalidArgument("token ", i, " has id ", tokens[i], ", outside the vocabulary of ",
                           config().vocab_size, "; was it made by another model's tokenizer?");
  }
  return OkStatus();
}

Decoder::Decoder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Decoder::~Decoder() = default;

StatusOr<std::unique_ptr<Decoder>> Decoder::Load(const std::string& directory, Device* device) {
  QUIRE_RETURN_IF_ERROR(CheckKernels(*device));
  QUIRE_ASSIGN_OR_RETURN(ModelConfig config, LoadModelConfig(directory + "/config.json"));
  if (config.experts.num_experts > 0) {
    QUIRE_RETURN_IF_ERROR(ExpertBlock::CheckKernels(*device));
  }
  QUIRE_RETURN_IF_ERROR(ReadCompanions(directory, &config));
  QUIRE_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::Open(directory));
  QUIRE_ASSIGN_OR_RETURN(Weights weights, LoadWeights(checkpoint, config, device));
  const WeightsHash hash = HashOf(checkpoint, config);
  RopeTable rope(config.rope);
  std::optional<RopeTable> local_rope;
  if (config.gemma.local_rope) local_rope.emplace(*config.gemma.local_rope);
  Model model{device, std::move(config), std::move(weights), std::move(rope),
              std::move(local_rope)};
  return std::unique_ptr<Decoder>(new Decoder(std::make_unique<Impl>(std::move(model), hash)));
}

const ModelConfig& Decoder::config() const { return impl_->config(); }

KvSpec Decoder::MakeKvSpec(DType dtype, uint32_t page_tokens, uint32_t segment_pages) const {
  return impl_->MakeKvSpec(dtype, page_tokens, segment_pages);
}

Status Decoder::Forward(std::span<const TokenId> tokens, uint64_t first_position,
                        AttentionBackend& attention, Logits what, float* logits) const {
  QUIRE_RETURN_IF_ERROR(impl_->Check(tokens, first_position));
  OneSequence one(&attention);
  QUIRE_ASSIGN_OR_RETURN(
      const PassPool::Lease lease,
      impl_->passes().Take(static_cast<uint32_t>(std::min<size_t>(tokens.size(), kBlockTokens))));
  ForwardPass& pass = *lease;
  for (size_t done = 0; done < tokens.size(); done += kBlockTokens) {
    const auto block = tokens.subspan(done, std::min<size_t>(tokens.size() - done, kBlockTokens));
    const uint32_t count = static_cast<uint32_t>(block.size());
    const bool all = what == Logits::kAll;
    const bool last = what == Logits::kLast && done + count == tokens.size();
    const SequenceTokens sequence{.tokens = block,
                                  .first_position = first_position + done,
                                  .wants_logits = last || (all && count == 1),
                                  .tap = attention.hidden_tap()};
    float* const own = all ? logits + done * config().vocab_size : logits;
    QUIRE_RETURN_IF_ERROR(pass.Run({&sequence, 1}, one, {.logits = own}));
    if (all && count > 1) QUIRE_RETURN_IF_ERROR(pass.Logits(count, own));
  }
  return OkStatus();
}

StatusOr<Decoder::Scratch> Decoder::ReserveScratch(uint32_t tokens, uint32_t sequences) const {
  if (tokens == 0 || tokens > kBlockTokens) {
    return InvalidArgument("scratch for ", tokens, " tokens: must be 1..", kBlockTokens);
  }
  QUIRE_ASSIGN_OR_RETURN(PassPool::Lease pass, impl_->passes().Take(tokens));
  QUIRE_RETURN_IF_ERROR(pass->AllocateLogits(sequences));
  return Scratch(std::move(pass));
}

Status Decoder::ForwardBatch(std::span<const SequenceTokens> sequences, BatchAttention& attention,
                             PassOutput output, ForwardPass* scratch) const {
  if (sequences.empty()) return InvalidArgument("a batch of no sequences");
  size_t tokens = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const SequenceTokens& sequence = sequences[i];
    QUIRE_RETURN_IF_ERROR(Annotate(impl_->Check(sequence.tokens, sequence.first_position),
                                   "sequence ", i, " of the batch"));
    tokens += sequence.tokens.size();
    if (tokens > kBlockTokens) {
      return InvalidArgument("the batch has more than ", kBlockTokens, " tokens; give it fewer");
    }
  }
  if (scratch != nullptr) {
    if (tokens <= scratch->max_tokens()) return scratch->Run(sequences, attention, output);
    return InvalidArgument("the batch has ", tokens, " tokens, and scratch for ",
                           scratch->max_tokens());
  }
  QUIRE_ASSIGN_OR_RETURN(const PassPool::Lease pass,
                         impl_->passes().Take(static_cast<uint32_t>(tokens)));
  return pass->Run(sequences, attention, output);
}

Status Decoder::CheckSparsePrefill() const {
  constexpr char kOthers[] =
      ", and prompts over several documents are computed for models without; ask about one "
      "document at a time";
  if (!config().Windows().empty()) {
    return Unimplemented("the model has layers that see the last ", config().window, " tokens only",
                         kOthers);
  }
  if (config().gemma.attention_soft_cap > 0) {
    return Unimplemented("the model caps the scores of attention", kOthers);
  }
  if (config().gemma.local_rope) {
    return Unimplemented("the model rotates its sliding layers in another way", kOthers);
  }
  return OkStatus();
}

StatusOr<SparsePrefillStats> Decoder::SparsePrefill(const SparsePrompt& prompt, RowPlan* plan,
                                                    LayerViews* views, RowUpdate update,
                                                    float* logits) const {
  if (config().latent) {
    return Unimplemented(Name(config().architecture),
                         " has latent attention, for which no part of a prompt is computed alone; "
                         "compute the whole prompt");
  }
  if (prompt.positions.size() != prompt.tokens.size()) {
    return InvalidArgument(prompt.tokens.size(), " tokens with ", prompt.positions.size(),
                           " positions");
  }
  const auto disorder = std::ranges::adjacent_find(prompt.positions, std::greater_equal<>());
  if (disorder != prompt.positions.end()) {
    return InvalidArgument("position ", *disorder, " is not before the next one, ",
                           *std::next(disorder));
  }
  QUIRE_RETURN_IF_ERROR(impl_->Check(prompt.tokens, 0));
  QUIRE_RETURN_IF_ERROR(impl_->Check(prompt.tokens.last(1), prompt.positions.back()));
  QUIRE_RETURN_IF_ERROR(CheckSparsePrefill());
  SparsePass pass(impl_->model(), prompt, plan, views, update);
  QUIRE_RETURN_IF_ERROR(pass.Run(logits));
  return pass.stats();
}

}  // namespace quire::worker
