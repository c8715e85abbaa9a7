// SPDX-License-Identifier: Apache-2.0
//
// Intake of PutSegment's arguments on their way into the tiers. CheckPutArguments says what is
// wrong with them. A SegmentIntake makes the segment's record and takes its extents in, one after
// the other. No I/O.
//
// An arriving unit is read from memory once: its checksum, its copy and its digest are made of it
// while it is in the processor's caches. For that, an extent is taken in as late as possible, while
// those before it are being written, and to where it stays (docs/design/0038).
#ifndef QUIRE_KVSERVER_STORE_PUT_REQUEST_H_
#define QUIRE_KVSERVER_STORE_PUT_REQUEST_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kvserver/store/codec/codec.h"
#include "kvserver/store/extent_view.h"
#include "kvserver/store/metadata/segment_record.h"
#include "kvserver/store/page_store.h"
#include "kvserver/store/policy/prefill_cost.h"
#include "quire/status.h"

namespace quire::kvserver {

/// Payload of one segment at most.
inline constexpr uint64_t kMaxSegmentBytes = 1ull << 30;

/// INVALID_ARGUMENT naming what is wrong with the spec, the tokens or the payload's size.
[[nodiscard]] Status CheckPutArguments(const PutSegmentArgs& args);

/// Ownership: the arguments outlive it. Thread-safety: none.
class SegmentIntake {
 public:
  /// `codec`: how the units are stored. REQUIRES: CheckPutArguments.
  static StatusOr<SegmentIntake> Make(std::string_view tenant, const PutSegmentArgs& args,
                                      const CodecParams& codec);

  /// Its checksums are there once the extents are taken in. `first_token` and `incarnation` are the
  /// caller's to set.
  SegmentRecord& record() { return record_; }
  const SegmentRecord& record() const { return record_; }
  /// Minima and maxima of what readers will see, of all layers, once the extents are taken in.
  std::span<const std::byte> digests() const { return digests_; }

  /// Place of the extent's bytes in their stored form; they are there once the extent is taken in.
  /// Unless Place says otherwise, raw units in one piece stay where the caller has them. Others
  /// come into memory of the intake.
  std::span<const std::byte> extent(uint32_t layer) const { return places_[layer].shown; }
  /// Has the extent taken in to `memory`, of its stored size, which outlives the intake's use.
  void Place(uint32_t layer, std::span<std::byte> memory);
  /// Takes Place back for all of them. REQUIRES: none is taken in.
  void PlaceAtHome();

  /// Takes an extent in: its bytes are where they belong, its checksums and digests known. Once; a
  /// second call does nothing. DATA_LOSS when a unit does not match the checksum that it came with.
  [[nodiscard]] Status Take(uint32_t layer);
  [[nodiscard]] Status TakeAll();
  /// The checksums alone, for a segment that is not going to be stored. Errors as of Take.
  [[nodiscard]] Status TakeChecksums();

 private:
  /// One extent.
  struct Extent {
    std::span<const std::byte> shown;
    std::span<std::byte> memory;  ///< Empty where the bytes stay where they are.
    bool taken = false;
  };

  SegmentIntake(const PutSegmentArgs& args, ExtentCodec codec) : args_(&args), codec_(codec) {}
  bool is_raw() const { return record_.codec.id == CodecId::kRaw; }
  /// Whether units may stay where the caller has them.
  bool stays() const { return is_raw() && args_->payload_rows.empty(); }
  /// The units of one page as they arrived.
  std::span<const std::byte> Row(uint32_t layer, uint32_t page) const;
  /// The units of a layer as they arrived, in one piece, aligned for their dtype.
  std::span<const std::byte> Arrived(uint32_t layer);
  std::span<uint32_t> Checksums(uint32_t layer);
  /// DATA_LOSS unless `crc32c` is what the unit came with, if it came with any.
  Status CheckUnit(size_t unit, uint32_t crc32c) const;
  Status TakeRaw(uint32_t layer);
  Status TakeRow(uint32_t layer, uint32_t page, std::byte* to);
  /// Copies units from `first` on of a layer to `to`, unless that is null, with their checksums.
  /// `next`: what is copied after them, if known.
  Status Copy(uint32_t layer, uint32_t first, std::span<const std::byte> units, std::byte* to,
              const std::byte* next);
  Status TakeEncoded(uint32_t layer);
  Status Encode(uint32_t layer, std::span<std::byte> encoded);
  Status TakeChecksums(uint32_t layer);
  /// Makes the digests of a layer's units from `first` on, which lie at `units`.
  Status Digest(uint32_t layer, uint32_t first, std::span<const std::byte> units);
  /// The bytes where their elements may be read; a slice of a message starts anywhere.
  std::span<const std::byte> Aligned(std::span<const std::byte> bytes);

  const PutSegmentArgs* args_;
  ExtentCodec codec_;
  SegmentRecord record_;
  std::vector<int32_t> valid_rows_;  ///< Of the units of one layer.
  std::vector<Extent> places_;
  std::vector<std::byte> digests_;
  std::unique_ptr<std::byte[]> home_;  ///< Of all extents; only what is used of it is in memory.
  std::vector<std::byte> scratch_, decoded_;
};

/// One view for each layer. They refer to `intake`; what they show is there once it is taken in.
/// `cost`: of computing it again.
[[nodiscard]] std::vector<ExtentView> SplitExtents(const SegmentKey& key,
                                                   const SegmentIntake& intake,
                                                   const PrefillCost& cost);
/// The same of a segment whose bytes are at hand, [layers][pages][n_kv] units as they are stored.
[[nodiscard]] std::vector<ExtentView> SplitExtents(const SegmentKey& key,
                                                   const SegmentRecord& record,
                                                   std::span<const std::byte> bytes,
                                                   const PrefillCost& cost);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PUT_REQUEST_H_
