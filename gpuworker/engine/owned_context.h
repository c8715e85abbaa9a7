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
  OwnedContext(Client* client, uint64_t id) : client_(client), id_(id) {}
  ~OwnedContext() { (void)client_->DropContext(id_); }
  OwnedContext(const OwnedContext&) = delete;
  OwnedContext& operator=(const OwnedContext&) = delete;

  uint64_t id() const { return id_; }

 private:
  Client* const client_;
  const uint64_t id_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_OWNED_CONTEXT_H_
