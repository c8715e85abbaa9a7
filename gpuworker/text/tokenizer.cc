// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/tokenizer.h"

#include <algorithm>

#include "common/json/json.h"
#include "gpuworker/text/hf/hf_tokenizer.h"
#include "gpuworker/text/words_tokenizer.h"

namespace quire::worker {
namespace {

constexpr size_t kMaxFileBytes = 64 << 20;

template <typename Coder>
StatusOr<std::shared_ptr<const TextCoder>> Share(StatusOr<Coder> coder) {
  QUIRE_RETURN_IF_ERROR(coder.status());
  return std::make_shared<const Coder>(*std::move(coder));
}

StatusOr<std::shared_ptr<const TextCoder>> ParseCoder(std::string_view text,
                                                      const std::string& name) {
  QUIRE_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(text, name));
  if (!json.is_object()) return InvalidArgument(name, ": not a JSON object");
  if (json.contains("format")) return Share(WordsTokenizer::Parse(json, name));
  return Share(HfTokenizer::Parse(json, name));
}

}  // namespace

StatusOr<Tokenizer> Tokenizer::Load(const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxFileBytes));
  return Parse(text, path);
}

StatusOr<Tokenizer> Tokenizer::Parse(std::string_view text, const std::string& name) {
  QUIRE_ASSIGN_OR_RETURN(auto coder, ParseCoder(text, name));
  return Tokenizer(std::move(coder));
}

void Tokenizer::AddEnds(std::span<const TokenId> ids) {
  for (const TokenId id : ids) {
    if (std::ranges::find(ends_, id) == ends_.end()) ends_.push_back(id);
  }
}

}  // namespace quire::worker
