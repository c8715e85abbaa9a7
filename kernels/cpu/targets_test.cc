// SPDX-License-Identifier: Apache-2.0
//
// CpuKernels() with every instruction set of this CPU. Digests, rotations, scores, poolings, top-k
// and codes must equal the reference to the bit. A server and a worker on different machines then
// select the same pages and read the same units.
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/simd_targets.h"
#include "kernels/testing/host_device.h"

namespace quire::kernels::testing {
namespace {

/// Uses the instruction set while this exists.
class TargetDevice : public HostTestDevice {
 public:
  explicit TargetDevice(int64_t target) : HostTestDevice(CpuKernels()), table_(CpuKernels()) {
    simd::UseTarget(target);
    table_.name = simd::TargetName();
  }
  ~TargetDevice() override { simd::UseTarget(simd::Targets().front()); }
  const KernelTable& table() const override { return table_; }

 private:
  KernelTable table_;
};

std::vector<MakeDevice> MakeTargets() {
  std::vector<MakeDevice> makers;
  for (const int64_t target : simd::Targets()) {
    makers.emplace_back([target] { return std::make_unique<TargetDevice>(target); });
  }
  return makers;
}

INSTANTIATE_TEST_SUITE_P(Targets, OpConformance, ::testing::ValuesIn(MakeTargets()), DeviceName);

}  // namespace
}  // namespace quire::kernels::testing
