// SPDX-License-Identifier: Apache-2.0
//
// Status and StatusOr: how every function of Quire reports errors. Messages are streamed together,
// and two macros pass an error on to the caller.
//
// Meanings of the codes in Quire:
//   INVALID_ARGUMENT     malformed input, wrong shapes, a KvSpec that does not match
//   NOT_FOUND            the segment, context, document or session is in no tier or table
//   ALREADY_EXISTS       different bytes under a key that is known
//   FAILED_PRECONDITION  stale epoch, sequence number or slot generation
//   RESOURCE_EXHAUSTED   a bound was reached (arena, queue, sessions, disk)
//   DATA_LOSS            a checksum did not match; the bytes are not returned
//   UNAUTHENTICATED      a ticket or token proves no tenant; nothing was done
//   UNAVAILABLE          the peer cannot be reached; retrying may help
//   DEADLINE_EXCEEDED    the caller's deadline passed first
//
// Thread-safety: value types.
#ifndef QUIRE_STATUS_H_
#define QUIRE_STATUS_H_

#include <concepts>
#include <iosfwd>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace quire {

/// The codes of gRPC, with the same numbers.
enum class StatusCode : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

/// "NOT_FOUND"; "" for a number that is no code.
[[nodiscard]] std::string Name(StatusCode code);

/// OK, or an error: a code, a message for people, and marks for programs. Copies share the error.
class [[nodiscard]] Status {
 public:
  /// OK.
  Status() = default;
  /// OK for kOk, whatever the message.
  Status(StatusCode code, std::string_view message);

  bool ok() const { return error_ == nullptr; }
  StatusCode code() const;
  /// Empty for OK. Valid while a copy of the status lives.
  std::string_view message() const;
  /// "NOT_FOUND: the message", or "OK".
  std::string ToString() const;

  /// Takes `other` in the place of OK; an error stays.
  void Update(const Status& other) {
    if (ok()) *this = other;
  }

  /// Gives an error a mark, replacing one of that name. Does nothing to OK.
  void SetMark(std::string_view name, std::string value);
  std::optional<std::string> Mark(std::string_view name) const;

  /// True when code, message and marks are equal.
  friend bool operator==(const Status& a, const Status& b);
  friend std::ostream& operator<<(std::ostream& out, const Status& status);
  /// The same error with `context` and ": " before its message. OK stays OK, marks stay.
  friend Status AnnotateWith(const Status& status, std::string_view context);

 private:
  struct Error;
  std::shared_ptr<const Error> error_;  ///< Null for OK.
};

inline Status OkStatus() { return Status(); }

#define QUIRE_DEFINE_IS_(Code) \
  [[nodiscard]] inline bool Is##Code(const Status& s) { return s.code() == StatusCode::k##Code; }
QUIRE_DEFINE_IS_(Cancelled)
QUIRE_DEFINE_IS_(InvalidArgument)
QUIRE_DEFINE_IS_(DeadlineExceeded)
QUIRE_DEFINE_IS_(NotFound)
QUIRE_DEFINE_IS_(AlreadyExists)
QUIRE_DEFINE_IS_(PermissionDenied)
QUIRE_DEFINE_IS_(ResourceExhausted)
QUIRE_DEFINE_IS_(FailedPrecondition)
QUIRE_DEFINE_IS_(Unimplemented)
QUIRE_DEFINE_IS_(Internal)
QUIRE_DEFINE_IS_(Unavailable)
QUIRE_DEFINE_IS_(DataLoss)
QUIRE_DEFINE_IS_(Unauthenticated)
#undef QUIRE_DEFINE_IS_

template <typename T>
class StatusOr;

namespace internal {

/// Throws std::logic_error with the status's words: a value was taken that is not there.
[[noreturn]] void ThrowNoValue(const Status& status);
/// INTERNAL in the place of OK: a StatusOr without a value has an error.
Status MustBeError(Status status);

template <typename T>
inline constexpr bool kIsStatusOr = false;
template <typename T>
inline constexpr bool kIsStatusOr<StatusOr<T>> = true;

/// True when a StatusOr<T> is made of a U by making a T of it.
template <typename T, typename U>
concept ValueOf = std::constructible_from<T, U> && !std::same_as<std::remove_cvref_t<U>, Status> &&
                  !std::same_as<std::remove_cvref_t<U>, std::in_place_t> &&
                  (std::same_as<std::remove_cvref_t<U>, T> || !kIsStatusOr<std::remove_cvref_t<U>>);

}  // namespace internal

/// A value, or why there is none. Taking the value of an error throws std::logic_error.
template <typename T>
class [[nodiscard]] StatusOr {
 public:
  using value_type = T;

  /// UNKNOWN.
  explicit StatusOr() : status_(StatusCode::kUnknown, "") {}
  StatusOr(Status error)  // NOLINT: implicit, so that functions return errors
      : status_(internal::MustBeError(std::move(error))) {}
  template <typename U = T>
  requires internal::ValueOf<T, U&&>
  explicit(!std::is_convertible_v<U&&, T>) StatusOr(U&& value)  // NOLINT: implicit where T is
      : value_(std::in_place, std::forward<U>(value)) {}
  /// The value of another type, or its error.
  template <typename U>
  requires(!std::same_as<T, U> &&
           std::constructible_from<T, U&&>) explicit(!std::is_convertible_v<U&&, T>)
      StatusOr(StatusOr<U>&& other)  // NOLINT: as above
      : status_(other.status()) {
    if (other.ok()) value_.emplace(*std::move(other));
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }

  const T& value() const& { return Checked(*this); }
  T& value() & { return Checked(*this); }
  T&& value() && { return std::move(Checked(*this)); }
  const T& operator*() const& { return Checked(*this); }
  T& operator*() & { return Checked(*this); }
  T&& operator*() && { return std::move(Checked(*this)); }
  const T* operator->() const { return &Checked(*this); }
  T* operator->() { return &Checked(*this); }

  template <typename U>
  T value_or(U&& other) const& {
    return ok() ? *value_ : static_cast<T>(std::forward<U>(other));
  }
  template <typename U>
  T value_or(U&& other) && {
    return ok() ? *std::move(value_) : static_cast<T>(std::forward<U>(other));
  }

  friend bool operator==(const StatusOr& a, const StatusOr& b) {
    return a.value_ == b.value_ && a.status_ == b.status_;
  }

 private:
  template <typename Self>
  static auto& Checked(Self& self) {
    if (!self.value_) internal::ThrowNoValue(self.status_);
    return *self.value_;
  }

  std::optional<T> value_;
  Status status_;  ///< OK exactly when there is a value.
};

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
  std::ostringstream words;
  (words << ... << context);
  return AnnotateWith(status, words.str());
}

inline std::string_view Message(const Status& status) { return status.message(); }

}  // namespace quire

#define QUIRE_CONCAT_INNER_(a, b) a##b
#define QUIRE_CONCAT_(a, b) QUIRE_CONCAT_INNER_(a, b)

/// Returns from the enclosing function when `expression` is a status that is not OK.
#define QUIRE_RETURN_IF_ERROR(expression)                                                        \
  do {                                                                                           \
    if (::quire::Status quire_status_ = (expression); !quire_status_.ok()) return quire_status_; \
  } while (false)

/// `QUIRE_ASSIGN_OR_RETURN(auto x, StatusOrCall());`
#define QUIRE_ASSIGN_OR_RETURN(target, expression) \
  QUIRE_ASSIGN_OR_RETURN_INNER_(QUIRE_CONCAT_(quire_or_, __LINE__), target, expression)
#define QUIRE_ASSIGN_OR_RETURN_INNER_(or_value, target, expression) \
  auto or_value = (expression);                                     \
  if (!or_value.ok()) return or_value.status();                     \
  target = *std::move(or_value)

#endif  // QUIRE_STATUS_H_
