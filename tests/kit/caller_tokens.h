// SPDX-License-Identifier: Apache-2.0
//
// Tokens of two tenants, and the files that hold them, for tests of servers that require proof.
#ifndef QUIRE_TESTS_KIT_CALLER_TOKENS_H_
#define QUIRE_TESTS_KIT_CALLER_TOKENS_H_

#include <sys/stat.h>

#include <fstream>
#include <stdexcept>
#include <string>

namespace quire::testing {

inline constexpr char kDefaultToken[] = "the-token-of-the-tenant-default-is-secret";
inline constexpr char kOtherToken[] = "the-token-of-the-tenant-other-is-secret-too";
/// Hashes of the tokens, as a server has them (transport/auth/tenant_tokens.h).
inline constexpr char kDefaultTokenHash[] =
    "1826ebd7011c6d4060f414cd7a21abfcb7be3930ca7f985bfb8875f9f3570b95";
inline constexpr char kTenantTokens[] =
    "default 1826ebd7011c6d4060f414cd7a21abfcb7be3930ca7f985bfb8875f9f3570b95\n"
    "other 83a1d6e65ecbd6a59e50eb98bd2bb8874d29af7f30186131ae2196d1f53085c9\n";

/// Writes a file that only its owner may read. Returns its path.
inline std::string WriteSecretFile(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  if (chmod(path.c_str(), 0600) != 0) throw std::runtime_error("cannot protect " + path);
  return path;
}

}  // namespace quire::testing

#endif  // QUIRE_TESTS_KIT_CALLER_TOKENS_H_
