// SPDX-License-Identifier: Apache-2.0
//
// IoEngine: reads and writes on files, many in flight. It moves bytes and reports the system's
// errors. Callers interpret them.
//
// A caller supplies requests one by one while earlier ones are in flight (IoStream). It prepares
// the next write, or verifies the last read, while the device works.
//
// Every implementation passes testing/engine_conformance.h.
//
// Ownership: files and buffers stay the caller's. Those of a request are unused once it has ended,
// and all are once Run returns. Thread-safety: every implementation may be called concurrently;
// calls wait for each other only at the device. Units: bytes. With direct I/O, offset, length and
// buffer keep the file's alignment.
#ifndef QUIRE_KVSERVER_STORE_PAYLOAD_ENGINE_IO_ENGINE_H_
#define QUIRE_KVSERVER_STORE_PAYLOAD_ENGINE_IO_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace quire::kvserver {

/// Largest single transfer of callers. Longer ones are cut into parts that are in flight together.
inline constexpr uint64_t kMaxIoBytes = 1 << 20;

/// One read or write, and its result. The engine continues short transfers. `done < length` without
/// an error means that a read reached the end of the file.
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

/// Requests of one caller, supplied while others are in flight. The engine calls it from the thread
/// that called Run.
class IoStream {
 public:
  virtual ~IoStream() = default;
  /// Returns the next request, with `done` and `error` 0. It stays in place until it has ended.
  /// Null when there is none now: the engine asks again after another request ends, and stops when
  /// none is in flight.
  virtual IoRequest* Next() = 0;
  /// Called when `request` has ended.
  virtual void Ended(IoRequest& request) = 0;
};

class IoEngine {
 public:
  virtual ~IoEngine() = default;
  /// Name for people and reports: "io_uring", "pread".
  virtual std::string_view name() const = 0;
  /// Runs the requests of `stream`, in any order and concurrently. Returns when all have ended and
  /// there are no more.
  virtual void Run(IoStream& stream) = 0;
  /// Runs all requests. REQUIRES: `done` and `error` are 0.
  void RunAll(std::span<IoRequest> requests);
  /// Makes finished writes to `fd` durable. Returns an errno value, 0 for success.
  [[nodiscard]] virtual int Sync(int fd) = 0;
};

inline void IoEngine::RunAll(std::span<IoRequest> requests) {
  class All final : public IoStream {
   public:
    explicit All(std::span<IoRequest> requests) : left_(requests) {}
    IoRequest* Next() override {
      if (left_.empty()) return nullptr;
      IoRequest* const next = &left_.front();
      left_ = left_.subspan(1);
      return next;
    }
    void Ended(IoRequest&) override {}

   private:
    std::span<IoRequest> left_;
  };
  All all(requests);
  Run(all);
}

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_PAYLOAD_ENGINE_IO_ENGINE_H_
