// SPDX-License-Identifier: Apache-2.0
#include "python/native/block_layout.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace quire::python {
namespace {

/// Rows and channels of a tile, which stays in the first cache while it is turned.
constexpr int64_t kTile = 16;

/// Distances between tokens and between channels of a matrix, in bytes.
struct Steps {
  int64_t token = 0;
  int64_t channel = 0;
};

/// Copies elements of type T, which need not be aligned.
template <typename T>
void CopyTile(const std::byte* from, Steps from_steps, std::byte* to, Steps to_steps, int64_t rows,
              int64_t channels) {
  for (int64_t row = 0; row < rows; ++row) {
    const std::byte* const source = from + row * from_steps.token;
    std::byte* const target = to + row * to_steps.token;
    for (int64_t channel = 0; channel < channels; ++channel) {
      std::memcpy(target + channel * to_steps.channel, source + channel * from_steps.channel,
                  sizeof(T));
    }
  }
}

template <typename T>
void CopyRows(const std::byte* from, Steps from_steps, std::byte* to, Steps to_steps, int64_t rows,
              int64_t channels) {
  constexpr auto kElement = static_cast<int64_t>(sizeof(T));
  if (from_steps.channel == kElement && to_steps.channel == kElement) {
    for (int64_t row = 0; row < rows; ++row) {
      std::memcpy(to + row * to_steps.token, from + row * from_steps.token,
                  static_cast<size_t>(channels) * sizeof(T));
    }
    return;
  }
  for (int64_t row = 0; row < rows; row += kTile) {
    for (int64_t channel = 0; channel < channels; channel += kTile) {
      CopyTile<T>(from + row * from_steps.token + channel * from_steps.channel, from_steps,
                  to + row * to_steps.token + channel * to_steps.channel, to_steps,
                  std::min(kTile, rows - row), std::min(kTile, channels - channel));
    }
  }
}

/// Calls visit(place of the first row in the layer, its row in the page, rows) for each run of the
/// page's tokens that lies in one block. The place is in elements.
template <typename Visit>
void ForRuns(const BlockLayout& layout, const ElementStrides& strides, BlockTable blocks,
             const PageTokens& page, const Visit& visit) {
  for (uint64_t token = page.first_token; token < page.end_token;) {
    const uint64_t row = token % layout.block_tokens;
    const uint64_t count = std::min<uint64_t>(layout.block_tokens - row, page.end_token - token);
    const int64_t block = blocks[token / layout.block_tokens];
    const int64_t place = strides.first + block * strides.block + page.head * strides.head +
                          static_cast<int64_t>(row) * strides.token;
    visit(place, static_cast<int64_t>(token - page.page_first), static_cast<int64_t>(count));
    token += count;
  }
}

/// One half of a unit, keys or values: rows of head_dim elements.
template <typename T>
struct Half {
  static constexpr auto kElement = static_cast<int64_t>(sizeof(T));

  Half(const BlockLayout& layout, const ElementStrides& strides)
      : width(layout.head_dim),
        in_blocks{strides.token * kElement, strides.channel * kElement},
        in_unit{width * kElement, kElement} {}

  const int64_t width;
  const Steps in_blocks;
  const Steps in_unit;
};

template <typename T>
void ReadHalf(const BlockLayout& layout, const ElementStrides& strides, const std::byte* layer,
              BlockTable blocks, const PageTokens& page, std::byte* to) {
  const Half<T> half(layout, strides);
  ForRuns(layout, strides, blocks, page, [&](int64_t place, int64_t row, int64_t rows) {
    CopyRows<T>(layer + place * half.kElement, half.in_blocks, to + row * half.in_unit.token,
                half.in_unit, rows, half.width);
  });
}

template <typename T>
void WriteHalf(const BlockLayout& layout, const ElementStrides& strides, std::byte* layer,
               BlockTable blocks, const PageTokens& page, const std::byte* from) {
  const Half<T> half(layout, strides);
  ForRuns(layout, strides, blocks, page, [&](int64_t place, int64_t row, int64_t rows) {
    CopyRows<T>(from + row * half.in_unit.token, half.in_unit, layer + place * half.kElement,
                half.in_blocks, rows, half.width);
  });
}

uint64_t HalfBytes(const BlockLayout& layout, const PageTokens& page) {
  return uint64_t{page.page_tokens} * layout.head_dim * layout.element_bytes;
}

template <typename T>
void ReadAs(const BlockLayout& layout, const std::byte* layer, BlockTable blocks,
            const PageTokens& page, std::byte* unit) {
  ReadHalf<T>(layout, layout.keys, layer, blocks, page, unit);
  ReadHalf<T>(layout, layout.values, layer, blocks, page, unit + HalfBytes(layout, page));
}

template <typename T>
void WriteAs(const BlockLayout& layout, std::byte* layer, BlockTable blocks, const PageTokens& page,
             const std::byte* unit) {
  WriteHalf<T>(layout, layout.keys, layer, blocks, page, unit);
  WriteHalf<T>(layout, layout.values, layer, blocks, page, unit + HalfBytes(layout, page));
}

/// True when no product of the strides leaves 64 bits.
bool AreSmall(const ElementStrides& strides, int64_t elements) {
  const auto all = {strides.first, strides.block, strides.head, strides.token, strides.channel};
  return std::min(all) >= 0 && std::max(all) <= elements && elements < int64_t{1} << 46;
}

/// Elements from the start of the layer to the end of block 0.
int64_t ExtentOf(const BlockLayout& layout, const ElementStrides& strides) {
  return strides.first + (layout.num_heads - 1) * strides.head +
         (layout.block_tokens - 1) * strides.token + (layout.head_dim - 1) * strides.channel + 1;
}

}  // namespace

int64_t BlockLayout::BlocksWithin(int64_t elements) const {
  int64_t blocks = std::numeric_limits<int64_t>::max();
  for (const ElementStrides* strides : {&keys, &values}) {
    if (!AreSmall(*strides, elements) || strides->block == 0) return 0;
    const int64_t extent = ExtentOf(*this, *strides);
    if (extent > elements) return 0;
    blocks = std::min(blocks, (elements - extent) / strides->block + 1);
  }
  return blocks;
}

void ReadUnit(const BlockLayout& layout, const std::byte* layer, BlockTable blocks,
              const PageTokens& page, std::byte* unit) {
  if (page.end_token - page.first_token < page.page_tokens) {
    std::memset(unit, 0, 2 * HalfBytes(layout, page));
  }
  if (layout.element_bytes == 4) {
    ReadAs<uint32_t>(layout, layer, blocks, page, unit);
  } else {
    ReadAs<uint16_t>(layout, layer, blocks, page, unit);
  }
}

void WriteUnit(const BlockLayout& layout, std::byte* layer, BlockTable blocks,
               const PageTokens& page, const std::byte* unit) {
  if (layout.element_bytes == 4) {
    WriteAs<uint32_t>(layout, layer, blocks, page, unit);
  } else {
    WriteAs<uint16_t>(layout, layer, blocks, page, unit);
  }
}

}  // namespace quire::python
