// SPDX-License-Identifier: Apache-2.0
#include "client/routing/document_places.h"

#include <variant>
#include <vector>

namespace quire::internal {

DocumentPlaces::Choice DocumentPlaces::ChoiceOf(const DocumentName& name,
                                                const std::optional<NodeChoice::Node>& known) {
  const DocumentKey key(name.collection, name.name, name.version);
  if (const Choice* const found = documents_.Find(key)) return *found;
  auto made =
      std::make_shared<NodeChoice>(router_, std::vector<DocumentName>{name}, &clock_, known);
  documents_.Put(key, made);
  return made;
}

StatusOr<DocumentPlaces::Choice> DocumentPlaces::ChoiceOf(const ContextRef& context) {
  MutexLock lock(mutex_);
  if (const auto* const name = std::get_if<DocumentName>(&context)) return ChoiceOf(*name);
  const auto* const chain = std::get_if<SegmentKey>(&context);
  const Choice* const found = chain == nullptr ? nullptr : chains_.Find(*chain);
  if (found != nullptr) return *found;
  return NotFound("it is not known which node of the cluster has ",
                  chain == nullptr ? "the open context" : "chain " + chain->Hex(),
                  "; ask for its document by name first");
}

StatusOr<std::string> DocumentPlaces::Find(const ContextRef& context, Duration timeout) {
  if (const auto* const id = std::get_if<uint64_t>(&context)) {
    MutexLock lock(mutex_);
    const auto found = contexts_.find(*id);
    if (found != contexts_.end()) return found->second;
  }
  QUIRE_ASSIGN_OR_RETURN(const Choice choice, ChoiceOf(context));
  QUIRE_ASSIGN_OR_RETURN(NodeChoice::Node node, choice->Current(timeout));
  return std::move(node.address);
}

void DocumentPlaces::NoteChain(const SegmentKey& chain_tip, const DocumentName& name) {
  MutexLock lock(mutex_);
  chains_.Put(chain_tip, ChoiceOf(name));
}

void DocumentPlaces::NoteFound(const std::string& address, const DocumentName& found,
                               const SegmentKey& chain_tip) {
  auto transport = router_->ConnectTo(address);
  if (!transport.ok()) return;
  MutexLock lock(mutex_);
  chains_.Put(chain_tip, ChoiceOf(found, NodeChoice::Node{address, *std::move(transport)}));
}

void DocumentPlaces::NoteContext(uint64_t id, std::string address) {
  MutexLock lock(mutex_);
  contexts_[id] = std::move(address);
}

void DocumentPlaces::ForgetContext(uint64_t id) {
  MutexLock lock(mutex_);
  contexts_.erase(id);
}

void DocumentPlaces::NoteEnd(const std::string& address, const Status& status) {
  if (!NodeChoice::IsFailure(status)) return;
  const NodeChoice::Node node{address, nullptr};
  const auto note = [&](const Choice& choice) { choice->Note(node, status); };
  MutexLock lock(mutex_);
  documents_.VisitAll(note);
  chains_.VisitAll(note);
}

void DocumentPlaces::NoteEndOf(const ContextRef& context, const std::string& address,
                               const Status& status) {
  if (status.ok()) return;
  if (NodeChoice::IsFailure(status)) return NoteEnd(address, status);
  const StatusOr<Choice> choice = ChoiceOf(context);
  if (choice.ok()) (*choice)->Note({address, nullptr}, status);
}

}  // namespace quire::internal
