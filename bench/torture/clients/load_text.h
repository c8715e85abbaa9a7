// SPDX-License-Identifier: Apache-2.0
//
// LoadText: overlapping texts and their pages. A text is a common beginning and an ending. Texts
// with one beginning share its segments. The tokens up to the end of a page determine its bytes, as
// those of a model do. Only the last bit of each number is noise, as between different processors.
// The text alone therefore tells what a unit holds, up to noise.
// Thread-safety: immutable.
#ifndef QUIRE_BENCH_TORTURE_CLIENTS_LOAD_TEXT_H_
#define QUIRE_BENCH_TORTURE_CLIENTS_LOAD_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/random.h"
#include "quire/key.h"
#include "quire/kv_spec.h"

namespace quire::torture {

class LoadText {
 public:
  /// Draws one of the overlapping texts of `seed` by `random`: whole pages.
  static LoadText Draw(const KvSpec& spec, uint64_t seed, SeededRandom& random);
  /// This text with `pages` more pages, unique to the result.
  LoadText ContinuedBy(uint32_t pages, SeededRandom& random) const;
  /// Its first pages.
  LoadText First(uint32_t pages) const;

  const std::vector<TokenId>& tokens() const { return tokens_; }
  uint32_t num_pages() const { return static_cast<uint32_t>(page_seeds_.size()); }
  /// The unit without noise.
  std::vector<std::byte> Unit(uint32_t page, uint32_t layer, uint32_t head) const;
  /// Pages [first, num_pages()) as [pages][layers][n_kv] units, with noise drawn by `random`.
  std::vector<std::byte> PagesFrom(uint32_t first, SeededRandom& random) const;
  /// Removes the noise from whole units.
  static void RemoveNoise(std::span<std::byte> units);
  std::span<const TokenId> TokensFrom(uint32_t first_page) const;

 private:
  explicit LoadText(const KvSpec& spec) : spec_(spec) {}
  void AddPage(SeededRandom& random);

  KvSpec spec_;
  std::vector<TokenId> tokens_;
  std::vector<uint64_t> page_seeds_;  ///< Seed of the tokens up to the end of each page.
};

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_CLIENTS_LOAD_TEXT_H_
