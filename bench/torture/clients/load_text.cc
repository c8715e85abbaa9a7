// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/clients/load_text.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "quire/layout.h"

namespace quire::torture {
namespace {

constexpr uint64_t kBeginnings = 6;
constexpr uint64_t kEndings = 4;
constexpr uint32_t kBeginningPages = 6;
constexpr uint32_t kMostEndingPages = 7;
constexpr uint64_t kTextVocabulary = 32000;
/// Clears the highest exponent bit of four 16-bit floats, so that each is finite.
constexpr uint64_t kFiniteHalves = 0xbfffbfffbfffbfff;
/// The last bits of four 16-bit numbers.
constexpr uint64_t kNoise = 0x0001000100010001;

/// Applies `change` to each 8 bytes of `units`.
void ChangeWords(std::span<std::byte> units, const std::function<uint64_t(uint64_t)>& change) {
  for (size_t at = 0; at < units.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    const size_t bytes = std::min(sizeof word, units.size() - at);
    std::memcpy(&word, units.data() + at, bytes);
    word = change(word);
    std::memcpy(units.data() + at, &word, bytes);
  }
}

}  // namespace

LoadText LoadText::Draw(const KvSpec& spec, uint64_t seed, SeededRandom& random) {
  const uint64_t beginning = random.Below(kBeginnings);
  const uint64_t ending = random.Below(kEndings);
  LoadText text(spec);
  SeededRandom first(seed * 1000 + beginning);
  for (uint32_t page = 0; page < kBeginningPages; ++page) text.AddPage(first);
  SeededRandom second(seed * 1000 + kBeginnings + beginning * kEndings + ending);
  const auto pages = static_cast<uint32_t>(1 + second.Below(kMostEndingPages));
  for (uint32_t page = 0; page < pages; ++page) text.AddPage(second);
  return text;
}

LoadText LoadText::ContinuedBy(uint32_t pages, SeededRandom& random) const {
  LoadText text = *this;
  for (uint32_t page = 0; page < pages; ++page) text.AddPage(random);
  return text;
}

LoadText LoadText::First(uint32_t pages) const {
  LoadText text = *this;
  text.page_seeds_.resize(pages);
  text.tokens_.resize(size_t{pages} * spec_.page_tokens);
  return text;
}

void LoadText::AddPage(SeededRandom& random) {
  uint64_t seed = page_seeds_.empty() ? 0 : page_seeds_.back();
  for (uint32_t i = 0; i < spec_.page_tokens; ++i) {
    tokens_.push_back(static_cast<TokenId>(random.Below(kTextVocabulary)));
    seed = SeededRandom(seed ^ static_cast<uint64_t>(tokens_.back())).Next();
  }
  page_seeds_.push_back(seed);
}

std::vector<std::byte> LoadText::Unit(uint32_t page, uint32_t layer, uint32_t head) const {
  SeededRandom random(page_seeds_[page] ^ (uint64_t{layer} << 32 | head));
  std::vector<std::byte> unit(UnitBytes(spec_));
  ChangeWords(unit, [&](uint64_t) { return random.Next() & kFiniteHalves & ~kNoise; });
  return unit;
}

void LoadText::RemoveNoise(std::span<std::byte> units) {
  ChangeWords(units, [](uint64_t word) { return word & ~kNoise; });
}

std::vector<std::byte> LoadText::PagesFrom(uint32_t first, SeededRandom& random) const {
  std::vector<std::byte> bytes;
  for (uint32_t page = first; page < num_pages(); ++page) {
    for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
      for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
        const std::vector<std::byte> unit = Unit(page, layer, head);
        bytes.insert(bytes.end(), unit.begin(), unit.end());
      }
    }
  }
  ChangeWords(bytes, [&](uint64_t word) { return word | (random.Next() & kNoise); });
  return bytes;
}

std::span<const TokenId> LoadText::TokensFrom(uint32_t first_page) const {
  return std::span(tokens_).subspan(size_t{first_page} * spec_.page_tokens);
}

}  // namespace quire::torture
