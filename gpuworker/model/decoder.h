// SPDX-License-Identifier: Apache-2.0
//
// Decoder: the forward pass of a model of the Llama family or of DeepSeek's. An AttentionBackend
// computes attention, so that dense prefill and the budget cache share weights and layers.
// Ownership: owns the weights. Thread-safety: const after Load; concurrent Forward calls are safe
// when each has its own backend.
#ifndef QUIRE_GPUWORKER_MODEL_DECODER_H_
#define QUIRE_GPUWORKER_MODEL_DECODER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "gpuworker/device/device.h"
#include "gpuworker/model/checkpoint/config.h"
#include "gpuworker/model/sparse/sparse_prefill.h"
#include "kernels/api/sample.h"
#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::worker {

class HiddenTap;
class RecordableAttention;

/// One layer's attention over consecutive tokens. All arrays are float, row-major, on the device.
struct LayerStep {
  uint32_t layer = 0;
  uint32_t num_tokens = 0;      ///< Tokens of the step (t).
  uint64_t first_position = 0;  ///< Position of the first of them; the rest follow.
  const float* q = nullptr;     ///< [t][n_q][d], rotated
  const float* k = nullptr;     ///< [t][n_kv][d], rotated
  /// [t][n_kv][d], or null in latent attention: values are the first channels of the keys.
  const float* v = nullptr;
  float* out = nullptr;  ///< [t][n_q][ModelConfig::value_dim()]
};

class AttentionBackend {
 public:
  virtual ~AttentionBackend() = default;
  /// Takes the step's K and V into its cache and writes causal attention of its queries to
  /// step.out.
  [[nodiscard]] virtual Status Attend(const LayerStep& step) = 0;
  /// This, where a step of one token needs no host between its layers (recordable_attention.h).
  virtual RecordableAttention* AsRecordable() { return nullptr; }
  /// Observer of the hidden states of Forward; null for none.
  virtual HiddenTap* hidden_tap() { return nullptr; }
};

/// Attention of several sequences at a time.
class BatchAttention {
 public:
  virtual ~BatchAttention() = default;
  /// Appends K and V of every sequence's step to its cache, and writes its causal attention to its
  /// `out`. The steps have one layer, and the order of Decoder::ForwardBatch. An error ends the
  /// whole pass. A sequence that fails alone leaves its `out` unchanged. Its results are unusable,
  /// and no other sequence sees them.
  [[nodiscard]] virtual Status Attend(std::span<const LayerStep> steps) = 0;
  /// As AttentionBackend's, for one token of each sequence.
  virtual RecordableAttention* AsRecordable() { return nullptr; }
};

/// Destination of what a pass computed, in host memory: logits, or tokens that the device has
/// chosen by them.
struct PassOutput {
  float* logits = nullptr;                     ///< [rows][vocab]
  TokenId* tokens = nullptr;                   ///< [rows] or null: in place of logits.
  const kernels::SampleDraw* draws = nullptr;  ///< [rows] how `tokens` are chosen (kernels/api).
};

/// Share of one sequence in a batch.
struct SequenceTokens {
  std::span<const TokenId> tokens;  ///< At least one.
  uint64_t first_position = 0;      ///< Position of the first token; the rest follow.
  bool wants_logits = false;        ///< Computes logits after the last token.
  HiddenTap* tap = nullptr;         ///< Observer of its hidden states; null for none.
};

class ForwardPass;

class Decoder {
 public:
  /// Loads `directory`/config.json and its *.safetensors. Errors name the file and the tensor.
  static StatusOr<std::unique_ptr<Decoder>> Load(const std::string& directory, Device* device);
  ~Decoder();

  const ModelConfig& config() const;
  /// The spec of the KV pages this model makes: shapes, RoPE, weights hash; dtype, p and g are the
  /// caller's.
  KvSpec MakeKvSpec(DType dtype, uint32_t page_tokens, uint32_t segment_pages) const;

  /// Longer calls run in blocks of this many tokens, so that memory does not grow with the prompt.
  static constexpr uint32_t kBlockTokens = 512;

  enum class Logits { kNone, kLast, kAll };
  /// Runs `tokens` at positions first_position, first_position+1, ... `logits` has room for [vocab]
  /// (kLast) or [tokens][vocab] (kAll) floats; may be null for kNone. INVALID_ARGUMENT: a token id
  /// outside the vocabulary, or positions past the model's context.
  [[nodiscard]] Status Forward(std::span<const TokenId> tokens, uint64_t first_position,
                               AttentionBackend& attention, Logits what, float* logits) const;

  /// Device memory that passes work in.
  using Scratch = std::unique_ptr<ForwardPass, std::function<void(ForwardPass*)>>;
  /// Enough of it for passes over up to `tokens` tokens of up to `sequences` sequences, so that
  /// none of them has to allocate any. RESOURCE_EXHAUSTED when the device has no room for it. It is
  /// given back before the decoder ends.
  StatusOr<Scratch> ReserveScratch(uint32_t tokens, uint32_t sequences) const;

  /// One pass over tokens of several sequences, at most kBlockTokens together. Matrices are read
  /// once for all; attention is over a cache of each. `output` has a row for each sequence that
  /// wants logits, in order. Equal to Forward of each alone within the tolerance
  /// of matmul, whose order of additions may depend on the number of rows. Errors as Forward,
  /// naming the sequence. `scratch`, which one pass uses at a time, has room for as many tokens;
  /// null: the pass finds its own.
  [[nodiscard]] Status ForwardBatch(std::span<const SequenceTokens> sequences,
                                    BatchAttention& attention, PassOutput output,
                                    ForwardPass* scratch = nullptr) const;

  /// UNIMPLEMENTED for a model that SparsePrefill does not compute: one with sliding windows, soft
  /// caps, or two rotations.
  [[nodiscard]] Status CheckSparsePrefill() const;
  /// Sparse prefill of `prompt` (sparse_prefill.h). `logits` has room for [vocab] floats for each
  /// output of the last layer; null for none. INVALID_ARGUMENT: a token outside the vocabulary, a
  /// position past the model's context, or positions that do not ascend. Otherwise
  /// as CheckSparsePrefill.
  StatusOr<SparsePrefillStats> SparsePrefill(const SparsePrompt& prompt, RowPlan* plan,
                                             LayerViews* views, RowUpdate update,
                                             float* logits) const;

 private:
  class Impl;
  explicit Decoder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_DECODER_H_
