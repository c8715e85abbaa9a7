// SPDX-License-Identifier: Apache-2.0
//
// A TestDevice whose memory is the host's.
#ifndef QUIRE_KERNELS_TESTING_HOST_DEVICE_H_
#define QUIRE_KERNELS_TESTING_HOST_DEVICE_H_

#include <cstring>
#include <new>

#include "kernels/testing/op_conformance.h"

namespace quire::kernels::testing {

class HostTestDevice : public TestDevice {
 public:
  explicit HostTestDevice(const KernelTable& table) : table_(table) {}
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

}  // namespace quire::kernels::testing

#endif  // QUIRE_KERNELS_TESTING_HOST_DEVICE_H_
