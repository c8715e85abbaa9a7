// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/checkpoint/pytorch/tensor_pickle.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace quire::worker {
namespace {

constexpr size_t kMostValues = 1 << 18;
constexpr size_t kMostRank = 8;

/// Opcodes of protocol 2.
enum Op : uint8_t {
  kMark = '(',
  kStop = '.',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong1 = 0x8a,
  kNone = 'N',
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kBinUnicode = 'X',
  kBuild = 'b',
  kEmptyDict = '}',
  kSetItem = 's',
  kSetItems = 'u',
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kGlobal = 'c',
  kReduce = 'R',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPersId = 'Q',
  kProto = 0x80
};

/// Meaning of a name of the pickle.
enum class PickledName : uint8_t { kOrderedDict, kRebuildTensor, kRebuildParameter, kStorage };
struct KnownName {
  std::string_view name;
  PickledName known;
  TensorType type = TensorType::kF32;  ///< Type of a storage.
};
constexpr KnownName kKnownNames[] = {
    {"collections OrderedDict", PickledName::kOrderedDict},
    {"torch._utils _rebuild_tensor_v2", PickledName::kRebuildTensor},
    {"torch._utils _rebuild_parameter", PickledName::kRebuildParameter},
    {"torch FloatStorage", PickledName::kStorage, TensorType::kF32},
    {"torch DoubleStorage", PickledName::kStorage, TensorType::kF64},
    {"torch HalfStorage", PickledName::kStorage, TensorType::kF16},
    {"torch BFloat16Storage", PickledName::kStorage, TensorType::kBF16},
    {"torch LongStorage", PickledName::kStorage, TensorType::kI64},
    {"torch IntStorage", PickledName::kStorage, TensorType::kI32},
    {"torch ShortStorage", PickledName::kStorage, TensorType::kI16},
    {"torch CharStorage", PickledName::kStorage, TensorType::kI8},
    {"torch ByteStorage", PickledName::kStorage, TensorType::kU8},
    {"torch BoolStorage", PickledName::kStorage, TensorType::kBool}};

/// A value of the program. Others are referred to by their index, so that values may repeat.
struct Value {
  enum class Kind : uint8_t { kNone, kNumber, kText, kTuple, kDict, kName, kStorage, kTensor };
  Kind kind = Kind::kNone;
  int64_t number = 0;                ///< A kNumber; truth values are 0 and 1.
  std::string text = {};             ///< A kText, or the name of a kStorage.
  const KnownName* name = nullptr;   ///< A kName, or the type of a kStorage.
  std::vector<uint32_t> items = {};  ///< Items of a kTuple; keys and values in turn of a kDict.
  PickledTensor tensor = {};         ///< A kTensor.
};
using Kind = Value::Kind;

class Unpickler {
 public:
  Unpickler(std::span<const std::byte> bytes, const std::string& file)
      : bytes_(bytes), file_(file) {}

  StatusOr<std::vector<PickledTensor>> Run() {
    if (bytes_.size() > kMaxPickleBytes) {
      return Error("has ", bytes_.size(), " bytes, more than the ", kMaxPickleBytes, " read here");
    }
    for (bool stopped = false; !stopped;) {
      QUIRE_ASSIGN_OR_RETURN(const uint64_t op, Number(1));
      stopped = op == kStop;
      if (!stopped) QUIRE_RETURN_IF_ERROR(Step(static_cast<uint8_t>(op)));
      if (values_.size() > kMostValues || stack_.size() > kMostValues) {
        return Error("makes more than ", kMostValues, " values");
      }
    }
    return Tensors();
  }

 private:
  template <typename... Parts>
  Status Error(const Parts&... what) const {
    return InvalidArgument(file_, ": its pickle ", what...);
  }
  Status Damaged() const { return Error("is damaged, near byte ", at_); }

  // Input.

  StatusOr<uint64_t> Number(size_t width) {
    if (width > bytes_.size() - at_) return Error("ends early");
    uint64_t value = 0;
    std::memcpy(&value, bytes_.data() + at_, width);  // Little endian, as the machine.
    at_ += width;
    return value;
  }
  StatusOr<std::string> Text(uint64_t size) {
    if (size > bytes_.size() - at_) return Error("ends early");
    std::string text(reinterpret_cast<const char*>(bytes_.data()) + at_, size);
    at_ += size;
    return text;
  }
  StatusOr<std::string> Line() {
    const auto rest = bytes_.subspan(at_);
    const auto end = std::ranges::find(rest, std::byte{'\n'});
    if (end == rest.end()) return Error("ends early");
    QUIRE_ASSIGN_OR_RETURN(std::string line, Text(static_cast<uint64_t>(end - rest.begin())));
    ++at_;
    return line;
  }

  // The stack.

  Status Push(Value value) {
    stack_.push_back(static_cast<uint32_t>(values_.size()));
    values_.push_back(std::move(value));
    return OkStatus();
  }
  /// Least height of the stack that an instruction may leave: values below belong to a mark.
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  StatusOr<uint32_t> Pop() {
    if (stack_.size() <= floor()) return Damaged();
    const uint32_t top = stack_.back();
    stack_.pop_back();
    return top;
  }
  /// The values above the last mark, which goes.
  StatusOr<std::vector<uint32_t>> PopToMark() {
    if (marks_.empty()) return Damaged();
    const auto first = stack_.begin() + static_cast<ptrdiff_t>(marks_.back());
    std::vector<uint32_t> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return items;
  }
  StatusOr<std::vector<uint32_t>> PopSome(size_t count) {
    if (stack_.size() < floor() + count) return Damaged();
    const auto first = stack_.end() - static_cast<ptrdiff_t>(count);
    std::vector<uint32_t> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    return items;
  }

  // Instructions.

  Status Step(uint8_t op) {
    switch (op) {
      case kProto:
        return Protocol();
      case kMark:
        marks_.push_back(stack_.size());
        return marks_.size() > kMostValues ? Damaged() : OkStatus();
      case kNone:
        return Push({});
      case kNewTrue:
      case kNewFalse:
        return Push({.kind = Kind::kNumber, .number = op == kNewTrue ? 1 : 0});
      case kBinInt1:
      case kBinInt2:
      case kBinInt:
      case kLong1:
        return Integer(op);
      case kBinUnicode:
        return Unicode();
      case kGlobal:
        return Global();
      case kBinPersId:
        return PersistentId();
      case kReduce:
        return Reduce();
      default:
        return StepOfContainers(op);
    }
  }

  Status StepOfContainers(uint8_t op) {
    switch (op) {
      case kEmptyDict:
        return Push({.kind = Kind::kDict});
      case kSetItem:
        return SetItems(PopSome(2));
      case kSetItems:
        return SetItems(PopToMark());
      case kBuild:
        return Build();
      case kEmptyTuple:
        return Push({.kind = Kind::kTuple});
      case kTuple:
        return Tuple(PopToMark());
      case kTuple1:
      case kTuple2:
      case kTuple3:
        return Tuple(PopSome(op - kTuple1 + 1u));
      case kBinPut:
      case kLongBinPut:
        return Put(op == kBinPut ? 1 : 4);
      case kBinGet:
      case kLongBinGet:
        return Get(op == kBinGet ? 1 : 4);
      default:
        return Error("has the instruction ", int{op}, " at byte ", at_ - 1,
                     ", which no dictionary of tensors needs; save the state_dict of the model, or "
                     "convert it to model.safetensors");
    }
  }

  Status Protocol() {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t version, Number(1));
    if (version == 2) return OkStatus();
    return Error("is of protocol ", version, "; 2 is read here, torch.save's default");
  }
  Status Integer(uint8_t op) {
    if (op == kBinInt1 || op == kBinInt2) {
      QUIRE_ASSIGN_OR_RETURN(const uint64_t value, Number(op == kBinInt1 ? 1 : 2));
      return Push({.kind = Kind::kNumber, .number = static_cast<int64_t>(value)});
    }
    if (op == kBinInt) {
      QUIRE_ASSIGN_OR_RETURN(const uint64_t value, Number(4));
      return Push({.kind = Kind::kNumber, .number = static_cast<int32_t>(value)});
    }
    QUIRE_ASSIGN_OR_RETURN(const uint64_t width, Number(1));
    if (width > 8) return Error("has a number of ", width, " bytes");
    QUIRE_ASSIGN_OR_RETURN(uint64_t value, Number(width));
    const bool negative = width > 0 && width < 8 && (value >> (8 * width - 1)) != 0;
    if (negative) value |= ~uint64_t{0} << (8 * width);
    return Push({.kind = Kind::kNumber, .number = static_cast<int64_t>(value)});
  }
  Status Unicode() {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t size, Number(4));
    QUIRE_ASSIGN_OR_RETURN(std::string text, Text(size));
    return Push({.kind = Kind::kText, .text = std::move(text)});
  }
  Status Global() {
    QUIRE_ASSIGN_OR_RETURN(const std::string module, Line());
    QUIRE_ASSIGN_OR_RETURN(const std::string name, Line());
    const std::string whole = module + " " + name;
    const auto* const known = std::ranges::find(kKnownNames, whole, &KnownName::name);
    if (known != std::end(kKnownNames)) return Push({.kind = Kind::kName, .name = known});
    return Error("names ", module, ".", name,
                 ", which is code that is not run here; save the state_dict of the model, or "
                 "convert it to model.safetensors");
  }
  Status Tuple(StatusOr<std::vector<uint32_t>> items) {
    QUIRE_RETURN_IF_ERROR(items.status());
    return Push({.kind = Kind::kTuple, .items = *std::move(items)});
  }
  /// Adds pairs to the dictionary below them.
  Status SetItems(StatusOr<std::vector<uint32_t>> pairs) {
    QUIRE_RETURN_IF_ERROR(pairs.status());
    if (stack_.size() <= floor() || pairs->size() % 2 != 0) return Damaged();
    Value& dict = values_[stack_.back()];
    if (dict.kind != Kind::kDict) return Damaged();
    if (dict.items.size() + pairs->size() > 2 * kMostValues) return Damaged();
    dict.items.insert(dict.items.end(), pairs->begin(), pairs->end());
    return OkStatus();
  }
  /// Attributes of a dictionary, which say nothing about tensors.
  Status Build() {
    QUIRE_ASSIGN_OR_RETURN(const uint32_t attributes, Pop());
    if (stack_.size() <= floor() || values_[attributes].kind != Kind::kDict ||
        values_[stack_.back()].kind != Kind::kDict) {
      return Error("builds an object; save the state_dict of the model alone");
    }
    return OkStatus();
  }
  Status Put(size_t width) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t place, Number(width));
    if (stack_.size() <= floor() || place >= kMostValues) return Damaged();
    memo_[place] = stack_.back();
    return OkStatus();
  }
  Status Get(size_t width) {
    QUIRE_ASSIGN_OR_RETURN(const uint64_t place, Number(width));
    const auto found = memo_.find(place);
    if (found == memo_.end()) return Damaged();
    stack_.push_back(found->second);
    return OkStatus();
  }

  // Calls of names.

  /// The value `index` of `items`, if it is of `kind`; else null.
  const Value* Item(const std::vector<uint32_t>& items, size_t index, Kind kind) const {
    if (index >= items.size() || values_[items[index]].kind != kind) return nullptr;
    return &values_[items[index]];
  }

  /// ('storage', type, name, device, elements)
  Status PersistentId() {
    QUIRE_ASSIGN_OR_RETURN(const uint32_t id, Pop());
    const std::vector<uint32_t> items = values_[id].items;
    const Value* const kind = Item(items, 0, Kind::kText);
    const Value* const type = Item(items, 1, Kind::kName);
    const Value* const name = Item(items, 2, Kind::kText);
    const Value* const elements = Item(items, 4, Kind::kNumber);
    const bool whole = values_[id].kind == Kind::kTuple && items.size() == 5 && kind != nullptr &&
                       kind->text == "storage" && type != nullptr && name != nullptr &&
                       type->name->known == PickledName::kStorage && elements != nullptr &&
                       elements->number >= 0;
    if (!whole) return Error("refers to something that is no storage of numbers");
    return Push({.kind = Kind::kStorage,
                 .number = elements->number,
                 .text = std::string(name->text),
                 .name = type->name});
  }

  Status Reduce() {
    QUIRE_ASSIGN_OR_RETURN(const std::vector<uint32_t> call, PopSome(2));
    const Value* const name = Item(call, 0, Kind::kName);
    const Value* const arguments = Item(call, 1, Kind::kTuple);
    if (name == nullptr || arguments == nullptr) return Damaged();
    switch (name->name->known) {
      case PickledName::kOrderedDict:
        return arguments->items.empty() ? Push({.kind = Kind::kDict}) : Damaged();
      case PickledName::kRebuildTensor:
        return Rebuild(arguments->items);
      case PickledName::kRebuildParameter:
        if (Item(arguments->items, 0, Kind::kTensor) == nullptr) return Damaged();
        stack_.push_back(arguments->items[0]);
        return OkStatus();
      case PickledName::kStorage:
        return Error("makes a storage of its own");
    }
    return Damaged();
  }

  /// Numbers of a tuple, none below zero.
  std::optional<std::vector<uint64_t>> Numbers(const Value* tuple) const {
    if (tuple == nullptr || tuple->items.size() > kMostRank) return std::nullopt;
    std::vector<uint64_t> numbers;
    for (size_t i = 0; i < tuple->items.size(); ++i) {
      const Value* const number = Item(tuple->items, i, Kind::kNumber);
      if (number == nullptr || number->number < 0) return std::nullopt;
      numbers.push_back(static_cast<uint64_t>(number->number));
    }
    return numbers;
  }

  /// (storage, offset, sizes, strides, wants a gradient, hooks)
  Status Rebuild(std::vector<uint32_t> items) {
    const Value* const storage = Item(items, 0, Kind::kStorage);
    const Value* const offset = Item(items, 1, Kind::kNumber);
    const auto sizes = Numbers(Item(items, 2, Kind::kTuple));
    const auto strides = Numbers(Item(items, 3, Kind::kTuple));
    if (storage == nullptr || offset == nullptr || offset->number < 0 || !sizes || !strides ||
        sizes->size() != strides->size()) {
      return Error("has a tensor that cannot be read, near byte ", at_);
    }
    PickledTensor tensor{.type = storage->name->type,
                         .storage = storage->text,
                         .storage_elements = static_cast<uint64_t>(storage->number),
                         .offset = static_cast<uint64_t>(offset->number),
                         .shape = *sizes};
    QUIRE_RETURN_IF_ERROR(CheckPlace(tensor, *strides));
    return Push({.kind = Kind::kTensor, .tensor = std::move(tensor)});
  }

  /// Checks that a tensor lies within its storage, without gaps.
  Status CheckPlace(const PickledTensor& tensor, const std::vector<uint64_t>& strides) const {
    const uint64_t all = tensor.storage_elements;
    uint64_t elements = 1;
    for (size_t i = tensor.shape.size(); i-- > 0;) {
      if (tensor.shape[i] > 1 && strides[i] != std::max<uint64_t>(elements, 1)) {
        return Error("has a tensor of shape ", ShapeText(tensor.shape),
                     " whose rows do not follow each other; save it with .contiguous()");
      }
      if (tensor.shape[i] != 0 && elements > all / tensor.shape[i]) elements = all + 1;
      if (elements > all) break;
      elements *= tensor.shape[i];
    }
    if (elements <= all && tensor.offset <= all - elements) return OkStatus();
    return Error("has a tensor of shape ", ShapeText(tensor.shape), " at element ", tensor.offset,
                 " of a storage of ", all);
  }

  StatusOr<std::vector<PickledTensor>> Tensors() const {
    const bool alone = stack_.size() == 1 && marks_.empty() && at_ == bytes_.size();
    if (!alone || values_[stack_.front()].kind != Kind::kDict) {
      return Error(
          "holds something else than a dictionary of tensors; save the state_dict of the "
          "model");
    }
    std::map<std::string, const Value*> named;
    const std::vector<uint32_t>& items = values_[stack_.front()].items;
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      const Value* const name = Item(items, i, Kind::kText);
      if (name == nullptr) return Error("has a key that is no text");
      const Value* const tensor = Item(items, i + 1, Kind::kTensor);
      if (tensor == nullptr) {
        return Error("has the entry ", name->text,
                     ", which is no tensor; save the state_dict of the model");
      }
      named[name->text] = tensor;
    }
    std::vector<PickledTensor> tensors;
    for (const auto& [name, value] : named) {
      tensors.push_back(value->tensor);
      tensors.back().name = name;
    }
    return tensors;
  }

  const std::span<const std::byte> bytes_;
  const std::string& file_;
  size_t at_ = 0;
  std::vector<Value> values_;
  std::vector<uint32_t> stack_;
  std::vector<size_t> marks_;  ///< Heights of the stack.
  std::map<uint64_t, uint32_t> memo_;
};

}  // namespace

StatusOr<std::vector<PickledTensor>> ParseTensorPickle(std::span<const std::byte> bytes,
                                                       const std::string& file) {
  return Unpickler(bytes, file).Run();
}

}  // namespace quire::worker
