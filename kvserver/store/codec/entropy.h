// SPDX-License-Identifier: Apache-2.0
//
// The entropy container: units of one size, each compressed by itself (zstd), after a table of
// their ends. For bytes at rest on SSD and on slow links. Smaller than the fixed-size codecs, and
// still read unit by unit. An incompressible unit is stored as it is. Byte layout in
// docs/formats/unit_codecs.md. Pure functions over memory; no I/O.
//
// Input is untrusted: no read leaves the spans, and the caller's `units` and `unit_bytes` bound
// output and table. Any change of the written bytes is DATA_LOSS.
#ifndef QUIRE_KVSERVER_STORE_CODEC_ENTROPY_H_
#define QUIRE_KVSERVER_STORE_CODEC_ENTROPY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"

namespace quire::kvserver {

/// Shape of a container, known from the segment record.
struct EntropyShape {
  uint32_t units = 0;       ///< 1 or more
  uint32_t unit_bytes = 0;  ///< 1 or more; size of each unit given to EncodeEntropy

  uint64_t raw_bytes() const { return uint64_t{units} * unit_bytes; }
  /// Bytes of the header and the table; units follow.
  uint64_t table_bytes() const;
  /// Largest size of a container: no unit got smaller.
  uint64_t max_bytes() const { return table_bytes() + raw_bytes(); }
};

/// zstd's default level. Higher levels read no faster and write more slowly.
inline constexpr int kEntropyLevel = 3;

/// Compresses `raw` [units][unit_bytes]. INVALID_ARGUMENT for another size or an empty shape,
/// RESOURCE_EXHAUSTED when zstd gets no memory.
StatusOr<std::vector<std::byte>> EncodeEntropy(std::span<const std::byte> raw,
                                               const EntropyShape& shape,
                                               int level = kEntropyLevel);

/// Places of the units of a container. Checked, so reads by it stay inside the container.
class EntropyTable {
 public:
  /// `head` has at least the first shape.table_bytes() of a container of `container_bytes`.
  /// DATA_LOSS says what is wrong.
  static StatusOr<EntropyTable> Parse(std::span<const std::byte> head, uint64_t container_bytes,
                                      const EntropyShape& shape);

  const EntropyShape& shape() const { return shape_; }
  /// Start and size of a unit's stored bytes in the container. REQUIRES: unit < units.
  uint64_t offset(uint32_t unit) const { return unit == 0 ? first_ : ends_[unit - 1]; }
  uint64_t bytes(uint32_t unit) const { return ends_[unit] - offset(unit); }
  uint32_t crc32c(uint32_t unit) const { return crcs_[unit]; }

 private:
  EntropyShape shape_;
  uint64_t first_ = 0;
  std::vector<uint64_t> ends_;  ///< [units] from the container's start
  std::vector<uint32_t> crcs_;  ///< [units] CRC-32C of the stored bytes
};

/// Decompresses units. Keeps its working memory between calls. Thread-safety: none.
class EntropyDecoder {
 public:
  EntropyDecoder();
  ~EntropyDecoder();
  EntropyDecoder(const EntropyDecoder&) = delete;
  EntropyDecoder& operator=(const EntropyDecoder&) = delete;

  /// Writes unit `unit` to `out` (unit_bytes) from its stored bytes. DATA_LOSS when they are
  /// damaged; INVALID_ARGUMENT for a wrong size of `out` or an unknown unit; RESOURCE_EXHAUSTED
  /// when zstd gets no memory.
  [[nodiscard]] Status Unit(const EntropyTable& table, uint32_t unit,
                            std::span<const std::byte> stored, std::span<std::byte> out);
  /// Writes every unit of a whole container to `raw` (shape.raw_bytes()).
  [[nodiscard]] Status All(std::span<const std::byte> container, const EntropyShape& shape,
                           std::span<std::byte> raw);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_CODEC_ENTROPY_H_
