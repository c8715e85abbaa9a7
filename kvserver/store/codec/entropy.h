// SPDX-License-Identifier: Apache-2.0
//
// The entropy container: units of one size, each compressed for itself (zstd), behind a table of
// where they end. For bytes at rest on SSD and on slow links: smaller than the fixed-size codecs,
// still read unit by unit. A unit that does not get smaller is kept as it is. Byte layout in
// docs/formats/unit_codecs.md. Pure functions over memory; no I/O.
//
// Bytes from outside: nothing is read outside the spans, output and table are bounded by the
// caller's `units` and `unit_bytes`, and any difference from what was written is DATA_LOSS.
#ifndef QUIRE_KVSERVER_STORE_CODEC_ENTROPY_H_
#define QUIRE_KVSERVER_STORE_CODEC_ENTROPY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "quire/status.h"

namespace quire::kvserver {

/// What is in a container, known from the segment record.
struct EntropyShape {
  uint32_t units = 0;       ///< 1 or more
  uint32_t unit_bytes = 0;  ///< 1 or more; of each unit as given to EncodeEntropy

  uint64_t raw_bytes() const { return uint64_t{units} * unit_bytes; }
  /// Of the header and the table; units follow.
  uint64_t table_bytes() const;
  /// Of a container none of whose units got smaller: the most that one takes.
  uint64_t max_bytes() const { return table_bytes() + raw_bytes(); }
};

/// zstd's default: about as fast to read as any, and worth its time to write.
inline constexpr int kEntropyLevel = 3;

/// Compresses `raw` [units][unit_bytes]. INVALID_ARGUMENT for another size or an empty shape,
/// RESOURCE_EXHAUSTED when zstd gets no memory.
StatusOr<std::vector<std::byte>> EncodeEntropy(std::span<const std::byte> raw,
                                               const EntropyShape& shape,
                                               int level = kEntropyLevel);

/// Where the units of a container are; checked, so reads by it stay inside the container.
class EntropyTable {
 public:
  /// `head`: the first shape.table_bytes() of a container (or more of it) that takes
  /// `container_bytes`. DATA_LOSS says what is wrong.
  static StatusOr<EntropyTable> Parse(std::span<const std::byte> head, uint64_t container_bytes,
                                      const EntropyShape& shape);

  const EntropyShape& shape() const { return shape_; }
  /// Stored bytes of a unit, and where they begin in the container. REQUIRES: unit < units.
  uint64_t offset(uint32_t unit) const { return unit == 0 ? first_ : ends_[unit - 1]; }
  uint64_t bytes(uint32_t unit) const { return ends_[unit] - offset(unit); }
  uint32_t crc32c(uint32_t unit) const { return crcs_[unit]; }

 private:
  EntropyShape shape_;
  uint64_t first_ = 0;
  std::vector<uint64_t> ends_;  ///< [units] from the container's start
  std::vector<uint32_t> crcs_;  ///< [units] of the stored bytes
};

/// Decompresses; keeps its working memory between calls. Thread-safety: none.
class EntropyDecoder {
 public:
  EntropyDecoder();
  ~EntropyDecoder();
  EntropyDecoder(const EntropyDecoder&) = delete;
  EntropyDecoder& operator=(const EntropyDecoder&) = delete;

  /// Writes unit `unit` to `out` (unit_bytes) from its stored bytes. DATA_LOSS when they are not
  /// what was stored; INVALID_ARGUMENT for an `out` of another size or a unit that is not there;
  /// RESOURCE_EXHAUSTED when zstd gets no memory.
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
