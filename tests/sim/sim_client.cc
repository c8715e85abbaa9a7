// SPDX-License-Identifier: Apache-2.0
//
// Clients of a simulated cluster. They route as the client library does: puts go to the nearest
// owner that is up, reads to the nearest members first. A document is absent only when every member
// says so.
#include <optional>
#include <utility>

#include "cluster/placement/placement.h"
#include "tests/sim/sim_content.h"
#include "tests/sim/sim_world.h"

namespace quire::sim {
namespace {

constexpr uint64_t kNumNames = 6;
constexpr double kThinkSeconds = 0.7;
constexpr double kHotPauseSeconds = 0.04;
constexpr Duration kViewAge = std::chrono::seconds(2);
constexpr SimCall kOnce = {.timeout = std::chrono::seconds(10), .may_repeat = false};

class SimClient {
 public:
  SimClient(SimWorld* world, uint32_t number)
      : world_(*world), self_("client-" + std::to_string(number)), number_(number) {}

  void Run() {
    while (world_.GoesOn()) {
      world_.scheduler.Sleep(world_.About(kThinkSeconds));
      const uint64_t choice = world_.scheduler.random().Below(100);
      if (choice < 40) {
        Put();
      } else if (choice < 75) {
        Read();
      } else if (choice < 85) {
        SetTag();
      } else {
        Delete(choice < 95);
      }
    }
  }

  /// Reads the first document that was acknowledged, and another one when it is gone.
  void RunHot() {
    while (world_.GoesOn()) {
      world_.scheduler.Sleep(world_.About(kHotPauseSeconds));
      if (const auto wanted = world_.history.Any(hot_)) ReadHot({.name = wanted->name});
    }
  }

 private:
  /// Calls a node, which is found by its name when the call arrives.
  template <typename Reply>
  StatusOr<Reply> Ask(const std::string& node, std::function<StatusOr<Reply>(SimNode&)> call) {
    return world_.network.Call<Reply>(self_, node, kOnce,
                                      [world = &world_, node, call]() -> StatusOr<Reply> {
                                        for (const auto& candidate : world->nodes) {
                                          if (candidate->name() == node) return call(*candidate);
                                        }
                                        return Unavailable("there is no node ", node);
                                      });
  }

  /// The view of any node that has a current one.
  StatusOr<std::shared_ptr<const cluster::ClusterView>> View() {
    QUIRE_ASSIGN_OR_RETURN(auto view,
                           Ask<cluster::ClusterView>(world_.AnyNode().name(),
                                                     [](SimNode& node) { return node.View(); }));
    return std::make_shared<const cluster::ClusterView>(std::move(view));
  }

  DocumentName AnyName() {
    return {.name = "name-" + std::to_string(world_.scheduler.random().Below(kNumNames))};
  }
  static cluster::PlacementKey KeyOf(const DocumentName& name) {
    return cluster::KeyOfDocument(kSimTenant, name.collection, name.name);
  }
  /// The nearest owner of a name that is up.
  StatusOr<std::string> OwnerOf(const DocumentName& name) {
    QUIRE_ASSIGN_OR_RETURN(const auto view, View());
    const auto owners = cluster::Placement(view).OwnersOf(KeyOf(name), 1);
    if (owners.members.empty()) return Unavailable("no node is up");
    return view->members[owners.members[0]].name;
  }

  void Put() {
    const DocumentName name = AnyName();
    const auto owner = OwnerOf(name);
    if (!owner.ok()) return;
    // Contents are few, so that several documents have the same segments.
    const uint64_t content = world_.scheduler.random().Below(64) * 8 + number_ % 8;
    const SegmentKey tip = TipOf(content);
    world_.contents[tip] = content;
    const size_t registration =
        world_.history.BeginRegister(name.name, tip, world_.scheduler.Now());
    const auto put =
        Ask<Document>(*owner, [name, content](SimNode& node) { return node.Put(name, content); });
    if (!put.ok()) return;
    world_.history.EndRegister(registration, put->name.version, world_.scheduler.Now());
  }

  /// Reads once from all members in turn. NOT_FOUND only when every member says so.
  StatusOr<Document> ReadOnce(const DocumentName& name) {
    QUIRE_ASSIGN_OR_RETURN(const auto view, View());
    Status absent = NotFound("no member has it");
    const auto order = cluster::Placement(view).MayHold(KeyOf(name));
    if (order.empty()) return Unavailable("there are no members");
    for (const uint32_t member : order) {
      auto read = Ask<Document>(view->members[member].name,
                                [this, name](SimNode& node) { return ReadAt(node, name); });
      if (read.ok()) return read;
      if (!IsNotFound(read.status())) absent = Unavailable("a member is silent");
    }
    return absent;
  }

  /// Reads a document of a node with all its pages.
  StatusOr<Document> ReadAt(SimNode& node, const DocumentName& name) {
    QUIRE_ASSIGN_OR_RETURN(const Document document, node.Read(name));
    const auto content = world_.contents.find(document.chain_tip);
    if (content == world_.contents.end()) {
      world_.history.Break("a read of " + name.name + " found a chain that nobody put");
      return document;
    }
    const Status pages = node.CheckPages(document, content->second);
    if (IsDataLoss(pages)) world_.history.Break(pages.ToString());
    QUIRE_RETURN_IF_ERROR(pages);
    return document;
  }

  void Read() {
    const auto wanted = world_.history.Any(world_.scheduler.random().Next());
    if (!wanted) return;
    const DocumentName name = {.name = wanted->name, .version = wanted->version};
    const TimePoint began = world_.scheduler.Now();
    auto read = ReadOnce(name);
    // It may have moved between the answers of two members.
    if (IsNotFound(read.status())) read = ReadOnce(name);
    if (read.ok()) world_.history.Found(name.name, name.version, read->chain_tip);
    if (IsNotFound(read.status())) world_.history.NotFound(name.name, name.version, began);
  }

  /// Reads the latest version from an owner by chance while it is hot, and else from the nearest.
  void ReadHot(const DocumentName& name) {
    if (view_ == nullptr || world_.scheduler.Now() >= view_until_) {
      const auto view = View();
      if (view.ok()) view_ = *view;
      view_until_ = world_.scheduler.Now() + kViewAge;
    }
    if (view_ == nullptr) return;
    const cluster::Placement placement(view_);
    const auto owners = placement.OwnersOf(KeyOf(name), placement.CopiesOf(KeyOf(name)));
    if (owners.members.empty()) return;
    const size_t drawn =
        placement.IsHot(KeyOf(name)) ? world_.scheduler.random().Below(owners.members.size()) : 0;
    const auto read = Ask<Document>(view_->members[owners.members[drawn]].name,
                                    [this, name](SimNode& node) { return ReadAt(node, name); });
    if (read.ok() && drawn >= view_->settings.replicas) ++world_.num_read_at_extra;
    if (IsNotFound(read.status())) ++hot_;
  }

  void SetTag() {
    const auto wanted = world_.history.Any(world_.scheduler.random().Next());
    if (!wanted) return;
    const DocumentName name = {.name = wanted->name, .version = wanted->version};
    const auto owner = OwnerOf(name);
    if (!owner.ok()) return;
    const auto value = static_cast<int64_t>(world_.scheduler.random().Below(1000));
    (void)Ask<bool>(*owner, [name, value](SimNode& node) -> StatusOr<bool> {
      QUIRE_RETURN_IF_ERROR(node.SetTag(name, value));
      return true;
    });
  }

  void Delete(bool one_version) {
    const auto wanted = world_.history.Any(world_.scheduler.random().Next());
    if (!wanted) return;
    const DocumentName name = {.name = wanted->name, .version = one_version ? wanted->version : 0};
    const auto owner = OwnerOf(name);
    if (!owner.ok()) return;
    const size_t deletion =
        world_.history.BeginDelete(name.name, name.version, world_.scheduler.Now());
    const auto deleted = Ask<bool>(*owner, [name](SimNode& node) -> StatusOr<bool> {
      QUIRE_RETURN_IF_ERROR(node.Delete(name));
      return true;
    });
    // A deletion that found nothing has not deleted what comes.
    if (deleted.ok()) world_.history.EndDelete(deletion, world_.scheduler.Now());
  }

  SimWorld& world_;
  const std::string self_;
  const uint32_t number_;
  std::shared_ptr<const cluster::ClusterView> view_;  ///< View that RunHot uses.
  uint64_t hot_ = 0;                                  ///< Number of the document that it reads.
  TimePoint view_until_{};
};

}  // namespace

void RunSimClient(SimWorld* world, uint32_t number) { SimClient(world, number).Run(); }
void RunSimHotReader(SimWorld* world, uint32_t number) {
  SimClient(world, world->scenario.clients + number).RunHot();
}

}  // namespace quire::sim
