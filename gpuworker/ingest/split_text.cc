// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/ingest/split_text.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "common/base/utf8.h"

namespace quire::worker {
namespace {

/// Ends of pieces, from the best to the worst. Behind the last one, pieces are halved.
constexpr std::array<std::string_view, 3> kEnds = {"\n\n", "\n", " "};

class Splitter {
 public:
  Splitter(uint64_t most_tokens, const CountTokens& count) : most_(most_tokens), count_(count) {}

  /// Adds `text` to the parts, in pieces that end with kEnds[level] or worse.
  Status Add(std::string_view text, size_t level) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t tokens, count_(text));
    if (tokens <= most_) {
      Append(text, tokens);
      return OkStatus();
    }
    return level < kEnds.size() ? AddPieces(text, level) : AddHalves(text);
  }
  std::vector<std::string_view> parts() const { return parts_; }

 private:
  void Append(std::string_view piece, uint64_t tokens) {
    if (parts_.empty() || tokens_ + tokens > most_) {
      parts_.push_back(piece);
      tokens_ = tokens;
      return;
    }
    parts_.back() = {parts_.back().data(), parts_.back().size() + piece.size()};
    tokens_ += tokens;
  }
  Status AddPieces(std::string_view text, size_t level) {
    while (!text.empty()) {
      const size_t end = text.find(kEnds[level]);
      const size_t bytes = end == std::string_view::npos ? text.size() : end + kEnds[level].size();
      QUIRE_RETURN_IF_ERROR(Add(text.substr(0, bytes), level + 1));
      text.remove_prefix(bytes);
    }
    return OkStatus();
  }
  Status AddHalves(std::string_view text) {
    const size_t character = std::max<size_t>(Utf8Length(text), 1);
    if (character >= text.size()) {
      return InvalidArgument("one character has more than ", most_, " tokens");
    }
    const size_t half = std::max(CutUtf8(text, text.size() / 2).size(), character);
    QUIRE_RETURN_IF_ERROR(Add(text.substr(0, half), kEnds.size()));
    return Add(text.substr(half), kEnds.size());
  }

  const uint64_t most_;
  const CountTokens& count_;
  std::vector<std::string_view> parts_;
  uint64_t tokens_ = 0;  ///< Size of the last part.
};

}  // namespace

StatusOr<std::vector<std::string_view>> SplitText(std::string_view text, uint64_t most_tokens,
                                                  const CountTokens& count) {
  Splitter splitter(most_tokens, count);
  QUIRE_RETURN_IF_ERROR(splitter.Add(text, 0));
  return splitter.parts();
}

}  // namespace quire::worker
