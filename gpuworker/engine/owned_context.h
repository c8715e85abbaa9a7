// SPDX-License-Identifier: Apache-2.0
//
// OwnedContext: an open context on the server that is dropped with this object, as far as the
// server answers; one that cannot be dropped now is forgotten by the server when it has idled too
// long. Thread-safety: none. Ownership: the client outlives it.
#ifndef QUIRE_GPUWORKER_ENGINE_OWNED_CONTEXT_H_
#define QUIRE_GPUWORKER_ENGINE_OWNED_CONTEXT_H_

#include <cstdint>

#include "client/client.h"

namespace quire::worker {

class OwnedContext {
 public:
  /// `private_pages` as it was opened with.
  OwnedContext(Client* client, uint64_t id, bool private_pages)
      : client_(client), id_(id), private_pages_(private_pages) {}
  ~OwnedContext() { (void)client_->DropContext(id_); }
  OwnedContext(const OwnedContext&) = delete;
  OwnedContext& operator=(const OwnedContext&) = delete;

  uint64_t id() const { return id_; }
  bool private_pages() const { return private_pages_; }

 private:
  Client* const client_;
  const uint64_t id_;
  const bool private_pages_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_OWNED_CONTEXT_H_
