// SPDX-License-Identifier: Apache-2.0
//
// ByteWriter and ByteReader: little-endian fields of stored records. The reader checks every length
// against the remaining bytes before it reads or allocates. After the first failure it stays failed
// and returns zeros, so a decoder checks `ok()` once where it matters. Thread-safety: none.
#ifndef QUIRE_KVSERVER_STORE_BYTE_CODEC_H_
#define QUIRE_KVSERVER_STORE_BYTE_CODEC_H_

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace quire::kvserver {

static_assert(std::endian::native == std::endian::little, "stored records are little endian");

class ByteWriter {
 public:
  template <typename T>
  void Number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  /// One length byte, then the text. REQUIRES: at most 255 bytes.
  void ShortText(std::string_view text) {
    Number(static_cast<uint8_t>(text.size()));
    out_.append(text);
  }
  /// Two length bytes, then the text. REQUIRES: at most 65535 bytes.
  void Text(std::string_view text) {
    Number(static_cast<uint16_t>(text.size()));
    out_.append(text);
  }
  void Raw(std::string_view bytes) { out_.append(bytes); }
  /// Four bytes of count, then the elements.
  template <typename T>
  void Array(const std::vector<T>& values) {
    Number(static_cast<uint32_t>(values.size()));
    out_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  const std::string& bytes() const { return out_; }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  T Number() {
    T value{};
    const std::string_view raw = Raw(sizeof value);
    if (ok_) std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  std::string ShortText() { return std::string(Raw(Number<uint8_t>())); }
  std::string Text() { return std::string(Raw(Number<uint16_t>())); }
  template <size_t N>
  std::array<uint8_t, N> Bytes() {
    std::array<uint8_t, N> out{};
    const std::string_view raw = Raw(N);
    if (ok_) std::memcpy(out.data(), raw.data(), N);
    return out;
  }
  template <typename T>
  std::vector<T> Array() {
    const uint64_t count = Number<uint32_t>();
    const std::string_view raw = Raw(count * sizeof(T));
    std::vector<T> out(ok_ ? count : 0);
    if (!out.empty()) std::memcpy(out.data(), raw.data(), raw.size());
    return out;
  }
  /// Marks the input as failed, for a field with an impossible value.
  void Fail() { ok_ = false; }
  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view Raw(uint64_t size) {
    ok_ = ok_ && size <= rest_.size();
    if (!ok_) return {};
    const std::string_view raw = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return raw;
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_BYTE_CODEC_H_
