// SPDX-License-Identifier: Apache-2.0
//
// Durability that a put asks for, as messages have it.
#ifndef QUIRE_CLIENT_DURABILITY_H_
#define QUIRE_CLIENT_DURABILITY_H_

#include "quire/contexts.h"
#include "quire/v1/types.pb.h"

namespace quire::internal {

inline v1::Durability ToProto(PutDurability durability) {
  switch (durability) {
    case PutDurability::kServerDefault:
      return v1::DURABILITY_UNSPECIFIED;
    case PutDurability::kMemory:
      return v1::DURABILITY_MEMORY;
    case PutDurability::kReplicated:
      return v1::DURABILITY_REPLICATED;
    case PutDurability::kPersisted:
      return v1::DURABILITY_PERSISTED;
  }
  return v1::DURABILITY_UNSPECIFIED;
}

}  // namespace quire::internal

#endif  // QUIRE_CLIENT_DURABILITY_H_
