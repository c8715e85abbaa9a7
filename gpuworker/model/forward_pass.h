// SPDX-License-Identifier: Apache-2.0
//
// ForwardPass: the layers of a decoder over one block of tokens, of one sequence or of several,
// with the scratch memory for it. Internal to Decoder, which checks arguments and splits long calls
// into blocks. Ownership: borrows the model and the device. Thread-safety: none; one for each
// Forward call at a time (pass_pool.h).
#ifndef QUIRE_GPUWORKER_MODEL_FORWARD_PASS_H_
#define QUIRE_GPUWORKER_MODEL_FORWARD_PASS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "gpuworker/device/device.h"
#include "gpuworker/device/device_list.h"
#include "gpuworker/device/recorded_work.h"
#include "gpuworker/model/checkpoint/config.h"
#include "gpuworker/model/decoder.h"
#include "gpuworker/model/layer_math.h"
#include "gpuworker/model/recordable_attention.h"
#include "quire/status.h"

namespace quire::worker {

class ForwardPass {
 public:
  explicit ForwardPass(const Model& model)
      : model_(model),
        c_(model.config),
        math_(model),
        between_(model.device, kKeptBlocks * (size_t{model.config.num_layers} + 1)),
        steps_(model.device, kKeptSteps) {}

  /// Allocates scratch for blocks of up to `max_tokens` tokens.
  Status Allocate(uint32_t max_tokens);
  /// Allocates room for the logits of `rows` tokens, as a run of as many that want theirs does.
  Status AllocateLogits(uint32_t rows) { return ReserveLogits(std::min(rows, kLogitRows)); }
  uint32_t max_tokens() const { return math_.max_rows(); }

  /// Runs every layer over the tokens of `sequences`, 1 .. max_tokens valid ids together. `output`
  /// has a row for each of them that wants logits.
  Status Run(std::span<const SequenceTokens> sequences, BatchAttention& attention,
             PassOutput output);

  /// Logits of the first `rows` tokens of the last block, to host memory [rows][vocab].
  Status Logits(uint32_t rows, float* to);

 private:
  /// Rows of logits that are computed at a time: bounds the device memory for large vocabularies.
  static constexpr uint32_t kLogitRows = 32;
  /// Decode steps that stay recorded: of sequences that take turns, and batches that change.
  static constexpr size_t kKeptSteps = 8;
  /// Lengths of blocks whose stretches between attentions stay recorded.
  static constexpr size_t kKeptBlocks = 8;
  /// Longer blocks are not recorded: the device is busy while the host gives it their kernels.
  static constexpr uint32_t kRecordedTokens = 64;

  /// Shows the inputs of `layer` to the sequences that tap it, by one copy.
  Status ShowHidden(std::span<const SequenceTokens> sequences, uint32_t layer);
  /// Copies the block's input of kernels to the device.
  Status Begin(std::span<const SequenceTokens> sequences);
  /// True if the block has one token of each of `sequences`, with few enough logits for one
  /// product.
  bool IsDecodeStep(std::span<const SequenceTokens> sequences) const;
  /// A decode step without host work: one launch, once it is recorded.
  Status RunDecodeStep(const std::vector<LayerStep>& steps, RecordableAttention& attention,
                       PassOutput output);
  /// Every layer: what is around attention by `around`, attention by `attend`.
  using Around = Status (ForwardPass::*)(uint32_t layer);
  using Attend = std::function<Status(std::span<const LayerStep> steps)>;
  Status RunLayers(std::vector<LayerStep> steps, Around around, const Attend& attend);
  /// Arguments of attention for each of `sequences`, with the pointers of its tokens.
  std::vector<LayerStep> StepsOf(std::span<const SequenceTokens> sequences) const;
  /// Everything between the attention of the layer before `layer` and its own: what ends the one,
  /// or embeds the tokens, and begins the other. `layer` may be num_layers.
  Status BetweenAttentions(uint32_t layer);
  /// The same, recorded for blocks of as many tokens, where they are few.
  Status RecordedBetweenAttentions(uint32_t layer);
  /// Logits of the tokens `rows`, to `to`.
  Status LogitsOf(std::span<const uint32_t> rows, PassOutput to);
  // Logits of the first `rows` of the normed tokens, rows <= kLogitRows: room for them, the
  // product, and to host memory or what is to be made of them.
  Status ReserveLogits(uint32_t rows);
  Status Vocabulary(uint32_t rows);
  Status FetchLogits(uint32_t rows, float* to);
  Status Deliver(uint32_t rows, PassOutput to);

  const Model& model_;
  const ModelConfig& c_;
  LayerMath math_;
  uint32_t tokens_ = 0;  ///< Tokens of the current block (t).

  DeviceBuffer hidden_;  ///< [t][h], the residual stream
  DeviceBuffer logits_;  ///< [rows][vocab] of the last product
  DeviceBuffer chosen_;  ///< [kLogitRows] tokens
  DeviceList<kernels::SampleDraw> draws_;
  // After what they point to, so that they go first.
  RecordedWork<uint64_t> between_;
  RecordedWork<StepKey> steps_;  ///< Whole decode steps; what attention points to is in their keys.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_FORWARD_PASS_H_
