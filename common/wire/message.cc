// SPDX-License-Identifier: Apache-2.0
#include "common/wire/message.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <climits>
#include <map>
#include <optional>
#include <set>

#include "common/base/threads/mutex.h"
#include "common/base/utf8.h"

namespace quire::wire {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

/// Adds the types that a message of `type` can contain, itself included.
void AddTypes(const Descriptor* type, std::set<const Descriptor*>* types) {
  if (!types->insert(type).second) return;
  for (int i = 0; i < type->field_count(); ++i) {
    if (const Descriptor* const inner = type->field(i)->message_type()) AddTypes(inner, types);
  }
}

bool HasStringFields(const Descriptor* type) {
  std::set<const Descriptor*> types;
  AddTypes(type, &types);
  for (const Descriptor* const each : types) {
    for (int i = 0; i < each->field_count(); ++i) {
      if (each->field(i)->type() == FieldDescriptor::TYPE_STRING) return true;
    }
  }
  return false;
}

/// The types that can hold text. Most messages of a decode step cannot, and are not walked.
class TextTypes {
 public:
  bool CanHoldText(const Descriptor* type) {
    MutexLock lock(mutex_);
    const auto known = known_.find(type);
    if (known != known_.end()) return known->second;
    return known_.emplace(type, HasStringFields(type)).first->second;
  }

 private:
  Mutex mutex_;
  std::map<const Descriptor*, bool> known_ QUIRE_GUARDED_BY(mutex_);
};

TextTypes& Types() {
  static auto* const types = new TextTypes;
  return *types;
}

Status CheckMessage(const Message& message, const std::string& at);

std::string Place(const std::string& at, const FieldDescriptor& field, std::optional<int> index) {
  std::string place = at + field.name();
  if (index) place += "[" + std::to_string(*index) + "]";
  return place;
}

/// One value of a field; in a list the one at `index`.
Status CheckValue(const Message& message, const FieldDescriptor& field, std::optional<int> index,
                  const std::string& at) {
  const Reflection& reflection = *message.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    const Message& inner = index ? reflection.GetRepeatedMessage(message, &field, *index)
                                 : reflection.GetMessage(message, &field);
    return CheckMessage(inner, Place(at, field, index) + ".");
  }
  std::string scratch;
  const std::string& text =
      index ? reflection.GetRepeatedStringReference(message, &field, *index, &scratch)
            : reflection.GetStringReference(message, &field, &scratch);
  const std::optional<size_t> wrong = FirstInvalidUtf8(text);
  if (!wrong) return OkStatus();
  return InvalidArgument(Place(at, field, index), " is not UTF-8 at byte ", *wrong);
}

Status CheckField(const Message& message, const FieldDescriptor& field, const std::string& at) {
  const bool message_type = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (!message_type && field.type() != FieldDescriptor::TYPE_STRING) return OkStatus();
  if (message_type && !Types().CanHoldText(field.message_type())) return OkStatus();
  const Reflection& reflection = *message.GetReflection();
  if (!field.is_repeated()) {
    const bool given = !field.has_presence() || reflection.HasField(message, &field);
    return given ? CheckValue(message, field, std::nullopt, at) : OkStatus();
  }
  const int count = reflection.FieldSize(message, &field);
  for (int i = 0; i < count; ++i) {
    QUIRE_RETURN_IF_ERROR(CheckValue(message, field, i, at));
  }
  return OkStatus();
}

Status CheckMessage(const Message& message, const std::string& at) {
  const Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    QUIRE_RETURN_IF_ERROR(CheckField(message, *type.field(i), at));
  }
  return OkStatus();
}

}  // namespace

Status CheckText(const Message& message) {
  if (!Types().CanHoldText(message.GetDescriptor())) return OkStatus();
  return CheckMessage(message, "");
}

Status Encode(const Message& message, std::string* bytes) {
  QUIRE_RETURN_IF_ERROR(CheckText(message));
  if (message.SerializeToString(bytes)) return OkStatus();
  return InvalidArgument("a ", message.GetTypeName(), " is larger than 2 GiB; send less at a time");
}

Status Decode(std::string_view bytes, Message* message) {
  const bool fits = bytes.size() <= INT_MAX;
  if (fits && message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return OkStatus();
  }
  return Internal("what came is no ", message->GetTypeName(),
                  "; check that client and server are of the same version");
}

}  // namespace quire::wire
