// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/forward_pass.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "gpuworker/model/hidden_tap.h"

namespace quire::worker {
namespace {

/// The tokens of a block whose logits are wanted.
std::vector<uint32_t> RowsOfLogits(std::span<const SequenceTokens> sequences) {
  std::vector<uint32_t> rows;
  uint32_t end = 0;
  for (const SequenceTokens& sequence : sequences) {
    end += static_cast<uint32_t>(sequence.tokens.size());
    if (sequence.wants_logits) rows.push_back(end - 1);
  }
  return rows;
}

}  // namespace

Status ForwardPass::Allocate(uint32_t max_tokens) {
  QUIRE_RETURN_IF_ERROR(math_.Allocate(max_tokens));
  QUIRE_ASSIGN_OR_RETURN(hidden_, model_.device->Allocate(size_t{max_tokens} * c_.hidden_size * 4));
  return OkStatus();
}

Status ForwardPass::Run(std::span<const SequenceTokens> sequences, BatchAttention& attention,
                        PassOutput output) {
  QUIRE_RETURN_IF_ERROR(Begin(sequences));
  const std::vector<LayerStep> steps = StepsOf(sequences);
  if (IsDecodeStep(sequences)) {
    RecordableAttention* const recordable = attention.AsRecordable();
    if (recordable != nullptr) return RunDecodeStep(steps, *recordable, output);
  }
  QUIRE_RETURN_IF_ERROR(RunLayers(steps, &ForwardPass::RecordedBetweenAttentions,
                                  [&](std::span<const LayerStep> layer) -> Status {
                                    QUIRE_RETURN_IF_ERROR(
                                        ShowHidden(sequences, layer.front().layer));
                                    return attention.Attend(layer);
                                  }));
  return LogitsOf(RowsOfLogits(sequences), output);
}

bool ForwardPass::IsDecodeStep(std::span<const SequenceTokens> sequences) const {
  return sequences.size() == tokens_ && tokens_ <= kLogitRows &&
         std::ranges::all_of(sequences, [](const SequenceTokens& sequence) {
           return sequence.wants_logits && sequence.tap == nullptr;
         });
}

Status ForwardPass::ShowHidden(std::span<const SequenceTokens> sequences, uint32_t layer) {
  const size_t hidden = c_.hidden_size;
  struct Tapped {
    HiddenTap* tap;
    size_t first, tokens;  ///< Rows of hidden_.
  };
  std::vector<Tapped> tapped;
  size_t at = 0;
  for (const SequenceTokens& sequence : sequences) {
    if (sequence.tap != nullptr && sequence.tap->Wants(layer)) {
      tapped.push_back({sequence.tap, at, sequence.tokens.size()});
    }
    at += sequence.tokens.size();
  }
  if (tapped.empty()) return OkStatus();
  // One copy for all, as the host waits for it. Rows in between come along.
  const size_t first = tapped.front().first;
  const size_t count = tapped.back().first + tapped.back().tokens - first;
  std::vector<float> rows(count * hidden);
  QUIRE_RETURN_IF_ERROR(model_.device->CopyToHost(rows.data(), hidden_.as<float>() + first * hidden,
                                                  rows.size() * sizeof(float)));
  for (const Tapped& one : tapped) {
    one.tap->Take(layer,
                  std::span(rows).subspan((one.first - first) * hidden, one.tokens * hidden));
  }
  return OkStatus();
}

Status ForwardPass::RunDecodeStep(const std::vector<LayerStep>& steps,
                                  RecordableAttention& attention, PassOutput output) {
  QUIRE_RETURN_IF_ERROR(ReserveLogits(tokens_));
  QUIRE_ASSIGN_OR_RETURN(const StepKey key, attention.Prepare(steps));
  const auto run = [&](Around around) -> Status {
    QUIRE_RETURN_IF_ERROR(RunLayers(
        steps, around, [&](std::span<const LayerStep> layer) { return attention.Launch(layer); }));
    QUIRE_RETURN_IF_ERROR(math_.FinalNorm(hidden_.as<float>(), math_.normed(), tokens_));
    return Vocabulary(tokens_);
  };
  // A step that is not run again soon is launched in parts, as others are.
  QUIRE_RETURN_IF_ERROR(steps_.Run(
      key, [&] { return run(&ForwardPass::BetweenAttentions); },
      [&] { return run(&ForwardPass::RecordedBetweenAttentions); }));
  QUIRE_RETURN_IF_ERROR(attention.Finish(steps));
  return Deliver(tokens_, output);
}

Status ForwardPass::RunLayers(std::vector<LayerStep> steps, Around around, const Attend& attend) {
  for (uint32_t layer = 0; layer < c_.num_layers; ++layer) {
    QUIRE_RETURN_IF_ERROR(Annotate((this->*around)(layer), "layer ", layer));
    for (LayerStep& step : steps) step.layer = layer;
    QUIRE_RETURN_IF_ERROR(Annotate(attend(steps), "layer ", layer));
  }
  return (this->*around)(c_.num_layers);
}

Status ForwardPass::BetweenAttentions(uint32_t layer) {
  float* const hidden = hidden_.as<float>();
  QUIRE_RETURN_IF_ERROR(layer == 0 ? math_.Embed(hidden) : math_.EndLayer(layer - 1, hidden));
  return layer < c_.num_layers ? math_.Queries(layer, hidden) : OkStatus();
}

Status ForwardPass::RecordedBetweenAttentions(uint32_t layer) {
  if (tokens_ > kRecordedTokens) return BetweenAttentions(layer);
  const uint64_t key = uint64_t{tokens_} * (c_.num_layers + 1) + layer;
  return between_.Run(key, [this, layer] { return BetweenAttentions(layer); });
}

std::vector<LayerStep> ForwardPass::StepsOf(std::span<const SequenceTokens> sequences) const {
  const size_t query_dim = size_t{c_.num_query_heads} * c_.head_dim;
  const size_t kv_dim = size_t{c_.num_kv_heads} * c_.head_dim;
  std::vector<LayerStep> steps;
  steps.reserve(sequences.size());
  size_t at = 0;
  for (const SequenceTokens& sequence : sequences) {
    steps.push_back({.num_tokens = static_cast<uint32_t>(sequence.tokens.size()),
                     .first_position = sequence.first_position,
                     .q = math_.q() + at * query_dim,
                     .k = math_.k() + at * kv_dim,
                     .v = c_.latent ? nullptr : math_.v() + at * kv_dim,
                     .out = math_.attended() + at * c_.num_query_heads * c_.value_dim()});
    at += sequence.tokens.size();
  }
  return steps;
}

Status ForwardPass::Begin(std::span<const SequenceTokens> sequences) {
  std::vector<TokenId> ids;
  std::vector<uint64_t> positions;
  for (const SequenceTokens& sequence : sequences) {
    ids.insert(ids.end(), sequence.tokens.begin(), sequence.tokens.end());
    for (size_t i = 0; i < sequence.tokens.size(); ++i) {
      positions.push_back(sequence.first_position + i);
    }
  }
  tokens_ = static_cast<uint32_t>(ids.size());
  QUIRE_RETURN_IF_ERROR(math_.SetRows(positions));
  return math_.SetTokens(ids);
}

Status ForwardPass::Logits(uint32_t rows, float* to) {
  QUIRE_RETURN_IF_ERROR(ReserveLogits(std::min(kLogitRows, rows)));
  for (uint32_t done = 0; done < rows; done += kLogitRows) {
    const uint32_t count = std::min(kLogitRows, rows - done);
    const float* x = hidden_.as<float>() + size_t{done} * c_.hidden_size;
    QUIRE_RETURN_IF_ERROR(math_.FinalNorm(x, math_.normed(), count));
    QUIRE_RETURN_IF_ERROR(Vocabulary(count));
    QUIRE_RETURN_IF_ERROR(FetchLogits(count, to + size_t{done} * c_.vocab_size));
  }
  return OkStatus();
}

Status ForwardPass::LogitsOf(std::span<const uint32_t> rows, PassOutput to) {
  const size_t hidden = c_.hidden_size;
  for (size_t done = 0; done < rows.size(); done += kLogitRows) {
    const auto count = static_cast<uint32_t>(std::min<size_t>(kLogitRows, rows.size() - done));
    // Rows that follow each other go together.
    for (size_t i = 0, end = 0; i < count; i = end) {
      for (end = i + 1; end < count && rows[done + end] == rows[done + end - 1] + 1;) ++end;
      QUIRE_RETURN_IF_ERROR(math_.FinalNorm(hidden_.as<float>() + rows[done + i] * hidden,
                                            math_.normed() + i * hidden,
                                            static_cast<uint32_t>(end - i)));
    }
    QUIRE_RETURN_IF_ERROR(ReserveLogits(count));
    QUIRE_RETURN_IF_ERROR(Vocabulary(count));
    PassOutput own = to;
    if (to.logits != nullptr) own.logits += done * c_.vocab_size;
    if (to.tokens != nullptr) {
      own.tokens += done;
      own.draws += done;
    }
    QUIRE_RETURN_IF_ERROR(Deliver(count, own));
  }
  return OkStatus();
}

Status ForwardPass::Deliver(uint32_t rows, PassOutput to) {
  if (to.tokens == nullptr) return FetchLogits(rows, to.logits);
  Device& device = *model_.device;
  if (chosen_.size_bytes() == 0) {
    QUIRE_ASSIGN_OR_RETURN(chosen_, device.Allocate(kLogitRows * sizeof(TokenId)));
  }
  QUIRE_ASSIGN_OR_RETURN(const kernels::SampleDraw* const draws,
                         draws_.Put(device, std::span(to.draws, rows)));
  QUIRE_RETURN_IF_ERROR(ToStatus(device.kernels().sample({.logits = logits_.as<float>(),
                                                          .draws = draws,
                                                          .tokens = chosen_.as<int32_t>(),
                                                          .rows = rows,
                                                          .vocab = c_.vocab_size,
                                                          .stream = device.stream()}),
                                 "sample"));
  return device.CopyToHost(to.tokens, chosen_.data(), rows * sizeof(TokenId));
}

Status ForwardPass::ReserveLogits(uint32_t rows) {
  const size_t bytes = size_t{rows} * c_.vocab_size * sizeof(float);
  if (bytes <= logits_.size_bytes()) return OkStatus();
  steps_.Clear();  // They write to where the logits were.
  QUIRE_ASSIGN_OR_RETURN(logits_, model_.device->Allocate(bytes));
  return OkStatus();
}

Status ForwardPass::Vocabulary(uint32_t rows) {
  return math_.Vocabulary(math_.normed(), logits_.as<float>(), rows);
}

Status ForwardPass::FetchLogits(uint32_t rows, float* to) {
  const size_t bytes = size_t{rows} * c_.vocab_size * sizeof(float);
  return model_.device->CopyToHost(to, logits_.data(), bytes);
}

}  // namespace quire::worker
