// SPDX-License-Identifier: Apache-2.0
//
// How the client's methods reach the wire; internal to client/. A typed request is serialised, sent
// with its payload through Client::CallWithRetries, and the reply parsed.
//
// What is retried. A refusal with a retry hint (common/base/retry_hint.h) was made before anything
// was done, so every method may try again. UNAVAILABLE may mean that the call was carried out and
// only its reply was lost, so only methods that can be repeated without harm try again: reads,
// PutSegment (same bytes, same key), AppendPages and AppendLayers (what the server has is skipped),
// Seal (the server remembers for a while what it sealed), and a session's RemoveSequence,
// Resync and Close. A recall asks again by itself (pending_recall.h). Open*, AddSequence, Drop*,
// Register and Delete* return UNAVAILABLE at once: repeating them could leave a second context or
// version behind, or answer NOT_FOUND for what had been done.
#ifndef QUIRE_CLIENT_CALL_H_
#define QUIRE_CLIENT_CALL_H_

#include <google/protobuf/message.h>

#include <string_view>

#include "client/client.h"
#include "common/wire/message.h"

namespace quire {

struct CallSpec {
  std::string_view method;  ///< "quire.v1.Service/Method"
  Repeat repeat = Repeat::kSafe;
};

/// A reply that says what it must not: DATA_LOSS naming the method; nothing of it is used.
template <typename... Parts>
[[nodiscard]] Status BadReply(std::string_view method, const Parts&... parts) {
  return DataLoss("the server's reply to ", method, " is not valid: ", parts...,
                  "; nothing of it was used. Check that client and server are of the same version");
}

/// Takes a reply to `method` apart. INTERNAL, which no attempt repeats, when it cannot be parsed.
[[nodiscard]] inline Status DecodeReply(std::string_view method, std::string_view bytes,
                                        google::protobuf::Message* reply) {
  return Annotate(wire::Decode(bytes, reply), "the server's reply to ", method);
}

template <typename Request, typename Reply>
Status Client::Call(const CallSpec& spec, const Request& request, const Payload& payload,
                    TimePoint deadline, Reply* reply, Payload* reply_payload) {
  CallMessage out;
  QUIRE_RETURN_IF_ERROR(
      Annotate(wire::Encode(request, &out.control), "the request to ", spec.method));
  out.payload = payload;
  CallMessage in;
  QUIRE_RETURN_IF_ERROR(CallWithRetries(spec, out, deadline, &in));
  QUIRE_RETURN_IF_ERROR(DecodeReply(spec.method, in.control, reply));
  if (reply_payload != nullptr) {
    *reply_payload = std::move(in.payload);
  } else if (!in.payload.empty()) {
    return BadReply(spec.method, "it carries ", in.payload.size_bytes(),
                    " payload bytes instead of none");
  }
  return OkStatus();
}

}  // namespace quire

#endif  // QUIRE_CLIENT_CALL_H_
