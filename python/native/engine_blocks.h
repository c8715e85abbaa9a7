// SPDX-License-Identifier: Apache-2.0
//
// EngineBlocks: the KV cache of an inference engine in host memory, as units are read from it and
// written to it.
//
// Ownership: keeps the engine's arrays. Thread-safety: made and destroyed with the GIL held; copies
// run without it, and the caller sees to it that nobody else uses the tokens.
#ifndef QUIRE_PYTHON_NATIVE_ENGINE_BLOCKS_H_
#define QUIRE_PYTHON_NATIVE_ENGINE_BLOCKS_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "python/native/block_layout.h"
#include "python/native/host_array.h"
#include "python/native/session.h"
#include "quire/kv_spec.h"

namespace quire::python {

class EngineBlocks {
 public:
  /// `layers` are contiguous arrays of one dimension, one for each layer of `spec`. Throws
  /// INVALID_ARGUMENT for others, and for strides that leave them; UNIMPLEMENTED for MLA.
  EngineBlocks(KvSpec spec, nanobind::handle layers, uint32_t block_tokens, nanobind::handle keys,
               nanobind::handle values);
  EngineBlocks(const EngineBlocks&) = delete;
  EngineBlocks& operator=(const EngineBlocks&) = delete;

  int64_t num_blocks() const { return num_blocks_; }
  uint32_t block_tokens() const { return layout_.block_tokens; }
  const KvSpec& spec() const { return spec_; }

  /// Copies tokens [first_token, end_token) of a sequence, from the start of a page on, to `out`,
  /// [layers][pages][n_kv][unit]. Rows of the last page past the end become zero.
  void Read(nanobind::handle block_numbers, uint64_t first_token, uint64_t end_token,
            nanobind::handle out) const;
  /// Copies those rows of the recall's units that belong to tokens [first_token, end_token) to
  /// their places. Throws UNAVAILABLE when the units did not stay valid meanwhile.
  void Write(Recall& recall, nanobind::handle block_numbers, uint64_t first_token,
             uint64_t end_token);

 private:
  std::vector<uint32_t> TableOf(nanobind::handle block_numbers, uint64_t first_token,
                                uint64_t end_token) const;
  void CheckUnits(const RecallPart& part) const;
  void WritePart(const RecallPart& part, BlockTable blocks, uint64_t first_token,
                 uint64_t end_token);

  const KvSpec spec_;
  BlockLayout layout_;
  std::vector<HostArray> layers_;
  int64_t num_blocks_ = 0;  ///< Blocks of the smallest layer.
};

void BindEngineBlocks(nanobind::module_& module);

}  // namespace quire::python

#endif  // QUIRE_PYTHON_NATIVE_ENGINE_BLOCKS_H_
