// SPDX-License-Identifier: Apache-2.0
//
// Both CPU tables against the op conformance suite. For the reference this checks the refusals and
// that no memory outside the arguments is touched (under AddressSanitizer).
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/testing/op_conformance.h"

namespace quire::kernels::testing {
namespace {

class CpuTestDevice : public TestDevice {
 public:
  explicit CpuTestDevice(const KernelTable& table) : table_(table) {}
  const KernelTable& table() const override { return table_; }
  void* Allocate(size_t bytes) override { return ::operator new(bytes); }
  void Free(void* memory) override { ::operator delete(memory); }
  void CopyIn(void* device, const void* host, size_t bytes) override {
    if (bytes > 0) memcpy(device, host, bytes);
  }
  void CopyOut(void* host, const void* device, size_t bytes) override {
    if (bytes > 0) memcpy(host, device, bytes);
  }

 private:
  const KernelTable& table_;
};

std::unique_ptr<TestDevice> MakeReference() {
  return std::make_unique<CpuTestDevice>(CpuReference());
}
std::unique_ptr<TestDevice> MakeFast() { return std::make_unique<CpuTestDevice>(CpuKernels()); }

INSTANTIATE_TEST_SUITE_P(Cpu, OpConformance, ::testing::Values(MakeReference, MakeFast),
                         DeviceName);

}  // namespace
}  // namespace quire::kernels::testing
