// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/forward_pass.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

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
  const size_t t = max_tokens;
  const size_t query_dim = size_t{c_.num_query_heads} * c_.head_dim;
  const size_t kv_dim = size_t{c_.num_kv_heads} * c_.head_dim;
  const size_t half = c_.rope.rotary_dim / 2;
  const std::pair<DeviceBuffer*, size_t> floats[] = {
      {&cosines_, t * half},
      {&sines_, t * half},
      {&hidden_, t * c_.hidden_size},
      {&normed_, t * c_.hidden_size},
      {&delta_, t * c_.hidden_size},
      {&q_, t * query_dim},
      {&k_, t * kv_dim},
      {&v_, t * kv_dim},
      {&attended_, t * query_dim},
      {&gate_up_, t * 2 * c_.intermediate_size},
      {&gated_, t * c_.intermediate_size},
  };
  for (const auto& [buffer, count] : floats) {
    QUIRE_ASSIGN_OR_RETURN(*buffer, model_.device->Allocate(count * sizeof(float)));
  }
  QUIRE_ASSIGN_OR_RETURN(ids_, model_.device->Allocate(t * sizeof(int32_t)));
  QUIRE_ASSIGN_OR_RETURN(positions_, model_.device->Allocate(t * sizeof(int32_t)));
  max_tokens_ = max_tokens;
  return OkStatus();
}

Status ForwardPass::Run(std::span<const SequenceTokens> sequences, BatchAttention& attention,
                        float* logits) {
  QUIRE_RETURN_IF_ERROR(Begin(sequences));
  const std::vector<LayerStep> steps = StepsOf(sequences);
  if (IsDecodeStep(sequences)) {
    RecordableAttention* const recordable = attention.AsRecordable();
    if (recordable != nullptr) return RunDecodeStep(steps, *recordable, logits);
  }
  QUIRE_RETURN_IF_ERROR(
      RunLayers(steps, &ForwardPass::RecordedBetweenAttentions,
                [&](std::span<const LayerStep> layer) { return attention.Attend(layer); }));
  return LogitsOf(RowsOfLogits(sequences), logits);
}

bool ForwardPass::IsDecodeStep(std::span<const SequenceTokens> sequences) const {
  return sequences.size() == tokens_ && tokens_ <= kLogitRows &&
         std::ranges::all_of(sequences, &SequenceTokens::wants_logits);
}

Status ForwardPass::RunDecodeStep(const std::vector<LayerStep>& steps,
                                  RecordableAttention& attention, float* logits) {
  QUIRE_RETURN_IF_ERROR(ReserveLogits(tokens_));
  QUIRE_ASSIGN_OR_RETURN(const StepKey key, attention.Prepare(steps));
  const auto run = [&](Around around) -> Status {
    QUIRE_RETURN_IF_ERROR(RunLayers(
        steps, around, [&](std::span<const LayerStep> layer) { return attention.Launch(layer); }));
    QUIRE_RETURN_IF_ERROR(Norm(hidden_.as<float>(), model_.weights.final_norm, normed_.as<float>(),
                               tokens_, c_.hidden_size));
    return Vocabulary(tokens_);
  };
  // A step that is not run again soon is launched in parts, as others are.
  QUIRE_RETURN_IF_ERROR(steps_.Run(
      key, [&] { return run(&ForwardPass::BetweenAttentions); },
      [&] { return run(&ForwardPass::RecordedBetweenAttentions); }));
  QUIRE_RETURN_IF_ERROR(attention.Finish(steps));
  return FetchLogits(tokens_, logits);
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
  if (layer == 0) {
    QUIRE_RETURN_IF_ERROR(Embed());
  } else {
    const LayerWeights& before = model_.weights.layers[layer - 1];
    QUIRE_RETURN_IF_ERROR(Output(before));
    QUIRE_RETURN_IF_ERROR(FeedForward(before));
  }
  return layer < c_.num_layers ? Queries(layer) : OkStatus();
}

Status ForwardPass::RecordedBetweenAttentions(uint32_t layer) {
  if (tokens_ > kRecordedTokens) return BetweenAttentions(layer);
  const uint64_t key = uint64_t{tokens_} * (c_.num_layers + 1) + layer;
  return between_.Run(key, [this, layer] { return BetweenAttentions(layer); });
}

Status ForwardPass::FillRotations(std::span<const SequenceTokens> sequences) {
  const size_t half = c_.rope.rotary_dim / 2;
  std::vector<float> cosines(tokens_ * half);
  std::vector<float> sines(tokens_ * half);
  size_t at = 0;
  for (const SequenceTokens& sequence : sequences) {
    model_.rope.Fill(sequence.first_position, sequence.tokens.size(), cosines.data() + at,
                     sines.data() + at);
    at += sequence.tokens.size() * half;
  }
  Device& device = *model_.device;
  QUIRE_RETURN_IF_ERROR(device.CopyToDevice(cosines_.data(), cosines.data(), cosines.size() * 4));
  QUIRE_RETURN_IF_ERROR(device.CopyToDevice(sines_.data(), sines.data(), sines.size() * 4));
  return device.Synchronize();  // The host copies go away.
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
                     .q = q_.as<float>() + at * query_dim,
                     .k = k_.as<float>() + at * kv_dim,
                     .v = v_.as<float>() + at * kv_dim,
                     .out = attended_.as<float>() + at * query_dim});
    at += sequence.tokens.size();
  }
  return steps;
}

Status ForwardPass::Begin(std::span<const SequenceTokens> sequences) {
  std::vector<TokenId> ids;
  for (const SequenceTokens& sequence : sequences) {
    ids.insert(ids.end(), sequence.tokens.begin(), sequence.tokens.end());
  }
  tokens_ = static_cast<uint32_t>(ids.size());
  std::vector<int32_t> rows(tokens_);
  std::iota(rows.begin(), rows.end(), 0);

  Device& device = *model_.device;
  QUIRE_RETURN_IF_ERROR(FillRotations(sequences));
  QUIRE_RETURN_IF_ERROR(device.CopyToDevice(positions_.data(), rows.data(), rows.size() * 4));
  QUIRE_RETURN_IF_ERROR(device.CopyToDevice(ids_.data(), ids.data(), ids.size() * sizeof(TokenId)));
  return device.Synchronize();  // The host copies go away.
}

Status ForwardPass::Embed() {
  return ToStatus(ops_.embed({.table = model_.weights.embedding.as<float>(),
                              .ids = ids_.as<int32_t>(),
                              .y = hidden_.as<float>(),
                              .rows = tokens_,
                              .vocab = c_.vocab_size,
                              .dim = c_.hidden_size,
                              .stream = model_.device->stream()}),
                  "embed");
}

Status ForwardPass::Queries(uint32_t layer) {
  const LayerWeights& w = model_.weights.layers[layer];
  const int64_t hidden = c_.hidden_size;
  const int64_t d = c_.head_dim;
  const int64_t n_q = c_.num_query_heads;
  const int64_t n_kv = c_.num_kv_heads;
  float* const x = normed_.as<float>();
  float* const q = q_.as<float>();
  float* const k = k_.as<float>();

  QUIRE_RETURN_IF_ERROR(Norm(hidden_.as<float>(), w.attention_norm, x, tokens_, hidden));
  QUIRE_RETURN_IF_ERROR(Project(x, w.q, q, hidden, n_q * d));
  QUIRE_RETURN_IF_ERROR(Project(x, w.k, k, hidden, n_kv * d));
  QUIRE_RETURN_IF_ERROR(Project(x, w.v, v_.as<float>(), hidden, n_kv * d));
  if (c_.qk_norm) {
    QUIRE_RETURN_IF_ERROR(Norm(q, w.q_norm, q, tokens_ * n_q, d));
    QUIRE_RETURN_IF_ERROR(Norm(k, w.k_norm, k, tokens_ * n_kv, d));
  }
  QUIRE_RETURN_IF_ERROR(Rotate(q, n_q));
  return Rotate(k, n_kv);
}

Status ForwardPass::Output(const LayerWeights& w) {
  const int64_t query_dim = int64_t{c_.num_query_heads} * c_.head_dim;
  QUIRE_RETURN_IF_ERROR(
      Project(attended_.as<float>(), w.o, delta_.as<float>(), query_dim, c_.hidden_size));
  return AddResidual(delta_.as<float>());
}

Status ForwardPass::FeedForward(const LayerWeights& w) {
  const int64_t hidden = c_.hidden_size;
  const int64_t inner = c_.intermediate_size;
  float* const gate_up = gate_up_.as<float>();
  QUIRE_RETURN_IF_ERROR(
      Norm(hidden_.as<float>(), w.mlp_norm, normed_.as<float>(), tokens_, hidden));
  QUIRE_RETURN_IF_ERROR(Project(normed_.as<float>(), w.gate_up, gate_up, hidden, 2 * inner));
  QUIRE_RETURN_IF_ERROR(ToStatus(ops_.silu_mul({.gate = gate_up,
                                                .up = gate_up + inner,
                                                .y = gated_.as<float>(),
                                                .rows = tokens_,
                                                .dim = inner,
                                                .gate_stride = 2 * inner,
                                                .up_stride = 2 * inner,
                                                .stream = model_.device->stream()}),
                                 "silu_mul"));
  QUIRE_RETURN_IF_ERROR(Project(gated_.as<float>(), w.down, delta_.as<float>(), inner, hidden));
  return AddResidual(delta_.as<float>());
}

Status ForwardPass::Logits(uint32_t rows, float* to) {
  QUIRE_RETURN_IF_ERROR(ReserveLogits(std::min(kLogitRows, rows)));
  for (uint32_t done = 0; done < rows; done += kLogitRows) {
    const uint32_t count = std::min(kLogitRows, rows - done);
    const float* x = hidden_.as<float>() + size_t{done} * c_.hidden_size;
    QUIRE_RETURN_IF_ERROR(
        Norm(x, model_.weights.final_norm, normed_.as<float>(), count, c_.hidden_size));
    QUIRE_RETURN_IF_ERROR(Vocabulary(count));
    QUIRE_RETURN_IF_ERROR(FetchLogits(count, to + size_t{done} * c_.vocab_size));
  }
  return OkStatus();
}

Status ForwardPass::LogitsOf(std::span<const uint32_t> rows, float* to) {
  const size_t hidden = c_.hidden_size;
  for (size_t done = 0; done < rows.size(); done += kLogitRows) {
    const auto count = static_cast<uint32_t>(std::min<size_t>(kLogitRows, rows.size() - done));
    for (size_t i = 0; i < count; ++i) {
      QUIRE_RETURN_IF_ERROR(Norm(hidden_.as<float>() + rows[done + i] * hidden,
                                 model_.weights.final_norm, normed_.as<float>() + i * hidden, 1,
                                 c_.hidden_size));
    }
    QUIRE_RETURN_IF_ERROR(ReserveLogits(count));
    QUIRE_RETURN_IF_ERROR(Vocabulary(count));
    QUIRE_RETURN_IF_ERROR(FetchLogits(count, to + done * c_.vocab_size));
  }
  return OkStatus();
}

Status ForwardPass::ReserveLogits(uint32_t rows) {
  const size_t bytes = size_t{rows} * c_.vocab_size * sizeof(float);
  if (bytes <= logits_.size_bytes()) return OkStatus();
  steps_.Clear();  // They write to where the logits were.
  QUIRE_ASSIGN_OR_RETURN(logits_, model_.device->Allocate(bytes));
  return OkStatus();
}

Status ForwardPass::Vocabulary(uint32_t rows) {
  return ToStatus(ops_.matmul({.x = normed_.as<float>(),
                               .weight = model_.weights.output(),
                               .y = logits_.as<float>(),
                               .rows = rows,
                               .in = c_.hidden_size,
                               .out = c_.vocab_size,
                               .stream = model_.device->stream()}),
                  "matmul");
}

Status ForwardPass::FetchLogits(uint32_t rows, float* to) {
  const size_t bytes = size_t{rows} * c_.vocab_size * sizeof(float);
  QUIRE_RETURN_IF_ERROR(model_.device->CopyToHost(to, logits_.data(), bytes));
  return model_.device->Synchronize();
}

Status ForwardPass::Norm(const float* x, const DeviceBuffer& weight, float* y, int64_t rows,
                         int64_t dim) const {
  return ToStatus(ops_.rmsnorm({.x = x,
                                .weight = weight.as<float>(),
                                .y = y,
                                .rows = rows,
                                .dim = dim,
                                .eps = static_cast<float>(c_.rms_norm_eps),
                                .stream = model_.device->stream()}),
                  "rmsnorm");
}

Status ForwardPass::Project(const float* x, const Linear& linear, float* y, int64_t in,
                            int64_t out) const {
  return ToStatus(ops_.matmul({.x = x,
                               .weight = linear.weight.as<float>(),
                               .bias = linear.bias.as<float>(),
                               .y = y,
                               .rows = tokens_,
                               .in = in,
                               .out = out,
                               .stream = model_.device->stream()}),
                  "matmul");
}

Status ForwardPass::Rotate(float* heads, int64_t num_heads) const {
  return ToStatus(ops_.rope({.rows = heads,
                             .positions = positions_.as<int32_t>(),
                             .cos_table = cosines_.as<float>(),
                             .sin_table = sines_.as<float>(),
                             .t = tokens_,
                             .heads = num_heads,
                             .head_dim = c_.head_dim,
                             .rotary_dim = c_.rope.rotary_dim,
                             .n_positions = tokens_,
                             .interleaved = c_.rope.interleaved,
                             .dtype = DType::kF32,
                             .stream = model_.device->stream()}),
                  "rope");
}

Status ForwardPass::AddResidual(const float* delta) const {
  return ToStatus(ops_.add({.a = hidden_.as<float>(),
                            .b = delta,
                            .y = hidden_.as<float>(),
                            .n = int64_t{tokens_} * c_.hidden_size,
                            .stream = model_.device->stream()}),
                  "add");
}

}  // namespace quire::worker
