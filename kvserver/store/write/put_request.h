// SPDX-License-Identifier: Apache-2.0
//
// Intake of PutSegment's arguments on their way into the tiers. CheckPutArguments validates them. A
// SegmentIntake makes the segment's record and takes its extents in, one after the other. No I/O.
//
// An arriving unit is read from memory once. Checksum, copy and digest are made of it while it is
// in the processor's caches. An extent is therefore taken in as late as possible, while earlier
// ones are being written, and directly to its final place (docs/design/0038).
#ifndef QUIRE_KVSERVER_STORE_WRITE_PUT_REQUEST_H_
#define QUIRE_KVSERVER_STORE_WRITE_PUT_REQUEST_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kvserver/store/codec/codec.h"
#include "kvserver/store/extent_view.h"
#include "kvserver/store/metadata/segment_record.h"
#include "kvserver/store/page_store.h"
#include "kvserver/store/policy/eviction/prefill_cost.h"
#include "quire/status.h"

namespace quire::kvserver {

/// Largest payload of one segment.
inline constexpr uint64_t kMaxSegmentBytes = 1ull << 30;

/// INVALID_ARGUMENT naming an error in the spec, the tokens or the payload's size.
[[nodiscard]] Status CheckPutArguments(const PutSegmentArgs& args);

/// Ownership: the arguments outlive it. Thread-safety: none.
class SegmentIntake {
 public:
  /// `codec` is the codec of the stored units. REQUIRES: CheckPutArguments.
  static StatusOr<SegmentIntake> Make(std::string_view tenant, const PutSegmentArgs& args,
                                      const CodecParams& codec);

  /// Record of the segment. Its checksums are valid once the extents are taken in. The caller sets
  /// `first_token` and `incarnation`.
  SegmentRecord& record() { return record_; }
  const SegmentRecord& record() const { return record_; }
  /// Minima and maxima of the decoded units of all layers, once the extents are taken in.
  std::span<const std::byte> digests() const { return {digests_.get(), digests_bytes_}; }
  /// Checksum of each layer's part of `digests`.
  std::span<const uint32_t> digest_crc32c() const { return digest_crc32c_; }

  /// Place of the extent's stored bytes, which are valid once the extent is taken in. By default
  /// contiguous raw units stay in the caller's memory, and others go to memory of the intake.
  std::span<const std::byte> extent(uint32_t layer) const { return places_[layer].shown; }
  /// Directs the extent to `memory`, of its stored size, which outlives the intake's use.
  void Place(uint32_t layer, std::span<std::byte> memory);
  /// Cancels Place for all extents. REQUIRES: none is taken in.
  void PlaceAtHome();

  /// Takes an extent in: moves its bytes to their place and computes checksums and digests. A
  /// second call does nothing. DATA_LOSS when a unit does not match the checksum that it came with.
  [[nodiscard]] Status Take(uint32_t layer);
  [[nodiscard]] Status TakeAll();
  /// Computes only checksums, for a segment that will not be stored. Errors as Take.
  [[nodiscard]] Status TakeChecksums();

 private:
  struct FreeBytes {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  /// One extent.
  struct Extent {
    std::span<const std::byte> shown;
    std::span<std::byte> memory;  ///< Empty when the bytes stay in place.
    bool taken = false;
  };

  explicit SegmentIntake(const PutSegmentArgs& args) : args_(&args) {}
  /// Makes room for the digests of a segment that has them.
  Status MakeDigests();
  bool has_digests() const { return digests_bytes_ > 0; }
  /// Bytes of one page at one layer as they arrived, decoded.
  uint64_t row_bytes() const { return record_.num_heads() * record_.unit_bytes(); }
  bool is_raw() const { return record_.codec.id == CodecId::kRaw; }
  /// True when units may stay in the caller's memory.
  bool stays() const { return is_raw() && args_->payload_rows.empty(); }
  /// Units of one page as they arrived.
  std::span<const std::byte> Row(uint32_t layer, uint32_t page) const;
  /// Units of a layer as they arrived, contiguous and aligned for their dtype.
  std::span<const std::byte> Arrived(uint32_t layer);
  std::span<uint32_t> Checksums(uint32_t layer);
  /// DATA_LOSS unless `crc32c` equals the checksum that the unit came with, if any.
  Status CheckUnit(size_t unit, uint32_t crc32c) const;
  Status TakeRaw(uint32_t layer);
  Status TakeRow(uint32_t layer, uint32_t page, std::byte* to);
  /// Copies units of a layer, from `first` on, to `to` (unless null), and computes their checksums.
  /// Units are as they arrived, decoded or encoded.
  /// `next` is the start of the next copy's source, if known.
  Status Copy(uint32_t layer, uint32_t first, std::span<const std::byte> units, std::byte* to,
              const std::byte* next);
  Status TakeEncoded(uint32_t layer);
  Status Encode(uint32_t layer, std::span<std::byte> encoded);
  Status TakeChecksums(uint32_t layer);
  /// The part of the digests that belongs to a layer.
  std::span<std::byte> DigestsOf(uint32_t layer);
  /// Computes the digests of a layer's units from `first` on, which are at `units`.
  Status Digest(uint32_t layer, uint32_t first, std::span<const std::byte> units);
  /// Returns the bytes aligned for their elements. A slice of a message has any alignment.
  std::span<const std::byte> Aligned(std::span<const std::byte> bytes);

  const PutSegmentArgs* args_;
  std::optional<ExtentCodec> codec_;  ///< Empty for an object, whose units are stored raw.
  SegmentRecord record_;
  std::vector<int32_t> valid_rows_;  ///< Valid rows of the units of one layer.
  std::vector<Extent> places_;
  std::unique_ptr<std::byte[], FreeBytes> digests_;  ///< Aligned to blocks, for a write in place.
  size_t digests_bytes_ = 0;
  std::vector<uint32_t> digest_crc32c_;
  std::unique_ptr<std::byte[]>
      home_;  ///< Memory for all extents; untouched pages are not resident.
  std::vector<std::byte> scratch_, decoded_;
};

/// Returns one view for each layer. Views refer to `intake`; their bytes are valid once taken in.
/// `cost` models their recomputation.
[[nodiscard]] std::vector<ExtentView> SplitExtents(const SegmentKey& key,
                                                   const SegmentIntake& intake,
                                                   const PrefillCost& cost);
/// Returns the extent of the segment's digests, valid once all others are taken in.
[[nodiscard]] ExtentView DigestExtent(const SegmentKey& key, const SegmentIntake& intake);
/// As SplitExtents, for a segment with its stored bytes at hand: [layers][pages][n_kv] units.
[[nodiscard]] std::vector<ExtentView> SplitExtents(const SegmentKey& key,
                                                   const SegmentRecord& record,
                                                   std::span<const std::byte> bytes,
                                                   const PrefillCost& cost);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_WRITE_PUT_REQUEST_H_
