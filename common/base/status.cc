// SPDX-License-Identifier: Apache-2.0
#include "quire/status.h"

#include <array>
#include <ostream>
#include <stdexcept>
#include <vector>

namespace quire {
namespace {

constexpr std::array<std::string_view, 17> kCodeNames = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

}  // namespace

struct Status::Error {
  StatusCode code = StatusCode::kUnknown;
  std::string message;
  std::vector<std::pair<std::string, std::string>> marks = {};  ///< Name and value; few.
  friend bool operator==(const Error&, const Error&) = default;
};

std::string Name(StatusCode code) {
  const auto number = static_cast<size_t>(code);
  return number < kCodeNames.size() ? std::string(kCodeNames[number]) : std::string();
}

Status::Status(StatusCode code, std::string_view message) {
  if (code == StatusCode::kOk) return;
  error_ = std::make_shared<const Error>(Error{code, std::string(message)});
}

StatusCode Status::code() const { return ok() ? StatusCode::kOk : error_->code; }

std::string_view Status::message() const {
  return ok() ? std::string_view() : std::string_view(error_->message);
}

std::string Status::ToString() const {
  return ok() ? "OK" : Name(error_->code) + ": " + error_->message;
}

void Status::SetMark(std::string_view name, std::string value) {
  if (ok()) return;
  Error error = *error_;
  std::erase_if(error.marks, [&](const auto& mark) { return mark.first == name; });
  error.marks.emplace_back(name, std::move(value));
  error_ = std::make_shared<const Error>(std::move(error));
}

std::optional<std::string> Status::Mark(std::string_view name) const {
  if (ok()) return std::nullopt;
  for (const auto& [known, value] : error_->marks) {
    if (known == name) return value;
  }
  return std::nullopt;
}

bool operator==(const Status& a, const Status& b) {
  if (a.error_ == b.error_) return true;
  return !a.ok() && !b.ok() && *a.error_ == *b.error_;
}

std::ostream& operator<<(std::ostream& out, const Status& status) {
  return out << status.ToString();
}

Status AnnotateWith(const Status& status, std::string_view context) {
  if (status.ok()) return status;
  auto error = std::make_shared<Status::Error>(*status.error_);
  error->message = std::string(context) + ": " + error->message;
  Status annotated;
  annotated.error_ = std::move(error);
  return annotated;
}

namespace internal {

void ThrowNoValue(const Status& status) {
  throw std::logic_error("a value was taken of an error: " + status.ToString());
}

Status MustBeError(Status status) {
  return status.ok() ? Internal("an OK status in the place of a value") : status;
}

}  // namespace internal
}  // namespace quire
