// SPDX-License-Identifier: Apache-2.0
//
// OwnedContext: an open context on the server that is dropped with this object. If the server does
// not answer, the context ends there with its lease. Thread-safety: none. Ownership: the client
// outlives it.
#ifndef QUIRE_GPUWORKER_ENGINE_OWNED_CONTEXT_H_
#define QUIRE_GPUWORKER_ENGINE_OWNED_CONTEXT_H_

#include <cstdint>
#include <utility>

#include "quire/client.h"

namespace quire::worker {

class OwnedContext {
 public:
  /// `private_pages` as it was opened with.
  OwnedContext(Client* client, OpenedContext opened, bool private_pages)
      : client_(client), opened_(std::move(opened)), private_pages_(private_pages) {}
  ~OwnedContext() { (void)client_->DropContext(opened_.id); }
  OwnedContext(const OwnedContext&) = delete;
  OwnedContext& operator=(const OwnedContext&) = delete;

  uint64_t id() const { return opened_.id; }
  uint64_t incarnation() const { return opened_.incarnation; }
  bool private_pages() const { return private_pages_; }

 private:
  Client* const client_;
  const OpenedContext opened_;
  const bool private_pages_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_OWNED_CONTEXT_H_
