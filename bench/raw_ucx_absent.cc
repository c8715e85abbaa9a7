// SPDX-License-Identifier: Apache-2.0
#include "bench/raw_ucx.h"

namespace quire::bench {
namespace {
Status BuiltWithout() { return Unimplemented("this program was built without UCX"); }
}  // namespace

StatusOr<double> RawUcxTransfer(const RawUcxLane&, std::span<const std::byte>, std::span<std::byte>,
                                uint64_t, std::span<const RawUcxMove>) {
  return BuiltWithout();
}

StatusOr<double> RawUcx(const RawUcxLane&, uint64_t, uint64_t, uint64_t, uint64_t) {
  return BuiltWithout();
}

}  // namespace quire::bench
