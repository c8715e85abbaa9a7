// SPDX-License-Identifier: Apache-2.0
//
// Statuses as Python exceptions. This is the only part of Quire that throws, since a binding
// reports errors to the interpreter in no other way. quire/errors.py has the classes.
#ifndef QUIRE_PYTHON_NATIVE_ERRORS_H_
#define QUIRE_PYTHON_NATIVE_ERRORS_H_

#include <nanobind/nanobind.h>

#include <exception>
#include <string>
#include <utility>

#include "quire/status.h"

namespace quire::python {

/// An error on its way to Python.
class StatusError final : public std::exception {
 public:
  explicit StatusError(Status status) : status_(std::move(status)), text_(status_.ToString()) {}
  const Status& status() const { return status_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  Status status_;
  std::string text_;
};

/// Throws an error. Needs no GIL.
inline void Check(const Status& status) {
  if (!status.ok()) throw StatusError(status);
}
/// The value, or a throw.
template <typename T>
[[nodiscard]] T Take(StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}

/// Runs `call`, which touches no Python object, while other threads of Python run. The GIL is held
/// again when it returns or throws.
template <typename Call>
auto WithoutGil(Call&& call) {
  const nanobind::gil_scoped_release released;
  return std::forward<Call>(call)();
}

/// Makes StatusErrors exceptions of quire/errors.py.
void TranslateErrors();

}  // namespace quire::python

#endif  // QUIRE_PYTHON_NATIVE_ERRORS_H_
