// SPDX-License-Identifier: Apache-2.0
#include "bench/rivals/raw_ucx.h"

namespace quire::bench {
StatusOr<std::unique_ptr<RawUcx>> RawUcx::Connect(const UcxOptions&, std::span<const std::byte>,
                                                  std::span<std::byte>, uint64_t) {
  return Unimplemented("this program was built without UCX");
}

}  // namespace quire::bench
