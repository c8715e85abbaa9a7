// SPDX-License-Identifier: Apache-2.0
//
// The UCX pipe of a build without UCX.
#include "transport/ucx/ucx.h"

namespace quire {
namespace {
Status BuiltWithout() {
  return Unimplemented(
      "this program was built without UCX; install libucx-dev and configure with "
      "-DQUIRE_WITH_UCX=ON, or choose another transport");
}
}  // namespace

bool UcxAvailable() { return false; }

StatusOr<std::unique_ptr<FramePipe>> ConnectUcx(const std::string&, const UcxOptions&) {
  return BuiltWithout();
}

StatusOr<std::unique_ptr<PipeListener>> ListenUcx(const std::string&, const UcxOptions&,
                                                  PipeListener::Accept) {
  return BuiltWithout();
}

}  // namespace quire
