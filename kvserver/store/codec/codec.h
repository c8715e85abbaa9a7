// SPDX-License-Identifier: Apache-2.0
//
// ExtentCodec: encodes extents in fewer bytes, unit by unit (kernels/api/codec.h has the codecs and
// their errors). Every unit of an extent has the same encoded size. Unit i lies at i *
// its size and is read and decoded alone. Its checksum covers its encoded bytes.
//
//   QUIRE_ASSIGN_OR_RETURN(const CodecParams params, CodecByName("int8"));
//   QUIRE_ASSIGN_OR_RETURN(const ExtentCodec codec, ExtentCodec::Make(spec, params.id));
//   std::vector<std::byte> encoded(codec.encoded_bytes(tokens));
//   std::vector<uint32_t> crcs(codec.units(tokens));
//   QUIRE_RETURN_IF_ERROR(codec.Encode(extent, tokens, encoded, crcs));
//
// `tokens` is the segment's number of tokens, 1..spec.segment_tokens(). Rows past the last token
// are not encoded and decode to zeros.
#ifndef QUIRE_KVSERVER_STORE_CODEC_CODEC_H_
#define QUIRE_KVSERVER_STORE_CODEC_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/api/codec.h"
#include "kernels/api/table.h"
#include "kvserver/store/unit.h"
#include "quire/kv_spec.h"
#include "quire/status.h"
#include "quire/unit_codec.h"

namespace quire::kvserver {

using CodecId = UnitCodec;

/// Encoding of a collection's payload.
struct CodecParams {
  CodecId id = CodecId::kRaw;
  bool entropy = false;  ///< Units also go through EncodeEntropy (entropy.h); for SSD only.
  friend bool operator==(const CodecParams&, const CodecParams&) = default;
};

/// "raw", "fp8", "int8", "int4".
std::string_view Name(CodecId id);
/// Name of the codec, with "+zstd" for the entropy coder.
std::string Name(const CodecParams& params);
/// Every name that CodecByName knows.
std::vector<std::string> CodecNames();
/// INVALID_ARGUMENT listing the known names when `name` is unknown.
StatusOr<CodecParams> CodecByName(std::string_view name);
/// Codec of a stored record. DATA_LOSS for an unknown number.
StatusOr<CodecId> CodecFromNumber(uint8_t number);

/// Thread-safety: stateless after Make.
class ExtentCodec {
 public:
  /// INVALID_ARGUMENT for an invalid spec or an unknown codec.
  static StatusOr<ExtentCodec> Make(const KvSpec& spec, CodecId id);

  CodecId id() const { return id_; }
  uint64_t unit_bytes() const { return unit_bytes_; }  ///< Bytes of one decoded unit.
  uint64_t encoded_unit_bytes() const { return encoded_unit_bytes_; }
  /// Units and encoded bytes of an extent of `tokens` tokens.
  uint64_t units(uint32_t tokens) const;
  uint64_t encoded_bytes(uint32_t tokens) const { return units(tokens) * encoded_unit_bytes_; }

  /// extent: [pages][n_kv] units. encoded: encoded_bytes(tokens). crcs: units(tokens), CRC-32C of
  /// each encoded unit. INVALID_ARGUMENT for other sizes; nothing is written then.
  [[nodiscard]] Status Encode(std::span<const std::byte> extent, uint32_t tokens,
                              std::span<std::byte> encoded, std::span<uint32_t> crcs) const;
  /// Reverses Encode. All checksums are compared before anything is written. DATA_LOSS names the
  /// damaged unit, INVALID_ARGUMENT a wrong size.
  [[nodiscard]] Status Decode(std::span<const std::byte> encoded, std::span<const uint32_t> crcs,
                              uint32_t tokens, std::span<std::byte> extent) const;
  /// Decodes one unit of a page of `rows` tokens (1..p). Errors as Decode.
  [[nodiscard]] Status DecodeUnit(const UnitBytes& encoded, uint32_t rows,
                                  std::span<std::byte> unit) const;

 private:
  ExtentCodec(const KvSpec& spec, CodecId id);
  Status CheckTokens(uint32_t tokens) const;
  /// Rows of each unit of an extent.
  std::vector<int32_t> ValidRows(uint32_t tokens) const;
  Status DecodeUnits(std::span<const std::byte> encoded, const std::vector<int32_t>& rows,
                     std::span<std::byte> units) const;

  KvSpec spec_;
  CodecId id_;
  UnitShape shape_;
  uint64_t unit_bytes_;
  uint64_t encoded_unit_bytes_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_CODEC_CODEC_H_
