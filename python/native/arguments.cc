// SPDX-License-Identifier: Apache-2.0
#include "python/native/arguments.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>

#include "python/native/context.h"
#include "python/native/errors.h"
#include "python/native/host_array.h"

namespace quire::python {
namespace {

namespace nb = nanobind;

/// Longer times are as good as endless, and would not fit.
constexpr double kLongestSeconds = 1e9;

bool IsNumber(nb::handle value) { return PyIndex_Check(value.ptr()) != 0; }

/// Integers of 32 bits of an array, or of a sequence of Python.
template <typename T>
std::vector<T> IntegersOf(nb::handle values, std::string_view what) {
  if (PyObject_CheckBuffer(values.ptr()) != 0 || nb::hasattr(values, "__dlpack__")) {
    return HostArray(values, what, HostArray::Use::kRead).Integers<T>();
  }
  std::vector<T> integers;
  if (!nb::try_cast(values, integers)) {
    throw StatusError(InvalidArgument(
        what, ": give a sequence or an array of integers of 32 bits, of one dimension"));
  }
  return integers;
}

}  // namespace

SegmentKey KeyOf(nb::handle key) {
  if (PyBytes_Check(key.ptr()) != 0) {
    const std::string_view raw(PyBytes_AS_STRING(key.ptr()),
                               static_cast<size_t>(PyBytes_GET_SIZE(key.ptr())));
    if (const auto parsed = SegmentKey::FromBytes(raw)) return *parsed;
  }
  throw StatusError(InvalidArgument("a key is 32 bytes, as chain_tip and segment_keys have them"));
}

nb::bytes BytesOf(const SegmentKey& key) { return nb::bytes(key.bytes.data(), key.bytes.size()); }

nb::list BytesOfAll(const std::vector<SegmentKey>& keys) {
  nb::list all;
  for (const SegmentKey& key : keys) all.append(BytesOf(key));
  return all;
}

DocumentName DocumentOf(nb::handle document) {
  if (nb::isinstance<DocumentName>(document)) return nb::cast<const DocumentName&>(document);
  if (PyUnicode_Check(document.ptr()) == 0) {
    throw StatusError(InvalidArgument("a document is named by a string or a DocumentName"));
  }
  return DocumentName{.name = nb::cast<std::string>(document)};
}

ContextRef ContextOf(nb::handle context) {
  if (PyBytes_Check(context.ptr()) != 0) return KeyOf(context);
  if (nb::isinstance<Context>(context)) return nb::cast<const Context&>(context).id();
  if (PyUnicode_Check(context.ptr()) != 0 || nb::isinstance<DocumentName>(context)) {
    return DocumentOf(context);
  }
  throw StatusError(InvalidArgument(
      "a context is named by a document's name, a DocumentName, a chain's last key (bytes) or an "
      "open Context"));
}

std::vector<TokenId> TokensOf(nb::handle tokens) { return IntegersOf<TokenId>(tokens, "tokens"); }

std::vector<uint32_t> NumbersOf(nb::handle numbers, std::string_view what) {
  return IntegersOf<uint32_t>(numbers, what);
}

PageLists PagesOf(nb::handle pages, uint32_t heads) {
  // An array of two dimensions has a row for each head, and its rows are arrays.
  const bool is_sequence = PySequence_Check(pages.ptr()) != 0;
  const Py_ssize_t size = is_sequence ? PySequence_Size(pages.ptr()) : -1;
  if (size < 0) {
    PyErr_Clear();
    throw StatusError(
        InvalidArgument("pages: give a sequence of numbers, or one for each KV head"));
  }
  PageLists lists;
  if (size == 0 || IsNumber(nb::object(pages[0]))) {
    lists.AppendHead(NumbersOf(pages, "pages"));
    for (uint32_t head = 1; head < heads; ++head) lists.RepeatHead();
    return lists;
  }
  for (Py_ssize_t head = 0; head < size; ++head) {
    lists.AppendHead(NumbersOf(nb::object(pages[head]), "pages"));
  }
  return lists;
}

Duration SecondsOf(std::optional<double> seconds, Duration none) {
  if (!seconds) return none;
  if (std::isnan(*seconds) || *seconds < 0) {
    throw StatusError(InvalidArgument("a time is a number of seconds, not negative"));
  }
  const std::chrono::duration<double> time(std::min(*seconds, kLongestSeconds));
  return std::chrono::duration_cast<Duration>(time);
}

}  // namespace quire::python
