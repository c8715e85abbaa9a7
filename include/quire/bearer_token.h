// SPDX-License-Identifier: Apache-2.0
//
// BearerToken: the secret with which a caller proves whose it is (tenant_tokens.h is the server's
// side of it). It is made by a random generator and not by a person: its length is all that keeps
// it from being guessed. Nothing here prints it: there is no operator<<, and errors do not quote
// it. Thread-safety: a value type.
#ifndef QUIRE_BEARER_TOKEN_H_
#define QUIRE_BEARER_TOKEN_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "quire/status.h"

namespace quire {

class BearerToken {
 public:
  static constexpr size_t kMinChars = 32;
  static constexpr size_t kMaxChars = 512;

  /// None: whoever has it proves nothing.
  BearerToken() = default;
  /// INVALID_ARGUMENT unless `text` is 32 to 512 of the characters A-Z a-z 0-9 - . _ ~ + / =, those
  /// that may stand after "Bearer" (RFC 6750).
  static StatusOr<BearerToken> Make(std::string_view text);
  /// The content of a file without the end of its line. Errors: those of ReadSmallFile and of Make,
  /// naming the path; FAILED_PRECONDITION for a file that everybody may read.
  static StatusOr<BearerToken> ReadFile(const std::string& path);

  bool empty() const { return secret_.empty(); }
  /// For the wire, and for nothing else.
  const std::string& secret() const { return secret_; }

 private:
  explicit BearerToken(std::string_view secret) : secret_(secret) {}

  std::string secret_;
};

}  // namespace quire

#endif  // QUIRE_BEARER_TOKEN_H_
