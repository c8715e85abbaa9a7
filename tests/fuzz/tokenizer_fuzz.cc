// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes text to ids and back, by a tokenizer of each kind. Text without special tokens comes back
// as it was, but for what the file's normalizer changes. Ids one by one give the text of all.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/utf8.h"
#include "gpuworker/text/text_stream.h"
#include "gpuworker/text/tokenizer.h"
#include "tests/kit/paths.h"

namespace {

using quire::TokenId;
using quire::worker::Tokenizer;

struct Kind {
  const char* name;
  bool keeps_text;  ///< Its normalizer loses nothing.
};
constexpr Kind kKinds[] = {{"llama3", true},
                           {"mistral_nemo", true},
                           {"llama2", false},
                           {"mistral", false},
                           {"qwen", false}};

const Tokenizer& TokenizerOf(size_t kind) {
  static const std::vector<Tokenizer> tokenizers = [] {
    std::vector<Tokenizer> all;
    for (const Kind& one : kKinds) {
      const std::string path =
          std::string(QUIRE_SOURCE_DIR "/tests/data/golden/text/") + one.name + ".json";
      all.push_back(*Tokenizer::Load(path));
    }
    return all;
  }();
  return tokenizers[kind];
}

/// The text of ids one by one must be that of all.
void CheckStream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  const auto whole = tokenizer.Decode(ids);
  if (!whole.ok()) std::abort();
  std::string bytes, streamed;
  quire::worker::TextStream stream(tokenizer);
  bool first = true;
  for (const TokenId id : ids) {
    bytes += *tokenizer.BytesOf(id, first);
    first = first && tokenizer.IsSpecial(id);
    streamed += *stream.Add(id);
    if (quire::FirstInvalidUtf8(streamed)) std::abort();
  }
  streamed += stream.Finish();
  if (!quire::FirstInvalidUtf8(bytes) && (bytes != *whole || streamed != *whole)) std::abort();
}

void CheckText(const Tokenizer& tokenizer, bool keeps_text, std::string_view text) {
  const auto ids = tokenizer.Encode(text);
  if (!ids.ok()) return;  // A regular expression has given up.
  CheckStream(tokenizer, *ids);
  if (std::ranges::any_of(*ids, [&](TokenId id) { return tokenizer.IsSpecial(id); })) return;
  const std::string back = *tokenizer.Decode(*ids);
  if (keeps_text && back != quire::ReplaceInvalidUtf8(text)) std::abort();
  if (*tokenizer.Encode(back) != *ids) std::abort();
}

/// Any ids, two bytes each.
std::vector<TokenId> IdsOf(std::string_view bytes, size_t vocab_size) {
  std::vector<TokenId> ids;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    const auto low = static_cast<uint8_t>(bytes[i]), high = static_cast<uint8_t>(bytes[i + 1]);
    ids.push_back(static_cast<TokenId>((low + 256u * high) % vocab_size));
  }
  return ids;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (size_t kind = 0; kind < std::size(kKinds); ++kind) {
    const Tokenizer& tokenizer = TokenizerOf(kind);
    CheckText(tokenizer, kKinds[kind].keeps_text, text);
    CheckStream(tokenizer, IdsOf(text, tokenizer.vocab_size()));
  }
  return 0;
}
