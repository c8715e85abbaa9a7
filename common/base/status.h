// SPDX-License-Identifier: Apache-2.0
//
// Errors are absl::Status values; this header gives their constructors (messages are streamed
// together, so std::string_view and numbers work) and the two propagation macros.
//
// What each code means in Quire:
//   INVALID_ARGUMENT     malformed input, wrong shapes, a KvSpec that does not match
//   NOT_FOUND            the segment, context, document or session is in no tier or table
//   ALREADY_EXISTS       different bytes under a key that is known
//   FAILED_PRECONDITION  stale epoch, sequence number or slot generation
//   RESOURCE_EXHAUSTED   a bound was reached (arena, queue, sessions, disk); retry_hint.h says
//                        which refusals pass by themselves
//   DATA_LOSS            a checksum did not match; the bytes are not returned
//   UNAUTHENTICATED      a ticket or token proves no tenant; nothing was done
//   UNAVAILABLE          the peer cannot be reached; retrying may help
//   DEADLINE_EXCEEDED    the caller's deadline passed first
#ifndef QUIRE_COMMON_BASE_STATUS_H_
#define QUIRE_COMMON_BASE_STATUS_H_

#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"

namespace quire {

using absl::Status;
using absl::StatusCode;
using absl::StatusOr;

inline Status OkStatus() { return absl::OkStatus(); }

/// Builds a status whose message is every argument streamed in order.
template <typename... Parts>
[[nodiscard]] Status MakeStatus(StatusCode code, const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  return Status(code, message.str());
}

template <typename... Parts>
[[nodiscard]] Status InvalidArgument(const Parts&... parts) {
  return MakeStatus(StatusCode::kInvalidArgument, parts...);
}
template <typename... Parts>
[[nodiscard]] Status NotFound(const Parts&... parts) {
  return MakeStatus(StatusCode::kNotFound, parts...);
}
template <typename... Parts>
[[nodiscard]] Status AlreadyExists(const Parts&... parts) {
  return MakeStatus(StatusCode::kAlreadyExists, parts...);
}
template <typename... Parts>
[[nodiscard]] Status FailedPrecondition(const Parts&... parts) {
  return MakeStatus(StatusCode::kFailedPrecondition, parts...);
}
template <typename... Parts>
[[nodiscard]] Status ResourceExhausted(const Parts&... parts) {
  return MakeStatus(StatusCode::kResourceExhausted, parts...);
}
template <typename... Parts>
[[nodiscard]] Status DataLoss(const Parts&... parts) {
  return MakeStatus(StatusCode::kDataLoss, parts...);
}
template <typename... Parts>
[[nodiscard]] Status Unavailable(const Parts&... parts) {
  return MakeStatus(StatusCode::kUnavailable, parts...);
}
template <typename... Parts>
[[nodiscard]] Status DeadlineExceeded(const Parts&... parts) {
  return MakeStatus(StatusCode::kDeadlineExceeded, parts...);
}
template <typename... Parts>
[[nodiscard]] Status PermissionDenied(const Parts&... parts) {
  return MakeStatus(StatusCode::kPermissionDenied, parts...);
}
template <typename... Parts>
[[nodiscard]] Status Unimplemented(const Parts&... parts) {
  return MakeStatus(StatusCode::kUnimplemented, parts...);
}
template <typename... Parts>
[[nodiscard]] Status Internal(const Parts&... parts) {
  return MakeStatus(StatusCode::kInternal, parts...);
}

/// Returns the status with `context` and ": " before its message. OK stays OK. A retry hint stays.
template <typename... Parts>
[[nodiscard]] Status Annotate(const Status& status, const Parts&... context) {
  if (status.ok()) return status;
  Status result = MakeStatus(status.code(), context..., ": ", std::string(status.message()));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { result.SetPayload(url, payload); });
  return result;
}

/// Returns the message as a std::string_view (abseil's own string_view is another type here).
inline std::string_view Message(const Status& status) {
  return {status.message().data(), status.message().size()};
}

}  // namespace quire

#define QUIRE_CONCAT_INNER_(a, b) a##b
#define QUIRE_CONCAT_(a, b) QUIRE_CONCAT_INNER_(a, b)

/// Returns from the enclosing function when `expression` is a status that is not OK.
#define QUIRE_RETURN_IF_ERROR(expression)                                                       \
  do {                                                                                          \
    if (::absl::Status quire_status_ = (expression); !quire_status_.ok()) return quire_status_; \
  } while (false)

/// `QUIRE_ASSIGN_OR_RETURN(auto x, StatusOrCall());`
#define QUIRE_ASSIGN_OR_RETURN(target, expression) \
  QUIRE_ASSIGN_OR_RETURN_INNER_(QUIRE_CONCAT_(quire_or_, __LINE__), target, expression)
#define QUIRE_ASSIGN_OR_RETURN_INNER_(or_value, target, expression) \
  auto or_value = (expression);                                     \
  if (!or_value.ok()) return or_value.status();                     \
  target = std::move(or_value).value()

#endif  // QUIRE_COMMON_BASE_STATUS_H_
