// SPDX-License-Identifier: Apache-2.0
//
// The source of the CUDA kernels against the op conformance suite, on the CPU (simt.h).
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/testing/host_device.h"

namespace quire::kernels::testing {
namespace {

/// Host memory, in which the launchers nevertheless do not look at lists.
class SimtTestDevice : public HostTestDevice {
 public:
  SimtTestDevice() : HostTestDevice(CudaKernels()) {}
  bool checks_lists() const override { return false; }
};

std::unique_ptr<TestDevice> MakeSimt() { return std::make_unique<SimtTestDevice>(); }

INSTANTIATE_TEST_SUITE_P(Simt, OpConformance, ::testing::Values(MakeSimt), DeviceName);

}  // namespace
}  // namespace quire::kernels::testing
