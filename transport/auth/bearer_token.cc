// SPDX-License-Identifier: Apache-2.0
#include "quire/bearer_token.h"

#include <algorithm>

#include "common/base/small_file.h"

namespace quire {
namespace {

constexpr char kHowToMakeOne[] =
    "; make one with: (umask 077; head -c 32 /dev/urandom | base64 -w 0 > FILE)";

bool IsTokenChar(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
         std::string_view("-._~+/=").find(c) != std::string_view::npos;
}

std::string_view WithoutLineEnd(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

}  // namespace

StatusOr<BearerToken> BearerToken::Make(std::string_view text) {
  if (text.size() < kMinChars || text.size() > kMaxChars) {
    return InvalidArgument("a token has ", kMinChars, " to ", kMaxChars, " characters, not ",
                           text.size(), kHowToMakeOne);
  }
  if (!std::ranges::all_of(text, IsTokenChar)) {
    return InvalidArgument("a token has letters, digits and -._~+/= only", kHowToMakeOne);
  }
  return BearerToken(text);
}

StatusOr<BearerToken> BearerToken::ReadFile(const std::string& path) {
  QUIRE_ASSIGN_OR_RETURN(const SmallFile file, ReadSmallFile(path, kMaxChars + 2));
  if (file.read_by_everybody) {
    return FailedPrecondition("every user of this machine may read the token in ", path,
                              ": give it to its owner alone with chmod 600 ", path);
  }
  auto token = Make(WithoutLineEnd(file.text));
  if (!token.ok()) return Annotate(token.status(), path);
  return token;
}

}  // namespace quire
