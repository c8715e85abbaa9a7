// SPDX-License-Identifier: Apache-2.0
#include "quire/key.h"

#include <openssl/evp.h>

#include <cstdlib>
#include <memory>

#include "quire/layout.h"

namespace quire {
namespace {

/// SHA-256 of OpenSSL. EVP_sha256 would be looked up again for every hash, under a lock.
const EVP_MD* Algorithm() {
  static const EVP_MD* const kAlgorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return kAlgorithm;
}

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    if (!context_ || EVP_DigestInit_ex(context_.get(), Algorithm(), nullptr) != 1) std::abort();
  }
  Sha256& Add(const void* data, size_t size) {
    if (EVP_DigestUpdate(context_.get(), data, size) != 1) std::abort();
    return *this;
  }
  std::array<uint8_t, 32> Finish() {
    std::array<uint8_t, 32> out;
    if (EVP_DigestFinal_ex(context_.get(), out.data(), nullptr) != 1) std::abort();
    return out;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string SegmentKey::Hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (uint8_t b : bytes) {
    out.push_back(kDigits[b >> 4]);
    out.push_back(kDigits[b & 15]);
  }
  return out;
}

std::optional<SegmentKey> SegmentKey::FromHex(std::string_view hex) {
  SegmentKey key;
  if (hex.size() != key.bytes.size() * 2) return std::nullopt;
  for (size_t i = 0; i < key.bytes.size(); ++i) {
    const int high = HexDigit(hex[2 * i]), low = HexDigit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    key.bytes[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return key;
}

std::optional<SegmentKey> SegmentKey::FromBytes(std::string_view raw) {
  SegmentKey key;
  if (raw.size() != key.bytes.size()) return std::nullopt;
  std::memcpy(key.bytes.data(), raw.data(), raw.size());
  return key;
}

SegmentKey ComputeKey(const TenantSalt& salt, const SpecFingerprint& spec, const SegmentKey& parent,
                      std::span<const TokenId> tokens) {
  static constexpr char kDomain[] = "quire.segment.v1";
  Sha256 hash;
  hash.Add(kDomain, sizeof kDomain).Add(salt.data(), salt.size()).Add(spec.data(), spec.size());
  hash.Add(parent.bytes.data(), parent.bytes.size()).Add(tokens.data(), tokens.size_bytes());
  return SegmentKey{hash.Finish()};
}

SegmentKey ComputeObjectKey(const TenantSalt& salt, std::string_view object_key) {
  static constexpr char kDomain[] = "quire.object.v1";
  Sha256 hash;
  hash.Add(kDomain, sizeof kDomain).Add(salt.data(), salt.size());
  return SegmentKey{hash.Add(object_key.data(), object_key.size()).Finish()};
}

std::vector<SegmentKey> ChainKeys(const TenantSalt& salt, const KvSpec& spec,
                                  std::span<const TokenId> tokens) {
  const SpecFingerprint fingerprint = Fingerprint(spec);
  std::vector<SegmentKey> keys;
  SegmentKey parent = kRootKey;
  for (uint32_t i = 0; i < SegmentCount(spec, tokens.size()); ++i) {
    const size_t first = size_t{i} * spec.segment_tokens();
    parent = ComputeKey(salt, fingerprint, parent,
                        tokens.subspan(first, TokensInSegment(spec, tokens.size(), i)));
    keys.push_back(parent);
  }
  return keys;
}

}  // namespace quire
