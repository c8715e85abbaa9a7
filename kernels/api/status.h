// SPDX-License-Identifier: Apache-2.0
//
// OpStatus: the result of an op. Conventions of every header in this folder:
//
// * Arguments are one plain struct passed by reference; the shape stands beside each pointer, row
//   major, last dimension contiguous. Sizes are int64 counts of elements unless named bytes.
// * Letters: p = page_tokens, d = head_dim, G = n_q / n_kv. Query head a uses KV head a / G.
// * Ownership: all memory is the caller's and lies where the table's device can read it. An op
//   keeps no pointer after it returns (CPU) or after its stream has passed it (devices).
// * `stream`: null on the CPU; otherwise the device's stream, and the op is ordered on it.
// * Errors: arguments are checked before anything is written. If an allowed size of zero leaves no
//   work, the result is kOk and pointers may be null. An unknown dtype is kUnsupported.
// * Thread-safety: an op has no state; concurrent calls may share inputs, not outputs. Inputs and
//   outputs must not overlap unless the header allows it.
// * Tolerance: how far a fast table may be from CpuReference() (tolerance.h).
#ifndef QUIRE_KERNELS_API_STATUS_H_
#define QUIRE_KERNELS_API_STATUS_H_

namespace quire::kernels {

/// Values are stable.
// clang-format off (version 14 takes the attributed enum for an initialiser)
enum class [[nodiscard]] OpStatus : int{
    kOk = 0,
    kBadShape = 1,     ///< A size, index or required pointer is out of its documented range.
    kUnsupported = 2,  ///< A valid request that this table has no kernel for.
    kDeviceError = 3,  ///< The device or its runtime failed; outputs are undefined.
};
// clang-format on

/// For logs; never null.
constexpr const char* Describe(OpStatus status) {
  switch (status) {
    case OpStatus::kOk:
      return "ok";
    case OpStatus::kBadShape:
      return "bad shape";
    case OpStatus::kUnsupported:
      return "unsupported";
    case OpStatus::kDeviceError:
      return "device error";
  }
  return "unknown";
}

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_API_STATUS_H_
