// SPDX-License-Identifier: Apache-2.0
//
// Destination: memory of the caller that bytes are read to, in pieces that are filled one after
// another. Ownership: the memory is the caller's, and outlives every use. Thread-safety: a value
// type.
#ifndef QUIRE_DESTINATION_H_
#define QUIRE_DESTINATION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace quire {

class Destination {
 public:
  Destination() = default;
  Destination(std::span<std::byte> piece) { Append(piece); }  // NOLINT(google-explicit-constructor)

  void Append(std::span<std::byte> piece) {
    if (piece.empty()) return;
    pieces_.push_back(piece);
    size_bytes_ += piece.size();
  }

  /// The first `bytes`, or all of it.
  Destination First(uint64_t bytes) const {
    Destination first;
    for (const std::span<std::byte> piece : pieces_) {
      const uint64_t left = bytes - first.size_bytes_;
      first.Append(piece.first(std::min<uint64_t>(left, piece.size())));
    }
    return first;
  }

  uint64_t size_bytes() const { return size_bytes_; }
  bool empty() const { return size_bytes_ == 0; }
  /// None is empty.
  const std::vector<std::span<std::byte>>& pieces() const { return pieces_; }

 private:
  std::vector<std::span<std::byte>> pieces_;
  uint64_t size_bytes_ = 0;
};

}  // namespace quire

#endif  // QUIRE_DESTINATION_H_
