// SPDX-License-Identifier: Apache-2.0
//
// BearerToken: the secret by which a caller proves its tenant. tenant_tokens.h is the server's
// side. Make tokens with a random generator: only their length protects them from being guessed.
// Nothing here prints a token: there is no operator<<, and errors do not quote it. Thread-safety: a
// value type.
#ifndef QUIRE_TRANSPORT_AUTH_BEARER_TOKEN_H_
#define QUIRE_TRANSPORT_AUTH_BEARER_TOKEN_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace quire {

class BearerToken {
 public:
  static constexpr size_t kMinChars = 32;
  static constexpr size_t kMaxChars = 512;

  /// An empty token, which proves nothing.
  BearerToken() = default;
  /// INVALID_ARGUMENT unless `text` is 32 to 512 of the characters A-Z a-z 0-9 - . _ ~ + / =. RFC
  /// 6750 allows these after "Bearer".
  static StatusOr<BearerToken> Make(std::string_view text);
  /// Reads a token from a file and drops the line end. Errors: those of ReadSmallFile and of Make,
  /// naming the path; FAILED_PRECONDITION for a file that everybody may read.
  static StatusOr<BearerToken> ReadFile(const std::string& path);

  bool empty() const { return secret_.empty(); }
  /// For the wire only.
  const std::string& secret() const { return secret_; }

 private:
  explicit BearerToken(std::string_view secret) : secret_(secret) {}

  std::string secret_;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_AUTH_BEARER_TOKEN_H_
