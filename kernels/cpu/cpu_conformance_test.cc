// SPDX-License-Identifier: Apache-2.0
//
// Both CPU tables in the op conformance suite. For the reference this checks refusals, and accesses
// outside the arguments (under AddressSanitizer).
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/testing/host_device.h"

namespace quire::kernels::testing {
namespace {

std::unique_ptr<TestDevice> MakeReference() {
  return std::make_unique<HostTestDevice>(CpuReference());
}
std::unique_ptr<TestDevice> MakeFast() { return std::make_unique<HostTestDevice>(CpuKernels()); }

INSTANTIATE_TEST_SUITE_P(Cpu, OpConformance, ::testing::Values(MakeReference, MakeFast),
                         DeviceName);

}  // namespace
}  // namespace quire::kernels::testing
