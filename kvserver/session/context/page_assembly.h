// SPDX-License-Identifier: Apache-2.0
//
// PageAssembly: one page of an open context while its layers arrive, in any order. LayerRows refers
// to units of a page, anywhere in a message. Pure bookkeeping: no I/O, no lock.
//
// Ownership: an assembly owns its page, and the budget bytes of the page; the finished page is
// shared. Thread-safety: none; its context holds a lock. Errors: ALREADY_EXISTS for tokens or bytes
// that differ from present ones.
//
// A unit's checksum is made of the bytes on arrival and stays with it. Every user of the page's
// copy detects later damage (store/unit.h).
#ifndef QUIRE_KVSERVER_SESSION_CONTEXT_PAGE_ASSEMBLY_H_
#define QUIRE_KVSERVER_SESSION_CONTEXT_PAGE_ASSEMBLY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/api/table.h"
#include "kvserver/session/context/context_view.h"
#include "kvserver/session/context/memory_budget.h"
#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::kvserver {

/// Units of one page: those of layers[i] are [n_kv] units at first + i * stride_bytes.
struct LayerRows {
  std::span<const uint32_t> layers;
  const std::byte* first = nullptr;  ///< Aligned for the dtype.
  uint64_t stride_bytes = 0;
  uint64_t row_bytes = 0;  ///< Bytes of the units of one layer.
  /// [layers][n_kv], original checksums of units that were kept since their arrival; empty for
  /// units that have just arrived.
  std::span<const uint32_t> unit_crc32c = {};

  std::span<const std::byte> row(size_t i) const { return {first + i * stride_bytes, row_bytes}; }
};

/// Units of a page that were verified.
struct PageCheck {
  uint64_t bytes = 0;
  uint64_t units = 0;
  uint64_t damaged = 0;  ///< Units that do not match the checksums with which they arrived.
};
/// Verifies a whole page.
PageCheck CheckUnits(const TailPage& page);

/// One number for the units of a page at one layer: the CRC-32C of `unit_crc32c`, theirs.
uint32_t RowChecksum(std::span<const uint32_t> unit_crc32c);
/// As above, of the units themselves.
uint32_t RowChecksum(std::span<const std::byte> row, uint64_t unit_bytes);

class PageAssembly {
 public:
  /// Takes the bytes of a whole page from `budget`; RESOURCE_EXHAUSTED when there is no room.
  /// `tokens` are 1..p ids.
  static StatusOr<PageAssembly> Create(std::shared_ptr<const KvSpec> spec,
                                       std::span<const TokenId> tokens, MemoryBudget& budget);

  /// Compares `tokens` and `rows` with the present layers. Missing layers match everything. `page`
  /// names the page in the error.
  [[nodiscard]] Status Check(uint32_t page, std::span<const TokenId> tokens,
                             const LayerRows& rows) const;
  /// Stores the rows of missing layers. Layers are below num_layers. DATA_LOSS when a unit does not
  /// match the checksum that it came with; its layer is not stored then.
  [[nodiscard]] Status Put(const LayerRows& rows, const kernels::KernelTable& ops);

  /// The lowest missing layer; nullopt when the page is whole.
  std::optional<uint32_t> missing_layer() const;
  /// Only layers that have arrived may be read.
  std::shared_ptr<const TailPage> page() const { return page_; }
  /// Verifies the layers that have arrived.
  PageCheck CheckArrived() const;

 private:
  PageAssembly(std::shared_ptr<const KvSpec> spec, std::span<const TokenId> tokens,
               MemoryBudget::Lease lease);
  /// Puts the row of `rows.layers[index]`.
  [[nodiscard]] Status PutRow(const LayerRows& rows, size_t index, const kernels::KernelTable& ops);

  std::shared_ptr<const KvSpec> spec_;
  std::vector<bool> arrived_;  ///< [num_layers]
  std::shared_ptr<TailPage> page_;
};

/// Returns ALREADY_EXISTS for `what` ("tokens", "bytes") that differ from those of page `page`.
[[nodiscard]] Status OtherThanKnown(uint32_t page, std::string_view what);

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_CONTEXT_PAGE_ASSEMBLY_H_
