// SPDX-License-Identifier: Apache-2.0
//
// NoCalls: a handler that answers no calls, for tests of a server's other behaviour.
#ifndef QUIRE_TRANSPORT_TESTING_NO_CALLS_H_
#define QUIRE_TRANSPORT_TESTING_NO_CALLS_H_

#include <string>
#include <string_view>
#include <vector>

#include "transport/transport.h"

namespace quire::testing {

class NoCalls final : public CallHandler {
 public:
  std::vector<std::string> Methods() const override { return {}; }
  Status Handle(const CallContext&, std::string_view method, const CallMessage&,
                ReplyWriter&) override {
    return Unimplemented(method);
  }
};

}  // namespace quire::testing

#endif  // QUIRE_TRANSPORT_TESTING_NO_CALLS_H_
