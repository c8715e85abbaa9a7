// SPDX-License-Identifier: Apache-2.0
//
// IoEngine: batches of reads and writes on files, many in flight. It moves bytes and reports what
// the system said; what an error means is its caller's business.
//
// An implementation is done when it passes testing/engine_conformance.h.
//
// Ownership: files and buffers stay the caller's and are not used after Run returns, whatever
// happened.
// Thread-safety: every implementation may be called concurrently; calls do not wait for each other
// but where the device makes them.
// Units: bytes. With a file opened for direct I/O, offset, length and buffer keep its alignment.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_IO_ENGINE_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_IO_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace quire::kvserver {

/// One read or write, and how it ended. Short transfers are continued by the engine, so
/// `done < length` without an error means: a read reached the end of the file.
struct IoRequest {
  enum class Kind : uint8_t { kRead, kWrite };

  static IoRequest Read(int fd, uint64_t offset, std::span<std::byte> into) {
    return {Kind::kRead, fd, offset, into.data(), into.size(), 0, 0};
  }
  static IoRequest Write(int fd, uint64_t offset, std::span<const std::byte> from) {
    // The buffer of a write is only read from.
    return {Kind::kWrite, fd, offset, const_cast<std::byte*>(from.data()), from.size(), 0, 0};
  }

  Kind kind = Kind::kRead;
  int fd = -1;
  uint64_t offset = 0;
  std::byte* buffer = nullptr;
  size_t length = 0;
  size_t done = 0;  ///< Result: bytes transferred, also before an error.
  int error = 0;    ///< Result: an errno value, 0 for none.

  bool complete() const { return error == 0 && done == length; }
};

class IoEngine {
 public:
  virtual ~IoEngine() = default;
  /// For people and reports: "io_uring", "pread".
  virtual std::string_view name() const = 0;
  /// Runs all requests, in any order and at once, and returns when every one has ended. REQUIRES:
  /// `done` and `error` are 0.
  virtual void Run(std::span<IoRequest> requests) = 0;
  /// Makes durable what was written to `fd` by requests that have ended. An errno value, 0 for
  /// success.
  [[nodiscard]] virtual int Sync(int fd) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_IO_ENGINE_H_
