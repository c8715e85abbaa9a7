// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/ucx_wire.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace quire {
namespace {

constexpr uint32_t kMessageMagic = 0x31585551;  // "QUX1"
constexpr uint32_t kKeyMagic = 0x334b5551;      // "QUK3"
constexpr uint32_t kVersion = 6;
constexpr size_t kSignatureBytes = 32;
constexpr size_t kKeyFixedBytes = 4 + 4 * 8 + 4;

/// Appends integers and bytes.
class Encoder {
 public:
  void U32(uint32_t value) { Integer(value); }
  void U64(uint64_t value) { Integer(value); }
  void Bytes(std::span<const uint8_t> bytes) {
    for (const uint8_t byte : bytes) out_.push_back(static_cast<std::byte>(byte));
  }
  std::vector<std::byte> Take() { return std::move(out_); }

 private:
  template <typename T>
  void Integer(T value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> out_;
};

/// Reads them back. Reading past the end gives zeros and makes complete() false.
class Decoder {
 public:
  explicit Decoder(std::span<const std::byte> bytes) : rest_(bytes) {}
  uint32_t U32() { return static_cast<uint32_t>(Integer(4)); }
  uint64_t U64() { return Integer(8); }
  void Bytes(std::span<uint8_t> out) {
    if (!Has(out.size())) return;
    std::memcpy(out.data(), rest_.data(), out.size());
    rest_ = rest_.subspan(out.size());
  }
  std::span<const std::byte> rest() const { return rest_; }
  bool complete() const { return !short_ && rest_.empty(); }
  bool ok() const { return !short_; }

 private:
  bool Has(size_t bytes) {
    short_ = short_ || rest_.size() < bytes;
    return !short_;
  }
  uint64_t Integer(size_t bytes) {
    if (!Has(bytes)) return 0;
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value |= static_cast<uint64_t>(rest_[i]) << (8 * i);
    rest_ = rest_.subspan(bytes);
    return value;
  }
  std::span<const std::byte> rest_;
  bool short_ = false;
};

std::array<uint8_t, kSignatureBytes> Sign(std::span<const std::byte> bytes,
                                          const UcxSecret& secret) {
  std::array<uint8_t, kSignatureBytes> signature;
  unsigned length = 0;
  if (HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), signature.data(),
           &length) == nullptr ||
      length != signature.size()) {
    std::abort();  // Aborts: without signatures no key can be trusted.
  }
  return signature;
}

bool AddsUpTo(uint64_t a, uint64_t b, uint64_t c, uint64_t total) {
  return a <= total && b <= total - a && c == total - a - b;
}

std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

UcxToken MakeUcxToken(Random& random) {
  UcxToken token;
  random.Fill(token.bytes);
  return token;
}

std::array<std::byte, UcxHeader::kEncodedBytes> EncodeUcxHeader(const UcxHeader& header) {
  Encoder encoder;
  encoder.U32(kMessageMagic);
  encoder.U32(static_cast<uint32_t>(header.kind));
  encoder.Bytes(header.to.bytes);
  for (const uint64_t field : {header.sequence, header.payload_bytes, header.index_bytes,
                               header.head_bytes, header.landing, header.argument}) {
    encoder.U64(field);
  }
  std::array<std::byte, UcxHeader::kEncodedBytes> out;
  std::ranges::copy(encoder.Take(), out.begin());
  return out;
}

StatusOr<UcxHeader> DecodeUcxHeader(std::span<const std::byte> encoded, uint64_t data_bytes) {
  Decoder decoder(encoded);
  const uint32_t magic = decoder.U32();
  const uint32_t kind = decoder.U32();
  UcxHeader header;
  decoder.Bytes(header.to.bytes);
  header.sequence = decoder.U64();
  header.payload_bytes = decoder.U64();
  header.index_bytes = decoder.U64();
  header.head_bytes = decoder.U64();
  header.landing = decoder.U64();
  header.argument = decoder.U64();
  if (!decoder.complete() || magic != kMessageMagic) {
    return InvalidArgument("a UCX message has a header of ", encoded.size(),
                           " bytes that is not this protocol's");
  }
  if (kind < static_cast<uint32_t>(UcxKind::kHello) ||
      kind > static_cast<uint32_t>(UcxKind::kPiece)) {
    return InvalidArgument("a UCX message is of the unknown kind ", kind);
  }
  header.kind = static_cast<UcxKind>(kind);
  if (!AddsUpTo(header.payload_bytes, header.index_bytes, header.head_bytes, data_bytes)) {
    return InvalidArgument("the lengths in a UCX message do not add up to its ", data_bytes,
                           " bytes");
  }
  if (header.kind == UcxKind::kFrame && header.argument > 0 &&
      (header.payload_bytes > 0 || header.index_bytes > 0 || header.landing == 0)) {
    return InvalidArgument("a UCX frame has landed bytes together with a payload or no landing");
  }
  return header;
}

void AppendUcxPlace(const UcxPlace& place, std::vector<std::byte>* out) {
  const std::array<uint64_t, 2> fields = {place.offset, place.bytes};
  static_assert(sizeof fields == UcxPlace::kEncodedBytes);
  const auto encoded = std::as_bytes(std::span(fields));
  out->insert(out->end(), encoded.begin(), encoded.end());
}

StatusOr<std::vector<UcxPlace>> DecodeUcxIndex(std::span<const std::byte> encoded,
                                               uint64_t payload_bytes) {
  if (encoded.size() % UcxPlace::kEncodedBytes != 0) {
    return InvalidArgument("the index of a UCX frame has ", encoded.size(), " bytes");
  }
  std::vector<UcxPlace> places(encoded.size() / UcxPlace::kEncodedBytes);
  Decoder decoder(encoded);
  uint64_t left = payload_bytes;
  for (UcxPlace& place : places) {
    place.offset = decoder.U64();
    place.bytes = decoder.U64();
    if (place.bytes > left) return InvalidArgument("the index of a UCX frame exceeds its payload");
    left -= place.bytes;
  }
  if (!places.empty() && left > 0) {
    return InvalidArgument("the index of a UCX frame leaves out ", left, " bytes of its payload");
  }
  return places;
}

std::vector<std::byte> EncodeUcxHello(const UcxHello& hello) {
  Encoder encoder;
  encoder.U32(kVersion);
  encoder.Bytes(hello.client.bytes);
  encoder.U32(hello.direct_landings ? 1 : 0);
  encoder.U64(hello.window_bytes);
  return encoder.Take();
}

StatusOr<UcxHello> DecodeUcxHello(std::span<const std::byte> encoded) {
  Decoder decoder(encoded);
  const uint32_t version = decoder.U32();
  UcxHello hello;
  decoder.Bytes(hello.client.bytes);
  const uint32_t flags = decoder.U32();
  hello.window_bytes = decoder.U64();
  hello.direct_landings = flags == 1;
  if (!decoder.complete() || version != kVersion || flags > 1 || hello.window_bytes == 0) {
    return InvalidArgument("a UCX peer speaks version ", version, " of the protocol, not ",
                           kVersion);
  }
  return hello;
}

std::vector<std::byte> EncodeUcxWelcome(const UcxWelcome& welcome) {
  Encoder encoder;
  encoder.U32(kVersion);
  encoder.Bytes(welcome.server.bytes);
  encoder.Bytes(welcome.secret);
  encoder.U32(welcome.direct_landings ? 1 : 0);
  encoder.U64(welcome.window_bytes);
  return encoder.Take();
}

StatusOr<UcxWelcome> DecodeUcxWelcome(std::span<const std::byte> encoded) {
  Decoder decoder(encoded);
  const uint32_t version = decoder.U32();
  UcxWelcome welcome;
  decoder.Bytes(welcome.server.bytes);
  decoder.Bytes(welcome.secret);
  const uint32_t flags = decoder.U32();
  welcome.window_bytes = decoder.U64();
  if (!decoder.complete() || version != kVersion || flags > 1 || welcome.window_bytes == 0) {
    return InvalidArgument("a UCX peer speaks version ", version, " of the protocol, not ",
                           kVersion);
  }
  welcome.direct_landings = flags == 1;
  return welcome;
}

std::string EncodeUcxLandingKey(const UcxLandingKey& key, const UcxSecret& secret) {
  Encoder encoder;
  encoder.U32(kKeyMagic);
  for (const uint64_t field : {key.serial, key.landing, key.address, key.bytes}) encoder.U64(field);
  encoder.U32(static_cast<uint32_t>(key.remote_key.size()));
  const std::vector<std::byte> fixed = encoder.Take();
  std::string encoded(reinterpret_cast<const char*>(fixed.data()), fixed.size());
  encoded += key.remote_key;
  const auto signature = Sign(AsBytes(encoded), secret);
  encoded.append(reinterpret_cast<const char*>(signature.data()), signature.size());
  return encoded;
}

StatusOr<UcxLandingKey> DecodeUcxLandingKey(std::string_view encoded, const UcxSecret& secret) {
  constexpr size_t kLeast = kKeyFixedBytes + kSignatureBytes;
  if (encoded.size() < kLeast || encoded.size() > kLeast + UcxLandingKey::kMaxRemoteKeyBytes) {
    return InvalidArgument("a key of ", encoded.size(), " bytes is not the key of a UCX landing");
  }
  const std::string_view body = encoded.substr(0, encoded.size() - kSignatureBytes);
  const auto signature = Sign(AsBytes(body), secret);
  if (CRYPTO_memcmp(signature.data(), encoded.data() + body.size(), signature.size()) != 0) {
    return InvalidArgument("the key of a UCX landing was not made for this connection");
  }
  Decoder decoder(AsBytes(body));
  const uint32_t magic = decoder.U32();
  UcxLandingKey key;
  key.serial = decoder.U64();
  key.landing = decoder.U64();
  key.address = decoder.U64();
  key.bytes = decoder.U64();
  const uint32_t remote_key_bytes = decoder.U32();
  if (!decoder.ok() || magic != kKeyMagic || decoder.rest().size() != remote_key_bytes ||
      key.bytes > UINT64_MAX - key.address) {
    return InvalidArgument("the key of a UCX landing contradicts itself");
  }
  key.remote_key = body.substr(kKeyFixedBytes);
  return key;
}

bool ReplayWindow::Take(uint64_t serial) {
  if (serial > highest_ || seen_ == 0) {
    const uint64_t step = serial - highest_;
    seen_ = (seen_ == 0 || step >= 64) ? 1 : (seen_ << step) | 1;
    highest_ = serial;
    return true;
  }
  const uint64_t age = highest_ - serial;
  if (age >= 64 || (seen_ >> age & 1) != 0) return false;
  seen_ |= uint64_t{1} << age;
  return true;
}

}  // namespace quire
