// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the decoders of a UCX pipe. The first byte picks one: 0 a header, 1 an index, 2 a hello, 3
// a welcome. Values 4 and 5 are the key of a landing, as it is or with a corrected signature.
// Accepted input must keep to the bounds that the pipe relies on.
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "transport/ucx/ucx_wire.h"

namespace {

using namespace quire;

constexpr UcxSecret kSecret = {1, 2, 3};

void CheckHeader(std::span<const std::byte> bytes) {
  for (const uint64_t data_bytes : {0, 64, 1'000'000}) {
    const auto header = DecodeUcxHeader(bytes, data_bytes);
    if (!header.ok()) continue;
    if (header->payload_bytes > data_bytes || header->index_bytes > data_bytes) std::abort();
    if (header->payload_bytes + header->index_bytes + header->head_bytes != data_bytes)
      std::abort();
    const auto again = EncodeUcxHeader(*header);
    if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
  }
}

void CheckIndex(std::span<const std::byte> bytes) {
  const auto places = DecodeUcxIndex(bytes, 4096);
  if (!places.ok() || places->empty()) return;
  uint64_t sum = 0;
  for (const UcxPlace& place : *places) sum += place.bytes;
  if (sum != 4096) std::abort();
}

void CheckKey(std::string encoded) {
  const auto key = DecodeUcxLandingKey(encoded, kSecret);
  if (key.ok() && EncodeUcxLandingKey(*key, kSecret) != encoded) std::abort();
}

/// The bytes, followed by their signature.
std::string Signed(std::string body) {
  unsigned char signature[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (HMAC(EVP_sha256(), kSecret.data(), kSecret.size(),
           reinterpret_cast<const unsigned char*>(body.data()), body.size(), signature,
           &size) == nullptr) {
    std::abort();
  }
  return body.append(reinterpret_cast<const char*>(signature), size);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data + 1), size - 1);
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 6) {
    case 0:
      CheckHeader(bytes);
      break;
    case 1:
      CheckIndex(bytes);
      break;
    case 2:
      (void)DecodeUcxHello(bytes);
      break;
    case 3:
      (void)DecodeUcxWelcome(bytes);
      break;
    case 4:
      CheckKey(text);
      break;
    case 5:
      CheckKey(Signed(text));
      break;
  }
  return 0;
}
