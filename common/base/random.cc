// SPDX-License-Identifier: Apache-2.0
#include "common/base/random.h"

#include <openssl/rand.h>

#include <cstdlib>

namespace quire {

void SecureRandomBytes(std::span<uint8_t> out) {
  // Without randomness no session id can be trusted, so there is nothing to go on with.
  if (RAND_bytes(out.data(), static_cast<int>(out.size())) != 1) std::abort();
}

}  // namespace quire
