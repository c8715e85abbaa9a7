// SPDX-License-Identifier: Apache-2.0
//
// BlockLayout: where an engine keeps the keys and values of a layer, in blocks of tokens; and the
// copies between such blocks and units ([2][p][d]). Any order of dimensions has its strides, also
// keys that lie transposed. Blocks and pages need not divide each other.
//
// Thread-safety: pure functions; needs no GIL.
#ifndef QUIRE_PYTHON_NATIVE_BLOCK_LAYOUT_H_
#define QUIRE_PYTHON_NATIVE_BLOCK_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace quire::python {

/// Place of an element: first + block * b + head * h + token * t + channel * c, in elements.
struct ElementStrides {
  int64_t first = 0;
  int64_t block = 0;
  int64_t head = 0;
  int64_t token = 0;
  int64_t channel = 0;
};

struct BlockLayout {
  static constexpr uint32_t kMaxBlockTokens = 1 << 16;

  uint32_t block_tokens = 0;  ///< 1 to kMaxBlockTokens.
  uint32_t num_heads = 0;
  uint32_t head_dim = 0;
  uint32_t element_bytes = 2;  ///< 2 or 4
  ElementStrides keys;
  ElementStrides values;

  /// Blocks whose elements all lie among the first `elements`; 0 for strides that are negative or
  /// larger than that.
  int64_t BlocksWithin(int64_t elements) const;
};

/// Blocks of a sequence: token t is row t % block_tokens of block number blocks[t / block_tokens].
using BlockTable = std::span<const uint32_t>;

/// One page of one KV head: tokens [first_token, end_token) of the sequence, at most p of them.
struct PageTokens {
  uint32_t head = 0;
  uint32_t page_tokens = 0;  ///< `p`
  uint64_t page_first = 0;   ///< First token of the page.
  uint64_t first_token = 0;  ///< Within the page.
  uint64_t end_token = 0;    ///< Likewise; above `first_token`.
};

/// Copies rows of blocks to `unit`. Other rows of the unit become zero.
/// REQUIRES: the table has the tokens, and its blocks lie in the layer.
void ReadUnit(const BlockLayout& layout, const std::byte* layer, BlockTable blocks,
              const PageTokens& page, std::byte* unit);
/// Copies rows of `unit` to blocks. Other rows of the blocks stay as they are. REQUIRES: likewise.
void WriteUnit(const BlockLayout& layout, std::byte* layer, BlockTable blocks,
               const PageTokens& page, const std::byte* unit);

}  // namespace quire::python

#endif  // QUIRE_PYTHON_NATIVE_BLOCK_LAYOUT_H_
