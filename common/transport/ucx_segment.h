// SPDX-License-Identifier: Apache-2.0
//
// UcxSegment: memory of a peer on this host, out of the shared memory segment that a part of its
// remote key names. UCX would map the segment itself, and believe the peer where it lies and how
// large it is; here the kernel is asked. Nothing of UCX is needed.
//
// What is mapped has to look like UCX's own: a file of shared memory by the name that UCX gives, or
// a System V segment that goes with its last user. So no arena of this process, no file on a disk
// and no segment that is there to stay becomes a landing because a peer names it.
//
// Errors: INVALID_ARGUMENT for what names no such segment, or memory that is not inside one;
// RESOURCE_EXHAUSTED when the system does not map it.
// Thread-safety: constant once made.
#ifndef QUIRE_COMMON_TRANSPORT_UCX_SEGMENT_H_
#define QUIRE_COMMON_TRANSPORT_UCX_SEGMENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/transport/ucx_fault_guard.h"

namespace quire {

/// Memory as the peer addresses it.
struct UcxPeerMemory {
  uint64_t address = 0;
  uint64_t bytes = 0;
};

/// Ownership: of the mapping, which stays when the peer goes. A file that its owner cuts short
/// afterwards has no memory there any more: who writes to it then gets SIGBUS, unless the process
/// has the guard (ucx_fault_guard.h), and the bytes go nowhere.
class UcxSegment {
 public:
  static StatusOr<std::unique_ptr<UcxSegment>> MapPosix(std::string_view part,
                                                        const UcxPeerMemory& memory);
  static StatusOr<std::unique_ptr<UcxSegment>> MapSysv(std::string_view part,
                                                       const UcxPeerMemory& memory);
  ~UcxSegment();
  UcxSegment(const UcxSegment&) = delete;
  UcxSegment& operator=(const UcxSegment&) = delete;

  /// The peer's memory, as this process has it.
  std::span<std::byte> memory() const { return memory_; }
  /// Whether the guard has replaced the mapping. False: what this thread has written there before
  /// is in the peer's memory.
  bool was_cut() const { return watch_->replaced(); }

 private:
  enum class Kind { kPosix, kSysv };
  UcxSegment(Kind kind, std::byte* begin, size_t mapped_bytes)
      : kind_(kind),
        begin_(begin),
        mapped_bytes_(mapped_bytes),
        watch_(std::in_place, std::span(begin, mapped_bytes)) {}

  const Kind kind_;
  std::byte* const begin_;
  const size_t mapped_bytes_;           ///< Of a file; segments of System V keep their size.
  std::optional<UcxFaultWatch> watch_;  ///< Until the mapping ends.
  std::span<std::byte> memory_;
};

/// A part of domain posix that names the peer's segment through a descriptor of this process, so
/// that UCX can open it as long as `fd` is held, whatever the peer does, and maps no more of it
/// than there is.
struct UcxPinnedPart {
  std::string bytes;
  UniqueFd fd;
};
StatusOr<UcxPinnedPart> PinPosixPart(std::string_view part, const UcxPeerMemory& memory);

}  // namespace quire

#endif  // QUIRE_COMMON_TRANSPORT_UCX_SEGMENT_H_
