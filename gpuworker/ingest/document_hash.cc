// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/ingest/document_hash.h"

#include <openssl/sha.h>

namespace quire::worker {

std::string HashText(std::string_view text) {
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  return hash;
}

std::string HashDocument(std::string_view text_hash, const KvSpec& spec, std::string_view form,
                         uint32_t part) {
  const SpecFingerprint fingerprint = Fingerprint(spec);
  std::string bytes(text_hash);
  bytes.append(reinterpret_cast<const char*>(fingerprint.data()), fingerprint.size());
  bytes += form;
  return HashText(bytes.append(std::to_string(part)));
}

}  // namespace quire::worker
